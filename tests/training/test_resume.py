"""A run that is killed at any moment and resumed ends bit for bit as one that is not."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import fairweight as fw
from fairweight.errors import BadCheckpoint, BadInput, NoSpace
from fairweight.training.state import flatten, load, save

SCRIPT = Path(__file__).with_name("run_for_kill.py")


def start(folder: Path, seconds: float) -> subprocess.Popen[bytes]:
    folder.mkdir(exist_ok=True)
    with (folder / "stderr").open("wb") as complaints:
        return subprocess.Popen([sys.executable, str(SCRIPT), str(folder), str(seconds)], stderr=complaints)


def reached(sign: Path) -> int:
    """The step that a run says it is at."""
    return int(sign.read_text() or -1) if sign.exists() else -1


@pytest.mark.slow
def test_killed_and_resumed_equals_undisturbed(tmp_path):
    whole = start(tmp_path / "whole", 0.0)
    broken = tmp_path / "broken"
    moments = random.Random(0)
    steps_at_kill = []
    while len(steps_at_kill) < 2:
        (broken / "sign").unlink(missing_ok=True)
        victim = start(broken, 0.04)
        began, sign = time.monotonic(), broken / "sign"
        # By steps, not seconds: on a busy machine the first step alone may take longer than any pause.
        wanted = max(steps_at_kill, default=0) + moments.randint(1, 5)
        while reached(sign) < wanted and victim.poll() is None and time.monotonic() - began < 60:
            time.sleep(0.01)
        time.sleep(moments.uniform(0.0, 0.06))
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        assert victim.returncode == -signal.SIGKILL, (broken / "stderr").read_text()
        steps_at_kill.append(reached(sign))
    assert max(steps_at_kill) > min(steps_at_kill)  # each victim went on from where the last one was killed
    last = start(broken, 0.0)
    assert last.wait(120) == 0, (broken / "stderr").read_text()
    assert whole.wait(120) == 0, (tmp_path / "whole" / "stderr").read_text()
    tensors_a, plain_a = flatten(load(tmp_path / "whole" / "final.safetensors"))
    tensors_b, plain_b = flatten(load(broken / "final.safetensors"))
    assert plain_a == plain_b
    assert tensors_a.keys() == tensors_b.keys()
    for key, value in tensors_a.items():
        assert value.dtype == tensors_b[key].dtype
        assert torch.equal(torch.nan_to_num(value), torch.nan_to_num(tensors_b[key])), key
    lines = [json.loads(line) for line in (broken / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines if line["event"] == "epoch"] == [1, 2, 3, 4, 5]
    assert not [path for path in broken.iterdir() if path.name.endswith(".part")]


def small(n=12):
    torch.manual_seed(0)
    labels = torch.arange(n) % 2
    batch = fw.Batch(torch.randn(n, 3), labels)
    model = torch.nn.Linear(3, 2)
    return batch, model, torch.optim.SGD(model.parameters(), 0.1)


def test_resume_of_another_run_is_refused(tmp_path):
    batch, model, optimizer = small()
    fw.fit(model, optimizer, fw.Uniform(model, 12), batch, epochs=1, out=tmp_path)
    batch, model, optimizer = small(14)
    with pytest.raises(BadCheckpoint, match="num_samples 12, and this one has 14"):
        fw.fit(model, optimizer, fw.Uniform(model, 14), batch, epochs=1, out=tmp_path, resume=True)


@pytest.mark.parametrize("damage", ["truncated", "empty", "text", "another tree"])
def test_unreadable_checkpoint_is_a_sentence(tmp_path, damage):
    batch, model, optimizer = small()
    fw.fit(model, optimizer, fw.Uniform(model, 12), batch, epochs=1, out=tmp_path)
    path = tmp_path / "checkpoint.safetensors"
    content = path.read_bytes()
    if damage == "another tree":
        save({"model": model.state_dict()}, path)
    else:
        path.write_bytes({"truncated": content[: len(content) // 2], "empty": b"", "text": b"hello" * 100}[damage])
    with pytest.raises(BadCheckpoint, match="delete it and start the run again"):
        fw.fit(model, optimizer, fw.Uniform(model, 12), batch, epochs=1, out=tmp_path, resume=True)


class Interrupted(Exception):
    pass


class Interrupting(fw.Observer):
    """Warns in the first epoch, and ends the process's turn at one step."""

    def __init__(self, watch: fw.Watch, at: int) -> None:
        self.watch, self.at = watch, at

    def on_step(self, step, record):
        if step == self.at:
            raise Interrupted

    def on_epoch(self, epoch, summary):
        self.watch.warn("something: was seen")


def test_a_warning_is_in_the_log_once(tmp_path):
    for at in (3, -1):
        batch, model, optimizer = small()
        watch = fw.Watch()
        observers = [watch, Interrupting(watch, at)]
        with contextlib.suppress(Interrupted):
            fw.fit(model, optimizer, fw.Uniform(model, 12), batch, None, 4, observers, out=tmp_path, resume=True)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines if line["event"] in ("resume", "end")] == ["resume", "end"]
    assert [line["text"] for line in lines if line["event"] == "warning"] == ["something: was seen"]


def test_resume_of_a_finished_run_trains_no_more(tmp_path):
    batch, model, optimizer = small()
    first = fw.fit(model, optimizer, fw.Uniform(model, 12), batch, epochs=2, out=tmp_path, batch_size=5)
    weights = model.weight.clone()
    batch, model, optimizer = small()
    again = fw.fit(model, optimizer, fw.Uniform(model, 12), batch, epochs=2, out=tmp_path, batch_size=5, resume=True)
    assert torch.equal(model.weight, weights)
    assert (again.steps, again.epochs) == (first.steps, first.epochs) == (6, 2)


def test_longer_run_goes_on_from_a_shorter_one(tmp_path):
    batch, model, optimizer = small()
    fw.fit(model, optimizer, fw.Uniform(model, 12), batch, epochs=4)
    whole = model.weight.clone()
    batch, model, optimizer = small()
    fw.fit(model, optimizer, fw.Uniform(model, 12), batch, epochs=2, out=tmp_path)
    batch, model, optimizer = small()
    fw.fit(model, optimizer, fw.Uniform(model, 12), batch, epochs=4, out=tmp_path, resume=True)
    assert torch.equal(model.weight, whole)


def test_checkpoint_is_replaced_whole(tmp_path):
    """A save that fails half-way leaves the old file."""
    from fairweight.training import state

    path = tmp_path / "kept"
    state.save({"a": torch.ones(2)}, path)

    def no_room(descriptor):
        raise OSError(28, "No space left on device")

    real = os.fsync
    os.fsync = no_room
    try:
        with pytest.raises(NoSpace, match="No space"):
            state.save({"a": torch.zeros(2)}, path)
    finally:
        os.fsync = real
    assert torch.equal(state.load(path)["a"], torch.ones(2))
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]


def test_resuming_without_a_folder_is_refused_not_begun_anew():
    model = fw.MLP(4, 2, hidden=(3,))
    train = fw.Batch(torch.zeros(8, 4), torch.arange(8) % 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(BadInput, match="pass out="):
        fw.fit(model, optimizer, fw.Uniform(model, 8), train, epochs=1, resume=True)
