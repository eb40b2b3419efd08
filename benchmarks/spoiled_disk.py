"""Work in a forked process whose calls that change a folder are counted, and one of them spoiled.

kill: the process ends itself there with SIGKILL, half of a write done. full-disk: there, and at every later call that
needs room, the call fails as on a full disk; half of the first write is done.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch

FAULTS = ("kill", "full-disk")
_CHANGING = ("replace", "rename", "unlink", "remove", "mkdir", "rmdir", "chmod", "utime", "truncate", "link", "symlink")
NEED_ROOM = ("open", "write", "fsync", "mkdir", "replace", "rename", "link", "symlink")  # what a full disk refuses


class Shim:
    """Counts the calls under a folder that change the disk, and spoils one of them."""

    def __init__(self, folder: Path, spoil: int | None, fault: str) -> None:
        self.folder, self.spoil, self.fault = str(folder.resolve()), spoil, fault
        self.calls: list[str] = []
        self._open = io.open

    def inside(self, path: Any, options: dict[str, Any]) -> bool:
        if options.get("dir_fd") is not None:
            return True  # how a tree is deleted: by names within open folders
        return isinstance(path, str | os.PathLike) and os.path.abspath(os.fspath(path)).startswith(self.folder)  # noqa: PTH100

    def due(self, what: str) -> bool:
        self.calls.append(what)
        if self.spoil is None:
            return False
        later = len(self.calls) - 1 - self.spoil
        return later == 0 or (later > 0 and self.fault == "full-disk" and what in NEED_ROOM)

    def strike(self) -> None:
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def reached(self, what: str) -> None:
        if self.due(what):
            self.strike()

    def install(self) -> None:
        real_os_open, real_fsync, real_sendfile = os.open, os.fsync, os.sendfile
        real_save = safetensors.torch.save_file

        def open_(file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
            if not (set(mode) & set("wax+") and self.inside(file, {})):
                return self._open(file, mode, *rest, **options)
            self.reached("open")
            return Half(self._open(file, mode, *rest, **options), self)

        def os_open(path: Any, flags: int, *rest: Any, **options: Any) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and self.inside(path, options):
                self.reached("open")
            return real_os_open(path, flags, *rest, **options)

        def fsync(entry: int) -> None:
            self.reached("fsync")
            real_fsync(entry)

        def sendfile(*arguments: Any) -> int:
            self.reached("write")
            return real_sendfile(*arguments)

        def save_file(tensors: Any, path: Any, **options: Any) -> None:
            if self.due("write"):  # the library writes a file of its own beside, and renames it
                if self.fault == "kill":
                    Path(path).with_name(".tmpHalf").write_bytes(b"half")
                    self.strike()
                raise safetensors.SafetensorError("No space left on device (os error 28)")
            real_save(tensors, path, **options)

        builtins.open = io.open = open_  # type: ignore[assignment]
        os.open, os.fsync, os.sendfile, safetensors.torch.save_file = os_open, fsync, sendfile, save_file
        for name in _CHANGING:
            setattr(os, name, self.counted(name, getattr(os, name)))

    def counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *rest: Any, **options: Any) -> Any:
            if self.inside(path, options):
                self.reached(name)
            return real(path, *rest, **options)

        for support in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
            if real in support:
                support.add(call)
        return call


class Half:
    """A file whose fatal write leaves half of what was to be written."""

    def __init__(self, file: Any, shim: Shim) -> None:
        self.file, self.shim = file, shim

    def write(self, content: Any) -> Any:
        if self.shim.due("write"):
            self.file.write(content[: len(content) // 2])
            self.file.flush()
            self.shim.strike()
        return self.file.write(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> Half:
        self.file.__enter__()
        return self

    def __exit__(self, *rest: Any) -> None:
        self.file.__exit__(*rest)

    def __iter__(self) -> Any:
        return iter(self.file)


@dataclass(frozen=True)
class Ended:
    """How a process has ended: its status, what it printed on stderr, and the calls that it counted."""

    status: int
    said: str
    calls: list[str]


def forked(work: Callable[[], None], folder: Path, spoil: int | None = None, fault: str = "kill") -> Ended:
    """Do the work in a folder, in a process of its own, and spoil one of its calls."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status, err = 1, io.StringIO()
        try:
            logging.disable(logging.CRITICAL)
            warnings.simplefilter("ignore")
            os.chdir(folder)
            shim = Shim(folder, spoil, fault)
            shim.install()
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
                try:
                    work()
                    status = 0
                except SystemExit as end:
                    status = int(end.code or 0)
                except BaseException as error:
                    err.write(f"Traceback: {error!r}")
            os.write(write, json.dumps([err.getvalue()[-2000:], shim.calls]).encode())
        finally:
            os._exit(status)
    os.close(write)
    told = b""
    while part := os.read(read, 65536):
        told += part
    os.close(read)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Ended(status, *(json.loads(told) if told else ("", [])))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what is printed back; where the command fails, show the end of it."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            yield
    except SystemExit as end:
        raise SystemExit(said.getvalue()[-500:]) from end


def shared_out(script: str, words: list[str], jobs: int) -> list[dict[str, Any]]:
    """What each of so many processes with its share of the work has found."""
    with tempfile.TemporaryDirectory() as inside:
        files = [Path(inside) / f"{job}.json" for job in range(jobs)]
        shares = [["--first", str(job), "--every", str(jobs), "--out", str(file)] for job, file in enumerate(files)]
        processes = [
            subprocess.Popen([sys.executable, script, *words, *share], stdout=subprocess.DEVNULL)  # noqa: S603
            for share in shares
        ]
        for process in processes:
            process.wait()
        parts = [json.loads(file.read_text()) for file in files if file.is_file()]
    if len(parts) < jobs:
        print(f"{jobs - len(parts)} of {jobs} processes were lost: what they would have tried was not.", flush=True)
    return parts
