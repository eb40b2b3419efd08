"""One writer at a time in a folder: a lock file that names its owner and is released when the owner dies."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any

from fairweight.errors import FolderBusy, FolderRefused, NoSpace, option
from fairweight.training.state import is_alive

FILE = ".lock"
HEARTBEAT = 10.0  # seconds between two touches by the owner
DEAD_AFTER = 6 * HEARTBEAT  # without one for so long, an owner on another machine is taken for dead
_MAX_LETTERS = 10_000  # letters of a lock that are read
_held: dict[Path, int] = {}  # what this process holds, and in which thread
_guard = threading.Lock()


@contextmanager
def claimed(folder: str | Path) -> Iterator[None]:
    """Keep every other writer out of the folder; the thread that holds it may ask again.

    The folder is made where it is not there, and taken away if nothing was written into it.
    """
    path = Path(folder)
    missing = [place for place in (path, *path.parents) if not place.exists()]
    make_folder(path)
    key, thread = path.resolve(), threading.get_ident()
    with _guard:
        already_held = key in _held
        if _held.setdefault(key, thread) != thread:
            raise _busy(path, {"process": os.getpid(), "host": socket.gethostname()})
    try:
        with nullcontext() if already_held else _locked(path):
            yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise NoSpace(f"the disk of {path} is full; make room on it, then start the same again.") from error
    finally:
        if not already_held:
            del _held[key]
        for empty in missing:
            with suppress(OSError):  # something was written, and it stays
                empty.rmdir()


def make_folder(path: Path) -> None:
    """Make the folder where it is not there; refuse one that takes no files."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(path, "made", error) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise FolderRefused(f"{path} cannot be written to; choose another folder with {option('out')}.")


def owner(folder: str | Path) -> dict[str, Any] | None:
    """Who the lock says is at work in the folder, dead or alive: process, host, since; None where there is no lock."""
    path = Path(folder) / FILE
    if not path.is_file():
        return None
    try:
        with path.open(encoding="utf-8") as file:
            recorded = json.loads(file.read(_MAX_LETTERS) or "{}")
    except (OSError, ValueError, RecursionError):
        return None
    return recorded if isinstance(recorded, dict) else None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    file, ended = _take_lock_file(path), threading.Event()

    def beat() -> None:
        while not ended.wait(HEARTBEAT):
            with suppress(OSError):
                os.utime(file.fileno())

    heart = threading.Thread(target=beat, daemon=True)
    heart.start()
    try:
        yield
    finally:
        ended.set()
        heart.join()
        with suppress(OSError):
            (path / FILE).unlink()  # while it is still ours
        file.close()


def _take_lock_file(path: Path) -> IO[str]:
    """Open the lock file and lock it; the system releases the lock when the process ends."""
    lock = path / FILE
    while True:
        try:
            file = _open_lock(lock)
        except OSError as error:
            raise _refused(path, "written to", error) from error
        recorded = owner(path) or {}
        locked = _try_lock(file)
        if locked is False or _alive(file, recorded, locked=locked is True):
            file.close()
            raise _busy(path, owner(path) or recorded)
        with suppress(OSError):
            if os.path.samestat(os.fstat(file.fileno()), lock.stat()):
                break
        file.close()  # the last owner has taken this file away between our opening and our locking it
    file.truncate(0)
    me = {"process": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
    try:
        file.write(json.dumps(me) + "\n")
        file.flush()
    except OSError:
        lock.unlink(missing_ok=True)
        raise
    return file


def _open_lock(lock: Path) -> IO[str]:
    """Open the lock, or make it; no link is followed and no pipe waited for: the folder may be a stranger's."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG((found := lock.lstat()).st_mode) or found.st_nlink > 1:  # what we write would be there too
            raise OSError(errno.EINVAL, f"its {FILE} is no regular file, or has another name too")
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return os.fdopen(os.open(lock, flags, 0o666), "r+", encoding="utf-8")


def _try_lock(file: IO[str]) -> bool | None:
    """Lock the file; None where the system has no locks, and only the content of the file counts."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None  # not a Unix, or a file system without locks
    return True


def _alive(file: IO[str], recorded: dict[str, Any], *, locked: bool) -> bool:
    """True if an owner has touched the file lately whose lock does not show: on another machine, or nothing locks."""
    process, here = recorded.get("process"), recorded.get("host") == socket.gethostname()
    dead = locked or not isinstance(process, int) or process == os.getpid() or not is_alive(process)
    if not recorded or (here and dead):  # on this machine the system knows
        return False
    last_touch = os.fstat(file.fileno()).st_mtime
    os.utime(file.fileno())  # the file system's own clock, which both machines share
    alive = os.fstat(file.fileno()).st_mtime - last_touch < DEAD_AFTER
    if alive:
        os.utime(file.fileno(), (last_touch, last_touch))
    return alive


def _refused(path: Path, what: str, error: OSError) -> FolderRefused:
    return FolderRefused(f"{path} cannot be {what} ({error.strerror}); choose another folder with {option('out')}.")


def _busy(path: Path, owner: dict[str, Any]) -> FolderBusy:
    name = f" (process {owner['process']} on {owner.get('host')})" if "process" in owner else ""
    return FolderBusy(
        f"another process is at work in {path}{name}; wait for it to end and run this again, or choose another "
        f"{option('out')}."
    )
