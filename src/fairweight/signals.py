"""Ctrl-C, a job scheduler's SIGTERM and a closed terminal's SIGHUP: the work stops at a safe point, and says so."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

GRACE = 3.0  # seconds: what has not come to a safe point by then is stopped where it is
STOPPED = "\nStopped. The same command goes on from what is saved; where nothing is, it starts again.\n"
MINDED = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_OF_TERMINALS = tuple(number for number in MINDED if number != signal.SIGTERM)


class _State:
    received: int | None = None  # the first signal that came: it decides the status
    waiting = False  # whether it waits for the safe point
    safe_points = 0  # how many that watch for it are under way
    said = False  # whether the user was told
    outside = False  # whether no command is under way that an interrupt could stop
    other_hook: Callable[[sys.UnraisableHookArgs], object] = sys.__unraisablehook__  # for what is no interrupt


def mind(*which: int) -> None:
    """Stop at a safe point when one of these signals comes (default: all three); those that are ignored stay so."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in which or MINDED:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _on_signal)
    if sys.unraisablehook is not _on_unraisable:
        _State.other_hook, sys.unraisablehook = sys.unraisablehook, _on_unraisable


def run_command(command: Callable[[], None]) -> None:
    """Run the command, and end with a signal's own status whenever one comes: before it, within it or after it."""
    try:
        try:
            _State.outside = False
            command()
        finally:
            _State.outside = True  # from here on Python would print an interrupt and make SIGINT of it
    except BaseException:
        _State.outside = True
        if _State.received is None:
            raise
        stop()  # whatever a library made of the interrupt


def mind_before_commands() -> None:
    """From now on a signal ends the process at once, until run_command begins."""
    _State.outside = True
    mind()


@contextmanager
def held_back() -> Iterator[None]:
    """Let processes that are started here never hear of Ctrl-C or a closed terminal."""
    if hasattr(signal, "pthread_sigmask"):
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_TERMINALS)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    else:
        yield


@contextmanager
def safe_points() -> Iterator[Callable[[], bool]]:
    """While this is open a signal waits; what it gives says whether one does, and its caller then stops by itself."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    _State.safe_points += 1
    try:
        yield lambda: _State.waiting
    except BaseException:
        _close()
        raise
    if _close():
        raise KeyboardInterrupt  # it came after the last safe point


def _close() -> bool:
    """End the innermost watch; whether a signal has waited in vain."""
    _State.safe_points -= 1
    waited = _State.waiting and not _State.safe_points
    if waited:
        _State.waiting = False
        signal.setitimer(signal.ITIMER_REAL, 0)
    return waited


def stop() -> None:
    """Tell the user, once, and leave with the status that shells expect: 128 and the signal's number."""
    _tell()
    sys.exit(_status())


def _tell() -> None:
    if not _State.said and os.environ.get("RANK", "0") == "0":  # under torchrun the first process speaks
        _State.said = True
        with suppress(OSError):  # nobody may be listening
            os.write(2, STOPPED.encode())  # a handler may be inside a print, which takes no second one


def _status() -> int:
    return 128 + (_State.received or signal.SIGINT)


def _on_signal(number: int, frame: FrameType | None) -> None:
    again = _State.received is not None
    _State.received = _State.received or number
    if _State.safe_points and not again:
        _State.waiting = True
        signal.signal(signal.SIGALRM, _on_alarm)
        signal.setitimer(signal.ITIMER_REAL, GRACE)
        return
    _interrupt()


def _interrupt() -> None:
    if _State.outside:
        _tell()
        os._exit(_status())
    raise KeyboardInterrupt


def _on_alarm(number: int, frame: FrameType | None) -> None:
    if _State.waiting:
        _interrupt()


def _on_unraisable(lost: sys.UnraisableHookArgs) -> None:
    """Interrupt again: Python drops an interrupt that comes inside a callback of its own, such as an import's."""
    if _State.received is None or not issubclass(lost.exc_type, KeyboardInterrupt):
        _State.other_hook(lost)
        return
    signal.signal(signal.SIGALRM, lambda *_: _interrupt())
    signal.setitimer(signal.ITIMER_REAL, 0.05)
