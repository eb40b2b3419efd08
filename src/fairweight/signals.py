"""Ctrl-C, a job scheduler's SIGTERM and a closed terminal's SIGHUP: the work stops at a safe point, and says so."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

GRACE = 3.0  # seconds: what has not come to a safe point by then is stopped where it is
MINDED = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_OF_TERMINALS = tuple(number for number in MINDED if number != signal.SIGTERM)


class _State:
    received: int | None = None  # the signal that came
    waiting = False  # whether it waits for the safe point
    safe_points = 0  # how many that watch for it are under way
    told_user = False  # whether the user was told
    other_hook: Callable[[sys.UnraisableHookArgs], object] = sys.__unraisablehook__  # for what is no interrupt


def mind(*which: int) -> None:
    """From now on stop at a safe point when one of these signals comes (all three); one that is ignored stays so."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in which or MINDED:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _on_signal)
    if sys.unraisablehook is not _on_unraisable:
        _State.other_hook, sys.unraisablehook = sys.unraisablehook, _on_unraisable


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


def received() -> int | None:
    """The signal that has come, if any."""
    return _State.received


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
    if not _State.told_user:
        _State.told_user = True
        print("\nStopped. The same command goes on from what is saved.", file=sys.stderr, flush=True)
    sys.exit(128 + (_State.received or signal.SIGINT))


def _on_signal(number: int, frame: FrameType | None) -> None:
    again, _State.received = _State.received is not None, number
    if _State.safe_points and not again:
        _State.waiting = True
        signal.signal(signal.SIGALRM, _on_alarm)
        signal.setitimer(signal.ITIMER_REAL, GRACE)
        return
    raise KeyboardInterrupt


def _on_alarm(number: int, frame: FrameType | None) -> None:
    if _State.waiting:
        raise KeyboardInterrupt


def _on_unraisable(lost: sys.UnraisableHookArgs) -> None:
    """Interrupt again: Python drops an interrupt that comes inside a callback of its own, such as an import's."""
    if _State.received is None or not issubclass(lost.exc_type, KeyboardInterrupt):
        _State.other_hook(lost)
        return
    signal.signal(signal.SIGALRM, _on_lost)
    signal.setitimer(signal.ITIMER_REAL, 0.05)


def _on_lost(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
