"""Run many Specs: over the cores, one after another or side by side on a GPU, or on a cluster.

    outcomes = run_all(specs, "runs/pool", jobs=2)

Each run has its own folder in the pool, named by what determines it: a finished run is not repeated, a killed one
resumes. A failed run is reported and does not stop the others. Runs that build on other runs wait for those. A script
must call this under `if __name__ == "__main__":`, like everything that starts processes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Generator, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, get_args

from fairweight.errors import FolderRefused, MissingData, UnknownName, option
from fairweight.runs.folder import RunFolder
from fairweight.runs.other_runs import prerequisites
from fairweight.runs.pool._job import Engine, Here, Outcome, Processes, RayTasks, Settings, Tell, Watcher
from fairweight.runs.spec import Spec

EngineName = Literal["processes", "ray"]
_STOPPING = {kind.__name__: kind for kind in (MissingData, FolderRefused)}  # every other run would fail alike


def run_all(specs: Iterable[Spec], pool: str | Path, **options: Any) -> dict[str, Outcome]:
    """Run every Spec, with the options of run_each; return all outcomes by fingerprint."""
    with closing(run_each(specs, pool, **options)) as outcomes:
        return {outcome.spec.fingerprint: outcome for outcome in outcomes}


def run_each(
    specs: Iterable[Spec],
    pool: str | Path,
    *,
    engine: EngineName = "processes",
    jobs: int | None = None,
    device: str = "cpu",
    data_dir: str | Path | None = None,
    download: bool = False,
    watcher: Watcher | None = None,
) -> Generator[Outcome, None, None]:
    """Run every Spec, and those that it builds on, into the pool; yield outcomes as they come.

    jobs: how many at a time; None takes the cores for a CPU, and for a GPU one, or several if all networks are small.
    Missing data, and a folder that takes no files, stop everything. Close the generator to stop early.
    """
    wanted = with_prerequisites(specs)
    watcher = watcher if watcher is not None else Watcher()
    done: dict[str, Outcome] = {}

    def settle(outcome: Outcome) -> Outcome:
        if outcome.cause in _STOPPING:
            raise _STOPPING[outcome.cause](outcome.error)
        done[outcome.spec.fingerprint] = outcome
        watcher.on_outcome(outcome)
        return outcome

    folders = {key: RunFolder(Path(pool) / spec.folder_name) for key, spec in wanted.items()}
    found = [key for key, spec in wanted.items() if folders[key].finished and folders[key].holds(spec)]
    waiting = {key: spec for key, spec in wanted.items() if key not in found}
    at_a_time = _jobs(jobs, device, list(waiting.values()), engine)
    if at_a_time > 1:  # the longest first, so that no core waits at the end for one that began late
        sizes = ("iterations", "rounds", "per_round")  # of a search
        waiting = dict(
            sorted(waiting.items(), key=lambda one: -math.prod(int(one[1].search.get(key, 1)) for key in sizes))
        )
    watcher.on_start(list(wanted.values()))
    try:
        for key in found:
            yield settle(Outcome(wanted[key], folders[key].path, reused=True))
        if not waiting:
            return
        settings = Settings(str(pool), device, None if data_dir is None else str(data_dir), download)
        running = 0
        with closing(_engine(engine, settings, watcher.on_epoch, at_a_time)) as runner:
            while waiting or running:
                for key, spec in list(waiting.items()):
                    needed = [done.get(other.fingerprint) for other in prerequisites(spec)]
                    failed = next((outcome for outcome in needed if outcome is not None and outcome.error), None)
                    if failed is not None:
                        del waiting[key]
                        reason = f"it builds on {failed.spec.folder_name}, which failed: {failed.error}"
                        yield settle(Outcome(spec, folders[key].path, error=reason, cause=failed.cause))
                    elif None not in needed and running < at_a_time:
                        del waiting[key]
                        runner.start(spec)
                        running += 1
                if running:
                    running -= 1
                    yield settle(runner.next_outcome())
    finally:
        watcher.on_end()


def with_prerequisites(specs: Iterable[Spec]) -> dict[str, Spec]:
    """Return the Specs by fingerprint, each after those that it builds on."""
    found: dict[str, Spec] = {}

    def add(spec: Spec) -> None:
        if spec.fingerprint not in found:
            for other in prerequisites(spec):
                add(other)
            found[spec.fingerprint] = spec

    for spec in specs:
        add(spec)
    return found


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _jobs(asked: int | None, device: str, specs: list[Spec], engine: str) -> int:
    if engine not in get_args(EngineName):
        raise UnknownName(f"{option('engine', engine)}: choose processes or ray.")
    most = max(1, len(specs))
    if asked is not None:
        return min(asked, most)
    if engine == "ray":
        return most  # the cluster queues what it has no room for
    if not device.startswith("cuda"):
        return min(cores(), most)
    import torch

    gpus = 1 if ":" in device else max(1, torch.cuda.device_count())
    # A step of a small network is over before the next one is asked for: several processes fill the gaps.
    small = all(spec.network.get("name") == "mlp" for spec in specs)
    return min(gpus * (max(1, min(8, cores() // 2 // gpus)) if small else 1), most)


def _engine(name: str, settings: Settings, tell: Tell, jobs: int) -> Engine:
    if name == "ray":
        return RayTasks(settings, jobs)
    return Here(settings, tell) if jobs == 1 else Processes(settings, tell, threads=max(1, cores() // jobs))
