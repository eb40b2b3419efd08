"""Killed at any call that touches the disk, a run goes on to the same end and leaves nothing behind.

Each of these tests takes a sample of the calls; `python -m tests.runs.injected WHAT 1` takes all of them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.command import fairweight
from tests.tables import people

HERE = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(("what", "every"), [("fit", 6), ("train", 23), ("refit", 23)])
def test_killed_at_a_call(tmp_path, what, every):
    people(160).to_csv(tmp_path / "people.csv", index=False)
    if what == "refit":
        words = ("people.csv", "--label", "income", "--group", "sex", "--epochs", "2", "--hidden", "4", "--no-baseline")
        assert fairweight(tmp_path, "train", *words, "--out", "first").returncode == 0
    done = subprocess.run(
        [sys.executable, "-m", "tests.runs.injected", what, str(every)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{HERE / 'src'}{os.pathsep}{HERE}"},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["calls"] > 40
    assert found["failures"] == []
