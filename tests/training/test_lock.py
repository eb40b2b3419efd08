"""One writer at a time in a folder; the dead hold nothing."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import fairweight as fw
from fairweight.errors import FolderBusy, FolderRefused
from fairweight.training import lock
from fairweight.training.lock import claimed, owner

HOLD = """
import sys, time
from fairweight.training.lock import claimed
with claimed(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def held(folder) -> subprocess.Popen:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    process.stdout.close()
    return process


def test_a_second_process_is_refused_by_name_and_the_dead_are_not_feared(tmp_path):
    folder = tmp_path / "run"
    process = held(folder)
    try:
        with pytest.raises(FolderBusy, match=rf"process {process.pid} on .*choose another out"), claimed(folder):
            pass
    finally:
        process.kill()  # it leaves its file behind
        process.wait()
    assert owner(folder)["process"] == process.pid
    with claimed(folder):
        assert owner(folder)["process"] == os.getpid()
        (folder / "kept").touch()
    assert [path.name for path in folder.iterdir()] == ["kept"]


def test_without_locks_of_the_system_a_living_writer_on_this_machine_is_still_seen(tmp_path, monkeypatch):
    def no_locks(*_given):
        raise OSError(errno.ENOLCK, "No locks available")

    process = held(tmp_path / "run")
    monkeypatch.setattr("fcntl.flock", no_locks)
    try:
        with pytest.raises(FolderBusy, match=rf"process {process.pid} on "), claimed(tmp_path / "run"):
            pass
    finally:
        process.kill()
        process.wait()
    with claimed(tmp_path / "run"):
        assert owner(tmp_path / "run")["process"] == os.getpid()


def test_the_thread_that_holds_it_may_ask_again_and_no_other(tmp_path):
    def ask():
        with claimed(tmp_path / "run"):
            pass

    with claimed(tmp_path / "run"), ThreadPoolExecutor(1) as another:
        with claimed(tmp_path / "run" / ".." / "run"):
            assert (tmp_path / "run" / lock.FILE).exists()
        assert (tmp_path / "run" / lock.FILE).exists()
        with pytest.raises(FolderBusy):
            another.submit(ask).result()
    ask()
    assert list(tmp_path.iterdir()) == []  # nothing was written, so no folder stays


def test_an_owner_on_another_machine_counts_while_it_gives_signs_of_life(tmp_path):
    there = tmp_path / lock.FILE
    there.write_text(json.dumps({"process": 1, "host": "elsewhere", "since": ""}))
    with pytest.raises(FolderBusy, match="process 1 on elsewhere"), claimed(tmp_path):
        pass
    silent = time.time() - lock.DEAD_AFTER - 1
    os.utime(there, (silent, silent))
    with claimed(tmp_path):
        pass


def test_signs_of_life_are_given(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "HEARTBEAT", 0.02)
    with claimed(tmp_path):
        os.utime(tmp_path / lock.FILE, (0, 0))
        until = time.monotonic() + 5
        while (tmp_path / lock.FILE).stat().st_mtime == 0 and time.monotonic() < until:
            time.sleep(0.01)
        assert (tmp_path / lock.FILE).stat().st_mtime > 0


def test_a_lock_of_many_megabytes_is_not_read_to_its_end(tmp_path):
    with (tmp_path / lock.FILE).open("wb") as file:
        file.truncate(2**26)
    tracemalloc.start()
    assert owner(tmp_path) is None
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2**20


def test_fit_takes_the_lock(tmp_path):
    process = held(tmp_path)
    try:
        model = fw.MLP(3, 2, (4,))
        batch = fw.Batch(torch.randn(8, 3), torch.tensor([0, 1] * 4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with pytest.raises(FolderBusy):
            fw.fit(model, optimizer, fw.Uniform(model, 8), batch, epochs=1, out=tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == [lock.FILE]
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    fw.fit(model, optimizer, fw.Uniform(model, 8), batch, epochs=1, out=tmp_path)
    assert not (tmp_path / lock.FILE).exists()


@pytest.mark.parametrize("kind", ["link", "second name", "pipe", "folder"])
def test_a_lock_that_is_no_file_is_refused_and_nothing_is_emptied_through_it(tmp_path, kind):
    folder, dear = tmp_path / "run", tmp_path / "dear"
    folder.mkdir()
    dear.write_text("kept")
    place = folder / ".lock"
    make = {"link": lambda: place.symlink_to(dear), "second name": lambda: place.hardlink_to(dear)}
    {**make, "pipe": lambda: os.mkfifo(place), "folder": place.mkdir}[kind]()
    with pytest.raises(FolderRefused, match="no regular file"), claimed(folder):
        pass
    assert dear.read_text() == "kept"
    assert place.is_symlink() or place.samefile(dear) or not place.is_file()
