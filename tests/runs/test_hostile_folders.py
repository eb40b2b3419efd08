"""Run folders that were damaged, or altered by hand: what is read is refused in a sentence, or is harmless."""

import errno
import json
import os
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from tests.runs import hostile
from tests.runs.hostile import JSON, ask, copied, is_one_sentence, places, with_changed

from fairweight.apps.audit import audit_of
from fairweight.errors import BadInput, Damaged, FairweightError
from fairweight.runs.folder import METRICS, MODEL, PREPROCESSING, RUN, SEALED, WEIGHTS, RunFolder
from fairweight.runs.manifest import FILE as MANIFEST
from fairweight.runs.manifest import Manifest
from fairweight.runs.sealed import verify
from fairweight.training.checkpoint import FILE as CHECKPOINT
from fairweight.training.log import FILE as LOG

STRANGE = [None, True, -1, 0, 10**30, 1e308, float("nan"), "", "x", "os:abort", [], [[]], {}, {"": None}]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return hostile.desk(tmp_path_factory.mktemp("hostile"))


def read_all(folder) -> dict[str, str]:
    """Everything that the readers of a run give, as text."""
    run = RunFolder(folder)
    spec = run.read_spec()
    logits = [run.read_logits(part) for part in ("test", "validation", "exemplar")]
    paths = run.read_paths()
    return {
        "run": json.dumps([run.read(name) for name in JSON]),
        "spec": spec.fingerprint,
        "weights": run.read_weights().to_csv(),
        "predictions": run.read_predictions().to_csv(),
        "logits": repr([[None if t is None else t.tolist() for t in part] for part in logits]),
        "paths": repr(None if paths is None else [t.tolist() for t in paths]),
        "model": repr({k: t.tolist() for k, t in load_file(run.checked(MODEL)).items()}),
    }


def refusal(folder, good=None) -> str | None:
    """What the readers say against the folder; where they say nothing, they must give what is good."""
    try:
        found = read_all(folder)
    except FairweightError as error:
        return str(error)
    assert good is None or found == good
    return None


def test_200_flipped_bits_are_found_or_harmless(made, tmp_path):
    draw, run = random.Random(0), copied(made / "run", tmp_path / "run")
    good, files = read_all(run), sorted(path for path in run.iterdir() if path.is_file())
    sizes = [path.stat().st_size for path in files]
    found = 0
    for _ in range(200):
        path = draw.choices(files, sizes)[0]
        content = path.read_bytes()
        place, bit = draw.randrange(len(content)), draw.randrange(8)
        path.write_bytes(content[:place] + bytes([content[place] ^ (1 << bit)]) + content[place + 1 :])
        said = refusal(run, good)
        whole = all(one.fine for one in verify(run))
        path.write_bytes(content)
        assert said is None or path.name in said or MANIFEST in said
        found += said is not None
        assert not whole or path.name == MANIFEST  # spaces between its words say nothing
    assert found > 150
    assert read_all(run) == good


@pytest.mark.parametrize(
    "name", [name for name in SEALED if name not in ("report.html", "MODEL_CARD.md", "suspects.csv", "search.json")]
)
def test_a_changed_file_is_named_by_verify_and_refused_by_who_reads_it(made, tmp_path, name):
    folder = copied(made, tmp_path / "desk")
    content = (folder / "run" / name).read_bytes()
    (folder / "run" / name).write_bytes(content[:-3] + b"   " if name.endswith("l") else content + b" ")
    done = ask(folder, "verify")
    assert done.returncode == 1
    assert f"{name}: it is not as it was written" in done.stdout
    again = ask(folder, "train")  # never "reused"
    assert is_one_sentence(again), again.stderr
    assert name in again.stderr


def test_a_manifest_that_is_gone_or_spoiled_is_no_way_around_it(made, tmp_path):
    run = copied(made / "run", tmp_path / "run")
    (run / MANIFEST).unlink()
    assert not RunFolder(run).finished
    with pytest.raises(Damaged, match=r"manifest.json is not there"):
        RunFolder(run).read_weights()
    shutil.copy(made / "run" / MANIFEST, run)
    values = json.loads((run / MANIFEST).read_text())
    del values["files"][WEIGHTS]
    (run / MANIFEST).write_text(json.dumps(values))
    with pytest.raises(Damaged, match=r"manifest.json cannot be relied on"):
        RunFolder(run).read_weights()


