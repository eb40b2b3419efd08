"""fairweight reproduce, as a user meets it."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fairweight.cli import main
from fairweight.data.sets.celeba import ATTRIBUTES

QUICK = ["reproduce", "mnist", "--quick", "--seeds", "2", "--rows", "uniform,forml-default", "--epochs", "2"]


@pytest.fixture
def fairweight(monkeypatch, tmp_path, capsys):
    """Run the command in an empty folder: (status, out, err)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FAIRWEIGHT_DATA", raising=False)
    monkeypatch.setenv("FAIRWEIGHT_CACHE", str(tmp_path / "cache"))

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fairweight", *words])
        with pytest.raises(SystemExit) as stopped:
            main()
        said = capsys.readouterr()
        return int(stopped.value.code or 0), said.out, said.err

    return run


@pytest.mark.slow
def test_a_table_by_one_command_and_again(fairweight, tmp_path):
    status, out, err = fairweight(*QUICK, "--jobs", "1")
    assert status == 0, err
    assert "mnist: MNIST, 20 % of the training labels set to 2" in out
    assert "Size: quick" in out
    assert "8.59" not in out, "printed numbers are of the full size"
    assert err.count("trained in ") == 4
    (record,) = (tmp_path / "records").glob("*_mnist-quick/record.json")
    assert {row["key"] for row in json.loads(record.read_text())["rows"]} == {"uniform", "forml-default"}
    status, out, err = fairweight(*QUICK, "--json")
    assert status == 0
    assert err.count("found finished") == 4
    assert json.loads(out)["rows"][0]["means"]["tprd"]["verdict"]


@pytest.mark.slow
def test_the_status_of_every_table(fairweight):
    status, out, _ = fairweight("reproduce", "--status")
    assert "There is no folder records here; --records names" in out
    assert status == 0
    assert "celeba-young     not run" in out
    status, out, _ = fairweight(
        "reproduce", "--status", "--json", "--records", str(Path(__file__).parents[2] / "records")
    )
    states = {one["table"]: one["state"] for one in json.loads(out)["tables"]}
    assert states["mnist"] == "not reproduced"
    status, _, err = fairweight("reproduce")
    assert status == 2
    assert "name a table" in err


def test_a_plan_trains_nothing(fairweight, tmp_path):
    status, out, _ = fairweight("reproduce", "cifar10", "--plan", "--short")
    assert status == 0
    assert "exemplar=heldout [heldout|inside]" in out
    assert "Size: short: 8 epochs" in out
    assert "Size: full: " in fairweight("reproduce", "cifar10", "--plan")[1], "as the pages call it"
    status, out, _ = fairweight("reproduce", "cifar10", "--plan", "--json", "--rows", "forml-reverse", "--seeds", "1")
    plan = json.loads(out)
    assert plan["rows"]["forml-reverse"]["runs"]["0"]["method_options"]["look_ahead"] == {"reverse": True}
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["reproduce", "nosuch"], "there is no table 'nosuch'; choose from:"),
        (["reproduce", "mnist", "--quick", "--short"], "give one of them"),
        (["reproduce", "mnist", "--quick", "--rows", "nobody"], "no row of this table"),
        (["reproduce", "mnist", "--quick", "--option", "layers"], "write NAME=VALUE"),
        (["reproduce", "mnist", "--quick", "--option", "selection=first"], "choose from: best, last"),
        (["reproduce", "mnist", "--quick", "--engine", "slurm"], "choose processes or ray"),
        (["reproduce", "mnist", "--quick", "--device", "cuda:99"], "not on this machine"),
        (["reproduce", "cifar10", "--quick", "--seeds", "1"], "cifar10 is not here: put data_batch_1.bin"),
        (["reproduce", "celeba", "--quick", "--data-dir", "x"], "--download (from"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(fairweight, tmp_path, words, sentence):
    status, out, err = fairweight(*words)
    assert status == 2
    assert sentence in err
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert out == ""
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "records").exists()


def make_celeba(folder: Path, count: int = 240) -> None:
    """Faces of noise in the published layout; Attractive shows in the brightness, Male in the colour."""
    draw = np.random.default_rng(0)
    (folder / "img_align_celeba").mkdir(parents=True)
    lines, parts = [str(count), " ".join(ATTRIBUTES)], []
    for number in range(count):
        file = f"{number + 1:06d}.jpg"
        pixels = draw.integers(0, 90, (218, 178, 3), dtype=np.uint8)
        answers = {name: bool(draw.random() < 0.5) for name in ATTRIBUTES}
        pixels += np.uint8(100 * answers["Attractive"])
        pixels[..., 0] += np.uint8(60 * answers["Male"])
        Image.fromarray(pixels).save(folder / "img_align_celeba" / file, quality=40)
        lines.append(f"{file} " + " ".join("1" if answers[name] else "-1" for name in ATTRIBUTES))
        parts.append(f"{file} {0 if number < count // 2 else 1 if number < 3 * count // 4 else 2}")
    (folder / "list_attr_celeba.txt").write_text("\n".join(lines) + "\n")
    (folder / "list_eval_partition.txt").write_text("\n".join(parts) + "\n")


@pytest.mark.slow
def test_celeba_with_its_threshold_controls(fairweight, tmp_path):
    make_celeba(tmp_path / "data" / "celeba")
    rows = "uniform,forml,uniform-at-forml"
    words = ["reproduce", "celeba", "--quick", "--seeds", "1", "--rows", rows, "--epochs", "1", "--jobs", "1", "--json"]
    status, out, err = fairweight(*words, "--data-dir", str(tmp_path / "data"))
    assert status == 0, err
    found = {row["key"]: row for row in json.loads(out)["rows"]}
    assert set(found) == set(rows.split(","))
    rates = {key: row["seeds"]["0"]["positive_rate"] for key, row in found.items()}
    assert rates["uniform-at-forml"] == pytest.approx(rates["forml"])
    assert "equalised_odds_gap" in found["uniform"]["seeds"]["0"]
    assert found["forml"]["means"]["accuracy"]["printed"]["mean"] == 81.63


@pytest.mark.slow
def test_it_runs_from_a_plain_source_tree(tmp_path):
    """As on a machine where the package is not installed: its source alone, by python -m."""
    source = Path(__file__).resolve().parents[2] / "src"
    done = subprocess.run(
        [sys.executable, "-m", "fairweight", "reproduce", "mnist", "--plan"],
        env={"PYTHONPATH": str(source), "PATH": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "lb_iterations=15" in done.stdout
