"""Clocks for benchmarks/pipeline.py: that of a GPU, whose work is begun and not waited for, and that of a processor."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

CYCLES = 20_000_000  # of the trial by which the length of a hold is known


class Clock(Protocol):
    """The host's time, and marks in the stream of a device's work."""

    def now(self) -> float:
        """Seconds of the host."""
        ...

    def mark(self) -> Any: ...

    def between(self, first: Any, last: Any) -> float:
        """Milliseconds of the device between two marks that it has passed."""
        ...

    def passed(self, mark: Any) -> bool:
        """Whether the device has come to a mark: it has nothing left to do before it."""
        ...

    def wait(self) -> None: ...

    def hold(self, milliseconds: float) -> None:
        """Keep the device busy meanwhile, so that what is begun after it lies ready before the device is free."""
        ...


class ProcessorClock:
    """Work is done when it has been begun: nothing can wait."""

    def now(self) -> float:
        return time.perf_counter()

    def mark(self) -> float:
        return time.perf_counter()

    def between(self, first: float, last: float) -> float:
        return 1e3 * (last - first)

    def passed(self, mark: float) -> bool:
        return False

    def wait(self) -> None:
        """Nothing to wait for."""

    def hold(self, milliseconds: float) -> None:
        """Nothing to hold."""


class GpuClock:
    """CUDA events."""

    def __init__(self) -> None:
        self._per_ms = 0.0
        for _ in range(2):  # the first one wakes the device
            first = self.mark()
            torch.cuda._sleep(CYCLES)  # spins, so that it does not heat the chip as work would
            last = self.mark()
            self.wait()
            self._per_ms = CYCLES / self.between(first, last)

    def now(self) -> float:
        return time.perf_counter()

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, first: torch.cuda.Event, last: torch.cuda.Event) -> float:
        return first.elapsed_time(last)

    def passed(self, mark: torch.cuda.Event) -> bool:
        return mark.query()

    def wait(self) -> None:
        torch.cuda.synchronize()

    def hold(self, milliseconds: float) -> None:
        torch.cuda._sleep(int(milliseconds * self._per_ms))


def clock_of(device: str) -> Clock:
    return GpuClock() if device.startswith("cuda") else ProcessorClock()


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Median, quartiles and mean."""
    many = list(values) if len(values) > 1 else [*values, *values]
    return {
        "median": statistics.median(many),
        "quartiles": statistics.quantiles(many, n=4, method="inclusive")[::2],
        "mean": statistics.fmean(many),
        "n": len(values),
    }


def timed(
    clock: Clock, work: Callable[[int], object], at_once: int, repeats: int, hold: float, *, each: bool = False
) -> dict[str, Any]:
    """Milliseconds of one piece of work, of the host that begins it and of the device that does it.

    A block of them is begun while the device is held, so that the device's time has no gaps in which it waits for the
    host. A block that the hold did not outlast is measured again, with a longer one. each: for long work it is enough
    that the device is never done with one piece before the next has been begun.
    """
    host, device = [], []
    place = 0
    while len(device) < repeats + 1:  # the first is not counted: it fills the pools of memory
        clock.wait()
        clock.hold(hold)
        first = last = clock.mark()
        started, in_time = clock.now(), True
        for _ in range(at_once):
            work(place)
            place += 1
            if each:
                in_time = in_time and not clock.passed(last)
                last = clock.mark()
        took = clock.now() - started
        in_time = in_time and (each or not clock.passed(first))
        last = clock.mark()
        clock.wait()
        if not in_time:
            if hold > 2_000:
                raise RuntimeError("what is timed waits for the device itself, so that its own time cannot be told.")
            hold *= 2
            continue
        host.append(1e3 * took / at_once)
        device.append(clock.between(first, last) / at_once)
    return {"device_ms": spread(device[1:]), "host_ms": spread(host[1:]), "at_once": at_once}