def test_a_run_from_before_manifests_is_read_with_a_note(made, tmp_path):
    folder = copied(made, tmp_path / "desk")
    about = json.loads((folder / "run" / RUN).read_text())
    (folder / "run" / MANIFEST).unlink()
    (folder / "run" / RUN).write_text(json.dumps({k: v for k, v in about.items() if k != "manifest"}))
    done = ask(folder, "predict")
    assert done.returncode == 0
    assert "no manifest.json, so its files are not verified" in done.stderr
    assert "nothing says whether" in ask(folder, "verify").stdout


@pytest.mark.parametrize("verb", ["predict", "suspects", "condense", "audit", "refit"])
@pytest.mark.parametrize("how", ["gone", "empty", "folder", "pipe", "text", "nested"])
def test_a_file_that_is_no_such_file_is_one_sentence(made, tmp_path, verb, how):
    needed = {"predict": MODEL, "suspects": WEIGHTS, "condense": WEIGHTS, "audit": WEIGHTS, "refit": WEIGHTS}[verb]
    for name in (needed, RUN):
        folder = copied(made, tmp_path / name)
        path = folder / "run" / name
        path.unlink()
        if how == "folder":
            path.mkdir()
        elif how == "pipe":
            os.mkfifo(path)
        elif how != "gone":
            path.write_bytes({"empty": b"", "text": b"hello", "nested": b"[" * 100_000}[how])
        if how != "pipe":
            RunFolder(folder / "run").seal()
        done = ask(folder, verb)
        assert is_one_sentence(done), (name, done.returncode, done.stderr[-600:])


def test_a_file_that_may_not_be_read_is_not_called_changed(made, tmp_path, monkeypatch):
    run, opened = copied(made / "run", tmp_path / "run"), Path.open

    def refusing(path, *arguments, **options):
        if path.name == MODEL:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refusing)
    for read in (lambda: RunFolder(run).checked(MODEL), RunFolder(run).verify_all):
        with pytest.raises(BadInput, match=r"model.safetensors cannot be read \(Permission denied\)"):
            read()
    assert verify(run)[0].problems == {MODEL: "it cannot be read, Permission denied"}


def test_a_file_that_a_finished_run_has_lost_is_named_as_lost(made, tmp_path):
    run = copied(made / "run", tmp_path / "run")
    (run / MODEL).unlink()
    for read in (lambda: RunFolder(run).checked(MODEL), RunFolder(run).verify_all):
        with pytest.raises(Damaged, match="it is not there"):
            read()


@pytest.mark.parametrize("way", [("meaning",), ("columns", 0)])
def test_an_entry_that_no_version_knows_is_refused_in_a_sentence(made, tmp_path, way):
    run = copied(made / "run", tmp_path / "run")
    with_changed(run, PREPROCESSING, (*way, "colour"), "red")
    RunFolder(run).seal()
    with pytest.raises(BadInput, match=r"'colour'.*written by another version"):
        RunFolder(run).read_preprocessing()


@pytest.mark.timeout(60)
def test_a_pipe_in_the_place_of_settings_is_not_waited_for(made, tmp_path):
    run = copied(made / "run", tmp_path / "run")
    (run / MANIFEST).unlink()
    (run / RUN).unlink()
    os.mkfifo(run / RUN)
    assert not verify(run)[0].verified
    with pytest.raises(BadInput, match="no regular file"):
        RunFolder(run).read(RUN)


@pytest.mark.slow
def test_every_place_of_every_json_file_may_be_missing_or_strange(made, tmp_path):
    """A sample of what the fuzzer below draws from: each key gone, or its value of another kind."""
    run = copied(made / "run", tmp_path / "run")
    draw = random.Random(1)
    for name in JSON:
        good = (run / name).read_text()
        for way in list(places(json.loads(good))):
            with_changed(run, name, way, draw.choice(STRANGE), drop=bool(way) and draw.random() < 0.5)
            assert "\n" not in (refusal(run) or "")
            (run / name).write_text(good)


