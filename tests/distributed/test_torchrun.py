"""`torchrun -m fairweight train` gives the table that one process gives."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.distributed.launch import ROOT


def _table(path: Path) -> Path:
    draw = random.Random(0)
    lines = ["age,hours,city,sex,income"]
    for _ in range(400):
        sex, age, hours = draw.choice("FM"), draw.randint(18, 70), draw.randint(10, 60)
        high = (age - 40) / 15 + (hours - 35) / 12 + (0.8 if sex == "M" else -0.3) + draw.gauss(0, 1) > 0.3
        lines.append(f"{age},{hours},{draw.choice('abc')},{sex},{'high' if high else 'low'}")
    path.write_text("\n".join(lines) + "\n")
    return path


def _run(arguments: list[str], *torchrun: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *(("-m", "torch.distributed.run", *torchrun) if torchrun else ()), "-m", *arguments]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=200, check=False)


TWO = ("--nproc-per-node", "2")


def _flat(values: Any, name: str = "") -> dict[str, float]:
    """Numbers by their path, for pytest.approx."""
    if not isinstance(values, dict):
        return {name: values}
    return {path: n for key, inner in values.items() for path, n in _flat(inner, f"{name}/{key}").items()}


@pytest.mark.slow
def test_two_processes_give_the_table_of_one(tmp_path: Path) -> None:
    table = _table(tmp_path / "people.csv")
    found: list[dict[str, Any]] = []
    for torchrun in ((), TWO):
        out = tmp_path / f"run_{len(torchrun)}"
        wanted = f"train {table} --label income --group sex --method forml --epochs 2 --out {out} --json"
        done = _run(["fairweight", *wanted.split()], *torchrun)
        assert done.returncode == 0, done.stderr[-2000:]
        printed = json.loads(done.stdout)  # one object: one rank speaks
        found.append(printed["metrics"])
        assert len((out / "log.jsonl").read_text().splitlines()) == 4  # start, two epochs, end
    run_one, run_two = (numbers.pop("run") for numbers in found)
    spread_one, spread_two = (numbers.pop("scores") for numbers in found)
    sure_one, sure_two = (_flat(numbers.pop("calibration")) for numbers in found)
    assert found[0] == found[1]
    assert sure_two == pytest.approx(sure_one, rel=1e-5)  # probabilities are summed in float32
    assert spread_two == pytest.approx(spread_one, rel=1e-4)
    assert [e["loss"] for e in run_two["history"]] == pytest.approx([e["loss"] for e in run_one["history"]], rel=1e-5)


@pytest.mark.slow
def test_without_a_method_torchrun_gives_what_one_process_gives(tmp_path: Path) -> None:
    """Candidates on a table are compared by one process; the others leave."""
    table = _table(tmp_path / "people.csv")
    found: list[dict[str, Any]] = []
    for torchrun in ((), TWO):
        out = tmp_path / f"run_{len(torchrun)}"
        wanted = f"train {table} --label income --group sex --candidates reweighing --learner linear --out {out} --json"
        done = _run(["fairweight", *wanted.split()], *torchrun)
        assert done.returncode == 0, done.stderr[-2000:]
        found.append(json.loads(done.stdout)["metrics"])
        assert ("--method" in done.stderr) == bool(torchrun)
    names = ("accuracy", "tprd", "max_fnr", "groups", "chosen", "verdict")
    assert [found[0][name] for name in names] == [found[1][name] for name in names]
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "notes.txt").write_text("no run")
    refused = _run(["fairweight", *wanted.replace(str(out), str(tmp_path / "notes")).split()], *TWO)
    assert refused.returncode != 0
    assert "holds files that are no run" in refused.stderr, "the others have left: the first one says it by itself"
    assert "fairweight/ranks.py" not in refused.stderr, "without a traceback of ours"


@pytest.mark.slow
def test_verbs_that_take_one_process_speak_once() -> None:
    alone, together = (_run(["fairweight", "list", "objectives"], *torchrun) for torchrun in ((), TWO))
    assert together.returncode == 0, together.stderr[-2000:]
    assert together.stdout == alone.stdout
    assert together.stderr.count("only train uses several processes") == 1


@pytest.mark.slow
def test_what_cannot_be_is_said_once(tmp_path: Path) -> None:
    table = _table(tmp_path / "people.csv")
    wanted = f"train {table} --label wages --group sex --out {tmp_path / 'run'}"
    done = _run(["fairweight", *wanted.split()], *TWO)
    assert done.returncode != 0
    assert done.stderr.count("fairweight: ") == 1
    assert "wages" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_killed_rank_is_started_again_and_the_run_ends_bit_for_bit(tmp_path: Path) -> None:
    done = _run(["tests.distributed.killed", str(tmp_path)], *TWO, "--max-restarts", "1")
    assert done.returncode == 0, done.stderr[-2000:]
    found = torch.load(tmp_path / "found.pt", weights_only=True)
    assert all(torch.equal(found["killed"][key], value) for key, value in found["whole"].items())
    logs = {name: (tmp_path / name / "log.jsonl").read_text() for name in found}
    assert ['"resume"' in logs[name] for name in ("killed", "whole")] == [True, False]
