"""Bad input to `fairweight train`: one sentence on stderr, exit status 2, no traceback, nothing half-written."""

from __future__ import annotations

import errno
import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from tests.command import fairweight
from tests.tables import people

Made = tuple[str, ...]  # words after `fairweight train`


def csv(folder: Path, frame: pd.DataFrame | None = None, name: str = "p.csv", **form) -> str:
    (people(120) if frame is None else frame).to_csv(folder / name, index=False, **form)
    return name


def raw(folder: Path, content: bytes, name: str = "p.csv") -> str:
    (folder / name).write_bytes(content)
    return name


def pictures(folder: Path, sizes=((8, 8),), broken: bool = False) -> str:
    for place in range(24):
        path = folder / "pictures" / "ab"[place % 2] / f"{place:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        out = io.BytesIO()
        Image.new("RGB", sizes[place % len(sizes)], place).save(out, "PNG")
        path.write_bytes(out.getvalue()[: 40 if broken and place == 5 else None])
    return "pictures"


def given(*words: str, label: str = "income", group: str = "sex") -> Made:
    method = () if "--method" in words else ("--method", "forml")
    return (*words, "--label", label, "--group", group, *method)


def changed(folder: Path, **columns) -> str:
    return csv(folder, people(120).assign(**columns))


PARTS = ["train", "train", "train", "test"] * 30
NUMBERS = np.random.default_rng(0).normal(size=120)
CASES: dict[str, tuple[Callable[[Path], Made], str]] = {
    # -- files
    "no such file": (lambda f: given("nobody.csv"), "no file or folder 'nobody.csv'"),
    "a misspelt set": (lambda f: ("adlut",), "did you mean 'adult'"),
    "a set that is not there": (lambda f: ("adult", "--data-dir", str(f)), "put adult.data"),
    "an empty file": (lambda f: given(raw(f, b"")), "is empty"),
    "a header alone": (lambda f: given(raw(f, b"age,sex,income\n")), "no rows"),
    "no header": (lambda f: given(raw(f, b"1,2,3\n4,5,6\n")), "add a header line"),
    "time for one method": (
        lambda f: (*given(csv(f)), "--time", "9s"),
        "--time has a say only where candidates are compared, and forml alone is trained: leave it out, or give no",
    ),
    "thresholds for one method": (lambda f: (*given(csv(f)), "--groups-at-prediction"), "leave it out, or"),
    "a linear model for one method": (lambda f: (*given(csv(f)), "--learner", "linear"), "leave it out, or"),
    "trees as a network": (lambda f: (*given(csv(f)), "--network", "trees"), "give --learner trees instead"),
    "seeds for one objective": (
        lambda f: (csv(f), "--label", "income", "--group", "sex", "--objective", "mean", "--seeds", "2"),
        "--seeds has a say only .* forml alone is trained: leave it out, or give .* none of its options",
    ),
    "seeds on images": (lambda f: ("digits", "--seeds", "3"), "--seeds has a say only .* which takes a table"),
    "candidates beside a network": (
        lambda f: (csv(f), "--label", "income", "--network", "torch.nn:Identity", "--candidates", "plain"),
        "--candidates has a say only where .* no network of your own: leave it out",
    ),
    "another delimiter": (lambda f: (*given(csv(f)), "--delimiter", ";"), "separated by ',' .*--delimiter"),
    "Latin-1": (lambda f: given(csv(f, people(120).assign(job="cafetière"), encoding="latin-1")), "--encoding"),
    "a line too long": (lambda f: given(raw(f, b"age,sex,income\n1,F,high\n2,M,low,9\n")), "3 columns in every line"),
    "a column twice": (lambda f: given(raw(f, b"x,x,sex,income\n1,2,F,high\n3,4,M,low\n")), "two different columns"),
    "truncated parquet": (lambda f: given(cut(f)), "not a whole parquet file"),
    "text called parquet": (lambda f: given(raw(f, b"age,sex\n1,F\n", "p.parquet")), "not a whole parquet file"),
    "parquet called text": (lambda f: given(parquet(f, "p.csv")), "rename it to .parquet"),
    "an empty folder": (lambda f: (empty(f),), "no images|holds no|no folder|no image"),
    "a corrupt image": (lambda f: (pictures(f, broken=True),), "05.png"),
    "images of two channels": (lambda f: (pictures(f), "--channels", "2"), "--channels is 2; choose from: 1, 3"),
    "images of two sizes": (lambda f: (pictures(f, ((8, 8), (9, 8))),), "--image-size"),
    # -- labels and groups
    "no such label": (lambda f: given(csv(f), label="incom"), "no label column 'incom'.*did you mean 'income'"),
    "no label named": (lambda f: (csv(f),), "--label"),
    "one class": (lambda f: given(changed(f, income="high")), "one class|one label|two classes"),
    "a label that is a number": (lambda f: given(changed(f, income=NUMBERS)), "number"),
    "labels missing": (lambda f: given(changed(f, income=blanks("income"))), "--missing-labels drop"),
    "no such group": (lambda f: given(csv(f), group="gender"), "no group column 'gender'"),
    "one group": (lambda f: given(changed(f, sex="F")), "one group only"),
    "a group of one": (lambda f: given(changed(f, sex=["X"] + ["F", "M"] * 59 + ["F"])), "--small-groups"),
    "an id as group": (lambda f: given(csv(f), group="id"), "too many groups|probably an id"),
    "no group": (lambda f: given(changed(f, sex=blanks("sex")), "--missing-groups", "refuse"), "--missing-groups"),
    "label as group": (lambda f: given(csv(f), group="income"), "named as label and as group"),
    "small groups, squashed": (lambda f: given(csv(f), "--small-groups", "squash"), "--small-groups is 'squash'"),
    # -- inputs and parts
    "no such number column": (lambda f: given(csv(f), "--numeric", "agee"), "did you mean 'age'"),
    "nothing to learn from": (lambda f: given(csv(f), "--drop", "age,hours,job,joined,race"), "no column is left"),
    "too much test": (lambda f: given(csv(f), "--test", "1.5"), "--test is 1.5"),
    "no such test file": (lambda f: given(csv(f), "--test", "t.csv"), "no file 't.csv'"),
    "a test file without a column": (lambda f: given(csv(f), "--test", lacking(f)), "test rows lack the column 'age'"),
    "no such split column": (lambda f: given(csv(f), "--split-column", "part"), "to split by"),
    "a share beside a split column": (
        lambda f: given(changed(f, part=PARTS), "--split-column", "part", "--test", "0.2"),
        "column 'part' says which rows are test, so --test 0.2 .*leave one",
    ),
    "an image size for a table": (lambda f: given(csv(f), "--image-size", "32"), "--image-size is for images"),
    "pixels' memory for a table": (lambda f: given(csv(f), "--memory-gb", "2"), "--memory-gb is for images"),
    "the usual memory for a table": (lambda f: given(csv(f), "--memory-gb", "8"), "--memory-gb .*is for images"),
    "too many exemplars": (lambda f: given(csv(f), "--exemplar-size", "500"), "--exemplar-size"),
    "exemplars from nowhere": (
        lambda f: given(csv(f), "--validation", "0", "--exemplars", "validation"),
        "--validation",
    ),
    "an unknown corruption": (lambda f: given(csv(f), "--corrupt", "gremlins:fraction=0.2"), "not a corruption"),
    "a corruption to no label": (lambda f: given(csv(f), "--corrupt", "one-class:label=middle"), "the label 'middle'"),
    "a limit of nothing": (lambda f: given(csv(f), "--limit", "0"), "limit is 0"),
    # -- settings
    "no such method": (lambda f: given(csv(f), "--method", "formal"), "choose from: .*forml"),
    "no such objective": (lambda f: given(csv(f), "--objective", "meen"), "choose from: .*mean"),
    "an objective for none": (
        lambda f: given(csv(f), "--method", "uniform", "--objective", "mean"),
        "no option 'objective'",
    ),
    "no such option": (lambda f: given(csv(f), "--option", "tye=cell"), "has no option 'tye'"),
    "a number in words": (lambda f: given(csv(f), "--option", "every=two"), "every='two'; give a whole number"),
    "half of a step": (lambda f: given(csv(f), "--option", "every=2.5"), "give a whole number"),
    "no number": (lambda f: given(csv(f), "--option", "score_step.heed=NaN"), "score_step: heed=nan; give a number"),
    "a step in one word": (lambda f: given(csv(f), "--option", "score_step=adaptive"), "such as score_step.rate=0.1"),
    "a look ahead in a number": (lambda f: given(csv(f), "--option", "look_ahead=5"), "such as look_ahead.lr=0.1"),
    "an objective in a number": (lambda f: given(csv(f), "--option", "objective=5"), "5 is no objective"),
    "a loss in words": (lambda f: given(csv(f), "--option", "loss=hinge"), "only Python can give"),
    "an objective as an option": (lambda f: given(csv(f), "--option", "objective=meen"), "choose from: .*mean"),
    "neither true nor false": (lambda f: given(csv(f), "--option", "own=maybe"), "give true or false"),
    "a rate in words": (lambda f: given(csv(f), "--option", "look_ahead.lr=fast"), "look_ahead: lr='fast'"),
    "an option without value": (lambda f: given(csv(f), "--option", "tie"), "name=value"),
    "a tie to nothing": (lambda f: given(csv(f), "--option", "tie=knot"), "choose 'label', 'group', 'cell'"),
    "no such optimizer": (lambda f: given(csv(f), "--optimizer", "adamm"), "sgd, adam or adamw"),
    "no such network": (lambda f: given(csv(f), "--network", "vgg"), "mlp, resnet18"),
    "images' network": (lambda f: given(csv(f), "--network", "resnet18"), "rows of a table"),
    "no such module": (lambda f: given(csv(f), "--network", "nets:Mine"), "cannot be imported"),
    "widths in words": (lambda f: given(csv(f), "--hidden", "wide"), "--hidden wide"),
    "negative patience": (lambda f: given(csv(f), "--patience", "-1"), "--patience -1.*from 1, or 0"),
    "less than nothing given up": (lambda f: given(csv(f), "--trade-off", "--give-up", "-3"), "--give-up -3.*from 0"),
    "nothing swept, less given up": (lambda f: given(csv(f), "--give-up", "-3"), "--give-up -3.*from 0"),
    "a scope in a number": (lambda f: given(csv(f), "--option", "scope=77"), "scope='77' is no submodule of the model"),
    "a gradient in a number": (lambda f: given(csv(f), "--option", "gradient=5"), "gradient=5.*choose 'auto'"),
    "a form in a number": (lambda f: given(csv(f), "--option", "form=5"), "form"),
    "a tie in a number": (lambda f: given(csv(f), "--option", "tie=5"), "tie"),
    "no epochs": (lambda f: given(csv(f), "--epochs", "0"), "--epochs 0; give a whole number from 1"),
    "a negative rate": (lambda f: given(csv(f), "--lr", "-1"), "--lr -1.0; give a number above 0"),
    "no rate at all": (lambda f: given(csv(f), "--lr", "inf"), "--lr inf; give a number above 0"),
    "no rows in a step": (lambda f: given(csv(f), "--batch-size", "0"), "--batch-size 0; give a whole number from 1"),
    "a negative decay": (lambda f: given(csv(f), "--weight-decay", "-1"), "--weight-decay -1.0; give a number from 0"),
    "no such device": (lambda f: given(csv(f), "--device", "cuda:9"), "not on this machine"),
    "a device of fancy": (lambda f: given(csv(f), "--device", "abacus"), "--device abacus"),
    "a sweep of nothing": (lambda f: given(csv(f), "--method", "uniform", "--trade-off"), "no objective"),
    "strengths and no sweep": (lambda f: given(csv(f), "--strengths", "1,2"), "--strengths is for --trade-off alone"),
    "given up and no sweep": (lambda f: given(csv(f), "--give-up", "2"), "--give-up is for --trade-off alone"),
    "strengths in words": (lambda f: given(csv(f), "--trade-off", "--strengths", "weak,strong"), "--strengths"),
    "a strength below 0": (lambda f: given(csv(f), "--trade-off", "--strengths", "-1,1"), "above 0"),
    "a sweep without validation": (lambda f: given(csv(f), "--trade-off", "--validation", "0"), "--validation 0.1"),
}