@pytest.mark.slow
@settings(max_examples=45, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_altered_by_hand_it_is_refused_in_a_sentence_or_harmless(made, tmp_path_factory, data):
    folder = copied(made, tmp_path_factory.mktemp("fuzz") / "desk")
    name = data.draw(st.sampled_from(JSON))
    ways = list(places(json.loads((folder / "run" / name).read_text())))
    way = data.draw(st.sampled_from(ways))
    drop = bool(way) and data.draw(st.booleans())
    with_changed(folder / "run", name, way, data.draw(st.sampled_from(STRANGE)), drop=drop)
    verb = data.draw(st.sampled_from([verb for verb in hostile.VERBS if verb != "verify"]))
    done = ask(folder, verb)
    assert done.returncode == 0 or is_one_sentence(done), (verb, name, way, done.returncode, done.stderr[-800:])
    shutil.rmtree(folder)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", [CHECKPOINT, LOG])
@pytest.mark.parametrize("how", ["pipe", "link", "folder"])
def test_what_stands_in_an_unfinished_runs_place_is_neither_waited_for_nor_followed(made, tmp_path, name, how):
    folder = copied(made, tmp_path / "desk")
    run = folder / "run"
    RunFolder(run).drop(MANIFEST, METRICS, LOG)  # as a kill leaves it
    {"pipe": os.mkfifo, "link": lambda path: path.symlink_to("/dev/zero"), "folder": os.mkdir}[how](run / name)
    before = sorted(path.name for path in run.iterdir())
    done = ask(folder, "train")
    assert is_one_sentence(done), done.stderr[-800:]
    assert "only a regular file is ever replaced" in done.stderr
    assert sorted(path.name for path in run.iterdir()) == before


def test_a_log_that_is_no_log_does_not_stop_a_training(made, tmp_path):
    folder = copied(made, tmp_path / "desk")
    (folder / "run" / LOG).write_bytes(b'[1]\n"x"\n\xff\n{"step": 0}\n')
    done = ask(folder, "train")
    assert is_one_sentence(done)


@pytest.mark.parametrize("name", ["/etc/hostname", "../people.csv", "a/b", "..", ".", "", "a\0b", "x" * 3000])
def test_a_manifest_that_names_what_is_outside_is_refused(made, tmp_path, name):
    run = copied(made / "run", tmp_path / "run")
    Manifest({**Manifest.read(run).files, name: {"sha256": "0" * 64, "bytes": 1}}).write(run)
    assert "names what is no file of a run" in refusal(run)
    with pytest.raises(Damaged):
        RunFolder(run).verify_all()
    assert not verify(run)[0].fine


def test_a_manifest_that_leaves_a_file_out_is_not_whole(made, tmp_path):
    run = copied(made / "run", tmp_path / "run")
    files = {name: entry for name, entry in Manifest.read(run).files.items() if name != MODEL}
    Manifest(files).write(run)
    assert verify(run)[0].problems == {MODEL: "the manifest does not know it"}
    with pytest.raises(Damaged, match="does not know it"):
        RunFolder(run).verify_all()


@pytest.mark.parametrize("name", [RUN, MODEL, WEIGHTS, MANIFEST])
def test_a_link_out_of_the_folder_is_not_followed(made, tmp_path, name):
    run = copied(made / "run", tmp_path / "run")
    shutil.move(run / name, tmp_path / "outside")
    (run / name).symlink_to(tmp_path / "outside")
    assert "a link that leads out" in refusal(run)
    assert not verify(run)[0].fine


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.assign(row=-1 - frame["row"]),
        lambda frame: frame.assign(weight=float("inf")),
        lambda frame: frame[["row"]],
    ],
)
def test_a_table_that_no_run_writes_is_refused(made, tmp_path, change):
    import pandas as pd

    run = copied(made / "run", tmp_path / "run")
    change(pd.read_parquet(run / WEIGHTS)).to_parquet(run / WEIGHTS)
    RunFolder(run).seal()
    assert "is not as a run writes it" in refusal(run)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_numbers_that_were_being_replaced_are_whole_and_settled_later(made, tmp_path, moment):
    run = RunFolder(copied(made / "run", tmp_path / "run"))
    new = (run.path / METRICS).read_bytes() + b"\n"
    Manifest.read(run.path).while_replaced({METRICS: new, "new.txt": b"x"}).write(run.path)
    if moment == "after":
        (run.path / METRICS).write_bytes(new)
    assert RunFolder(run.path).read(METRICS)
    assert all(one.fine for one in verify(run.path))
    run.verify_all()
    assert Manifest.read(run.path).unsettled == []
    (run.path / METRICS).write_bytes(new + b" ")
    with pytest.raises(Damaged):
        RunFolder(run.path).read(METRICS)


@pytest.mark.parametrize(
    ("name", "way", "value", "refused"),
    [
        (METRICS, ("labels",), [1, "x"], True),
        (METRICS, ("labels", 0), "x", True),
        (RUN, ("data", "group"), None, False),
    ],
)
def test_an_audit_of_names_that_do_not_fit_is_refused_or_harmless(made, tmp_path, name, way, value, refused):
    run = copied(made / "run", tmp_path / "run")
    with_changed(run, name, way, value)
    if refused:
        with pytest.raises(FairweightError, match="names other labels"):
            audit_of(run)
    else:
        assert audit_of(run).title.startswith("Audit")
