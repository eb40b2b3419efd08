"""Many runs: over the cores, one after another or side by side on a GPU, or on a cluster.

    outcomes = run_all(specs, "runs/pool", jobs=2)

Each run has a folder of its own in the pool, named by what determines it: one that is finished is not repeated, one
that was killed goes on. A run that fails is reported with its sentence and does not stop the others. Runs that choose
their rows by other runs wait for those. Called from a script, keep it under `if __name__ == "__main__":`, as
everything that starts processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from fairweight.errors import BadInput, FolderRefused, MissingData
from fairweight.runs._job import Engine, InProcess, Outcome, Settings, Watcher
from fairweight.runs.chosen_rows import prerequisites
from fairweight.runs.folder import RunFolder
from fairweight.runs.spec import Spec

EngineName = Literal["processes", "ray"]


def run_all(
    specs: Iterable[Spec],
    pool: str | Path,
    *,
    engine: EngineName = "processes",
    jobs: int | None = None,
    device: str = "cpu",
    data_dir: str | Path | None = None,
    download: bool = False,
    watcher: Watcher | None = None,
) -> dict[str, Outcome]:
    """Run every Spec, and those that they build on, into the pool; what became of each, by fingerprint.

    jobs: how many at a time; None takes the cores for a CPU, and for a GPU one, or several where all networks are
    small and would leave it waiting. Data that is not there stops everything at once, and so does a
    folder that takes no files, since every run would say the same.
    """
    wanted = with_prerequisites(specs)
    watcher = watcher if watcher is not None else Watcher()
    pool = Path(pool)
    done = {key: found for key, spec in wanted.items() if (found := _finished(spec, pool)) is not None}
    waiting = {key: spec for key, spec in wanted.items() if key not in done}
    at_a_time = _jobs(jobs, device, list(waiting.values()), engine)
    if at_a_time > 1:  # the longest first, so that no core waits at the end for one that began late
        waiting = dict(sorted(waiting.items(), key=lambda entry: -_trainings(entry[1])))
    watcher.on_start(list(wanted.values()))
    for outcome in done.values():
        watcher.on_outcome(outcome)
    if not waiting:
        watcher.on_end()
        return done
    settings = Settings(str(pool), device, None if data_dir is None else str(data_dir), download)
    worker = _engine(engine, settings, watcher, at_a_time)
    running: set[str] = set()
    try:
        while waiting or running:
            for key, spec in list(waiting.items()):
                needed = [done.get(other.fingerprint) for other in prerequisites(spec)]
                failed = next((outcome for outcome in needed if outcome is not None and outcome.error), None)
                if failed is not None:
                    del waiting[key]
                    reason = f"it builds on {failed.spec.folder_name}, which failed: {failed.error}"
                    done[key] = Outcome(spec, _place(spec, pool), error=reason, cause=failed.cause)
                    watcher.on_outcome(done[key])
                elif None not in needed and worker.free > 0:
                    del waiting[key]
                    running.add(key)
                    worker.submit(spec)
            for outcome in worker.wait() if running else ():
                running.discard(outcome.spec.fingerprint)
                for kind in (MissingData, FolderRefused):
                    if outcome.cause == kind.__name__:
                        raise kind(outcome.error)
                done[outcome.spec.fingerprint] = outcome
                watcher.on_outcome(outcome)
    finally:
        worker.close()
        watcher.on_end()
    return done


def with_prerequisites(specs: Iterable[Spec]) -> dict[str, Spec]:
    """By fingerprint, each after those that it builds on."""
    found: dict[str, Spec] = {}

    def add(spec: Spec) -> None:
        if spec.fingerprint not in found:
            for other in prerequisites(spec):
                add(other)
            found[spec.fingerprint] = spec

    for spec in specs:
        add(spec)
    return found


def _place(spec: Spec, pool: Path) -> Path:
    return pool / spec.folder_name


def _finished(spec: Spec, pool: Path) -> Outcome | None:
    folder = RunFolder(_place(spec, pool))
    if folder.finished and folder.holds(spec):
        return Outcome(spec, folder.path, reused=True)
    return None


def _trainings(spec: Spec) -> int:
    """How many trainings the run is made of, about."""
    search = spec.search
    return int(search.get("iterations", 1)) * int(search.get("rounds", 1)) * int(search.get("per_round", 1))


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _jobs(asked: int | None, device: str, specs: list[Spec], engine: str) -> int:
    """How many at a time."""
    if asked is not None and asked < 1:
        raise BadInput(f"jobs is {asked}; run at least 1 at a time.")
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


def _engine(name: str, settings: Settings, watcher: Watcher, jobs: int) -> Engine:
    if name == "ray":
        from fairweight.runs._ray import RayEngine

        return RayEngine(settings, watcher, jobs)
    if name != "processes":
        raise BadInput(f"engine is {name!r}; choose processes or ray.")
    if jobs == 1:
        return InProcess(settings, watcher)
    from fairweight.runs._processes import Processes

    return Processes(settings, watcher, jobs, threads=max(1, cores() // jobs))