def cut(folder: Path) -> str:
    whole = folder / parquet(folder, "p.parquet")
    whole.write_bytes(whole.read_bytes()[:-50])
    return whole.name


def parquet(folder: Path, name: str) -> str:
    people(120).to_parquet(folder / name)
    return name


def empty(folder: Path) -> str:
    (folder / "empty").mkdir()
    return "empty"


def blanks(column: str) -> pd.Series:
    return people(120)[column].where(np.arange(120) % 10 > 0)


def lacking(folder: Path) -> str:
    return csv(folder, people(60, seed=1).drop(columns="age"), "t.csv")


@pytest.fixture(autouse=True)
def _no_data_at_hand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FAIRWEIGHT_DATA", raising=False)
    monkeypatch.setenv("FAIRWEIGHT_CACHE", str(tmp_path / "cache"))


def assert_one_sentence(done) -> None:
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert done.stdout == ""
    assert re.fullmatch(r"fairweight: .+\.\n", done.stderr), done.stderr
    assert len(done.stderr) < 500


@pytest.mark.parametrize("case", CASES, ids=list(CASES))
def test_bad_input_is_one_sentence(case, tmp_path):
    make, words = CASES[case]
    folder = tmp_path / "desk"
    folder.mkdir()
    done = fairweight(folder, "train", *make(folder), "--out", "new/run")
    assert_one_sentence(done)
    assert re.search(words, done.stderr), done.stderr
    assert not (folder / "new").exists()
    assert not (folder / "runs").exists()


