"""Saving goes on beside the training, and loses nothing by it."""

import resource
import signal
import threading

import pytest
import torch

import fairweight as fw
from fairweight.errors import BadCheckpoint, NoSpace
from fairweight.training import checkpoint as module
from fairweight.training import state
from fairweight.training.checkpoint import FILE, Checkpoint, restore, run_state
from fairweight.training.loop import Training


@pytest.fixture
def beside(monkeypatch):
    """Saves of any size are written by the thread."""
    monkeypatch.setattr(module, "AT_ONCE", -1)


def test_a_small_save_is_on_the_disk_at_once_and_a_large_one_after_a_while(tmp_path, monkeypatch):
    go_on, real = threading.Event(), state.write

    def slow(tree, path):
        assert tree.bytes <= module.AT_ONCE or go_on.wait(10)
        real(tree, path)

    monkeypatch.setattr(state, "write", slow)
    checkpoint = Checkpoint(tmp_path, {})
    checkpoint.save(1, {"weights": torch.ones(module.AT_ONCE // 4)})
    assert state.load(checkpoint.path)["step"] == 1
    checkpoint.save(2, {"weights": torch.ones(module.AT_ONCE // 4 + 1)})
    assert state.load(checkpoint.path)["step"] == 1
    go_on.set()
    checkpoint.close()
    assert state.load(checkpoint.path)["step"] == 2


def test_a_save_holds_the_moment_it_was_asked_for(tmp_path, monkeypatch, beside):
    go_on, real = threading.Event(), state.write

    def slow(tree, path):
        assert go_on.wait(10)
        real(tree, path)

    monkeypatch.setattr(state, "write", slow)
    checkpoint, weights = Checkpoint(tmp_path, {"run": 1}), torch.ones(3)
    checkpoint.save(7, {"weights": weights})
    weights.zero_()  # the training goes on while the disk is at work
    assert not checkpoint.path.exists()
    go_on.set()
    checkpoint.close()
    found = Checkpoint(tmp_path, {"run": 1}).load()
    assert found is not None
    assert found["step"] == 7
    assert torch.equal(found["weights"], torch.ones(3))


def test_others_may_read_a_checkpoint_as_any_file(tmp_path):
    (tmp_path / "any").touch()
    state.save({"a": torch.ones(2)}, tmp_path / "kept")
    assert (tmp_path / "kept").stat().st_mode == (tmp_path / "any").stat().st_mode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["any", "kept"]


@pytest.mark.parametrize("tree", [[1], {}, {"version": 2}, {"version": 2, "identity": {}, "step": "3"}])
def test_a_checkpoint_of_another_shape_is_a_sentence(tmp_path, tree):
    state.save(tree, tmp_path / FILE)
    with pytest.raises(BadCheckpoint, match="delete it and start the run again"):
        Checkpoint(tmp_path, {"seed": 0}).load()


def test_what_a_killed_writer_left_is_taken_away(tmp_path):
    (tmp_path / ".checkpoint.safetensors.124.part").write_bytes(b"half")
    (tmp_path / ".other.125.part").write_bytes(b"not ours")
    Checkpoint(tmp_path, {})
    assert [path.name for path in tmp_path.iterdir()] == [".other.125.part"]


def test_saves_are_written_in_their_order(tmp_path, beside):
    checkpoint = Checkpoint(tmp_path, {})
    for step in range(20):
        checkpoint.save(step, {"weights": torch.full((1000,), float(step))})
    checkpoint.close()
    found = Checkpoint(tmp_path, {}).load()
    assert found is not None
    assert (found["step"], float(found["weights"][-1])) == (19, 19.0)


def test_a_write_that_fails_stops_the_run(tmp_path, monkeypatch, beside):
    def no_room(tree, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(state, "write", no_room)
    model = torch.nn.Linear(3, 2)
    train = fw.Batch(torch.randn(12, 3), torch.arange(12) % 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(NoSpace, match="make room on it"):
        fw.fit(model, optimizer, fw.Uniform(model, 12), train, epochs=3, out=tmp_path)


def test_a_full_disk_is_a_sentence_and_leaves_the_file_before(tmp_path):
    path = tmp_path / "kept.safetensors"
    state.save({"step": 1}, path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails instead, as on a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(NoSpace, match="Make room"):
            state.save({"step": 2, "large": torch.zeros(100_000)}, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert state.load(path) == {"step": 1}
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_no_thread_is_left_behind(tmp_path, beside):
    model = torch.nn.Linear(3, 2)
    train = fw.Batch(torch.randn(12, 3), torch.arange(12) % 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    fw.fit(model, optimizer, fw.Uniform(model, 12), train, epochs=2, out=tmp_path)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("checkpoint")]


def test_momentum_comes_back_in_the_order_of_its_parameter(tmp_path):
    def training():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.LazyLinear(2))
        model(torch.randn(1, 3, 5, 5))
        model = model.to(memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        data = fw.Batch(torch.randn(12, 3, 5, 5), torch.arange(12) % 2)
        uniform = fw.Uniform(model, 12)
        return Training(
            model, optimizer, uniform, data, None, 1, (), None, None, None, None, None, False, fw.FitOptions(6)
        )

    first, second = training(), training()
    first.go()
    state.save(run_state(first), tmp_path / "kept")
    restore(second, state.load(tmp_path / "kept"))
    assert second.step == 2
    parameter, again = first.model[0].weight, second.model[0].weight
    found = second.optimizer.state[again]["momentum_buffer"]
    assert found.stride() == again.stride() != found.contiguous().stride()
    assert torch.equal(found, first.optimizer.state[parameter]["momentum_buffer"])
    for key in ("model", "random", "observers", "batches"):  # whole by its checksum, and yet of no run
        with pytest.raises(BadCheckpoint, match="does not fit"):
            restore(training(), {**run_state(first), key: 7})
