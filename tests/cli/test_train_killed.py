"""A training that is killed goes on when the same command is given again, and ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
from tests.tables import people

WORDS = (
    "people.csv", "--label", "income", "--group", "sex", "--method", "forml", "--epochs", "12", "--patience", "0",
    "--device", "cpu",
)  # fmt: skip


def command(folder, out, *more):
    return subprocess.Popen(
        [sys.executable, "-m", "fairweight", "train", *WORDS, "--out", out, *more],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def killed_at(process: subprocess.Popen, words: str) -> None:
    """Wait until the program says so, and kill it."""
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            break
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stderr.close()
    assert process.stdout is not None
    process.stdout.close()


def finished(process: subprocess.Popen) -> tuple[str, str]:
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    return out, err


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("desk")
    people(800).to_csv(folder / "people.csv", index=False)
    finished(command(folder, "whole"))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["forml: epoch 5/12", "uniform: epoch 3/12"])
def test_kill_and_the_same_command_again(desk, moment):
    out = moment.split(":")[0]
    killed_at(command(desk, out), moment)
    assert not (desk / out / ("metrics.json" if out == "forml" else "uniform/metrics.json")).exists()
    screen, log = finished(command(desk, out))
    assert f"{moment.rsplit(' ', 1)[0]} 1/12" not in log, "it began from the start"
    for place in ("", "uniform/"):
        ours = json.loads((desk / out / f"{place}metrics.json").read_text())
        whole = json.loads((desk / "whole" / f"{place}metrics.json").read_text())
        for part in (ours["run"], whole["run"]):
            part.pop("seconds")
            for epoch in part["history"]:
                epoch.pop("seconds")
        assert ours == whole
        ours, whole = (pd.read_parquet(desk / run / f"{place}weights.parquet") for run in (out, "whole"))
        pd.testing.assert_frame_equal(ours, whole)
    assert re.search(r"^accuracy ", screen, re.MULTILINE)


@pytest.mark.slow
def test_killed_while_it_reads_leaves_nothing(desk):
    process = command(desk, "early")
    time.sleep(0.5)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (desk / "early").exists()


@pytest.mark.slow
def test_interrupted_by_the_keyboard_says_how_to_go_on(desk):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is born deaf to it
    process = command(desk, "stopped", "--no-baseline")
    signal.signal(signal.SIGINT, before)
    assert process.stderr is not None
    for line in process.stderr:
        if "epoch 2/12" in line:
            break
    process.send_signal(signal.SIGINT)
    err = process.stderr.read()  # communicate would lose what was read ahead
    assert process.wait(timeout=60) == 130
    process.communicate()
    assert "The same command goes on from what is saved" in err
    assert "Traceback" not in err


@pytest.mark.slow
@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_asked_to_end_it_saves_says_so_and_goes_on(desk, name, status):
    if signal.getsignal(getattr(signal, name)) is signal.SIG_IGN:
        pytest.skip(f"{name} is ignored here, as under nohup, and a command that is started inherits that")
    process = command(desk, name, "--no-baseline")
    assert process.stderr is not None
    for line in process.stderr:
        if "epoch 2/12" in line:
            break
    asked = time.monotonic()
    process.send_signal(getattr(signal, name))
    err = process.stderr.read()
    assert process.wait(timeout=60) == status
    assert time.monotonic() - asked < 5
    process.communicate()
    assert "The same command goes on from what is saved" in err
    assert "Traceback" not in err
    assert (desk / name / "checkpoint.safetensors").is_file()
    finished(command(desk, name, "--no-baseline"))
    ours, whole = (pd.read_parquet(desk / run / "weights.parquet") for run in (name, "whole"))
    pd.testing.assert_frame_equal(ours, whole)


@pytest.mark.slow
def test_interrupted_while_it_imports_it_says_so(desk):
    for wait in (0.15, 0.6, 1.2):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        process = command(desk, "imports", "--no-baseline")
        signal.signal(signal.SIGINT, before)
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        if "fairweight" in err or "Stopped" in err:  # before that it is Python's own start, which nobody minds
            assert "Traceback" not in err
            assert process.returncode in (130, -signal.SIGINT)  # both are 130 to a shell