def test_out_is_a_file(tmp_path):
    csv(tmp_path)
    (tmp_path / "note").write_text("mine")
    assert_one_sentence(fairweight(tmp_path, "train", *given("p.csv"), "--out", "note"))
    assert_one_sentence(fairweight(tmp_path, "train", *given("p.csv"), "--out", "note/inside"))
    assert (tmp_path / "note").read_text() == "mine"


def test_out_holds_other_things(tmp_path):
    csv(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("words")
    done = fairweight(tmp_path, "train", *given("p.csv"), "--out", "mine", "--fresh")
    assert_one_sentence(done)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_a_share_beside_a_split_column_without_that_part_is_drawn(tmp_path):
    changed(tmp_path, part=["train", "train", "train", "validation"] * 30)
    words = given("p.csv", "--split-column", "part", "--test", "0.25", "--epochs", "1", "--no-baseline")
    done = fairweight(tmp_path, "train", *words, "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "drawn from train" in done.stderr


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_full_or_locked_disk(number, tmp_path, monkeypatch):
    from fairweight.training import state

    def fail(path, content):
        raise OSError(number, {errno.ENOSPC: "No space left on device"}.get(number, "Permission denied"), str(path))

    csv(tmp_path)
    monkeypatch.setattr(state, "write_atomically", fail)
    done = fairweight(tmp_path, "train", *given("p.csv"), "--out", "new/run")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.strip().splitlines()[-1].startswith("fairweight: ")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "new").exists()


def test_a_disk_that_fills_up_after_an_epoch_keeps_what_can_be_taken_up(tmp_path, monkeypatch):
    from fairweight.training import state

    csv(tmp_path)
    real, written = state.write, []

    def fail_late(tree, path):
        written.append(path.name)
        if written.count("checkpoint.safetensors") > 2:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        real(tree, path)

    monkeypatch.setattr(state, "write", fail_late)
    done = fairweight(tmp_path, "train", *given("p.csv"), "--out", "run", "--epochs", "6")
    assert done.returncode == 2
    monkeypatch.setattr(state, "write", real)
    assert (tmp_path / "run" / "checkpoint.safetensors").is_file()
    done = fairweight(tmp_path, "train", *given("p.csv"), "--out", "run", "--epochs", "6")
    assert done.returncode == 0, done.stderr
    assert "epoch 1/6" not in done.stderr.split("uniform:")[0]


def test_a_loss_that_is_not_finite_says_what_to_do(tmp_path):
    csv(tmp_path)
    done = fairweight(tmp_path, "train", *given("p.csv"), "--out", "run", "--lr", "1e30", "--optimizer", "sgd")
    assert done.returncode == 2
    assert "learning rate" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
