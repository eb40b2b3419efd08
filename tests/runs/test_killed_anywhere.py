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
    ("script", "words", "least"),
    [
        ("fault_injection", ("fit", "--first", "1", "--every", "9"), 4),
        ("fault_injection", ("train", "--first", "15", "--every", "60"), 3),
        ("fault_injection", ("refit", "--first", "30", "--every", "70"), 3),
        ("fault_injection", ("judged", "--fault", "full-disk", "--first", "5", "--every", "16"), 2),
        ("hostile_input", ("kills", "--most", "3"), 3),
        ("hostile_input", ("altered", "--most", "12"), 12),
    ],
)
def test_a_sample_of_the_attacks(tmp_path, script, words, least):
    out = tmp_path / "found.json"
    done = subprocess.run(
        [sys.executable, HERE / "benchmarks" / f"{script}.py", *words, "--out", out],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{HERE / 'src'}{os.pathsep}{HERE / 'benchmarks'}"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = json.loads(out.read_text()).values()
    for one in found.values() if script == "fault_injection" else (found,):
        assert one["tried"] >= least
        assert one["wrong"] == []
