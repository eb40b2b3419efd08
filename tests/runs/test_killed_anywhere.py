"""Killed, or out of space, at any call that touches the disk, a run goes on to the same end and leaves nothing behind.

Each of these takes a sample of the calls; `python benchmarks/fault_injection.py` takes all of them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("fault_injection", ("fit", "train", "refit", "judged", "--first", "7", "--every", "67")),
        ("hostile_input", ("kills", "altered", "--most", "4")),
    ],
)
def test_a_sample_of_the_attacks(tmp_path, script, words):
    out = tmp_path / "found.json"
    done = subprocess.run(
        [sys.executable, HERE / "benchmarks" / f"{script}.py", *words, "--out", out],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{HERE / 'src'}{os.pathsep}{HERE / 'benchmarks'}"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    several = [one for by_fault in found.values() for one in by_fault.values()] if "fit" in found else found.values()
    assert sum(one["tried"] for one in several) >= 8
    assert all(one["tried"] and one["wrong"] == [] for one in several)
