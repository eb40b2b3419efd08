"""Runs on a Ray cluster, each a task; the pool must lie where every machine of the cluster sees it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fairweight.errors import MissingDependency, option
from fairweight.runs._job import Engine, Outcome, Settings, Watcher, perform
from fairweight.runs.spec import Spec


class RayEngine(Engine):
    """Submits every run at once and lets Ray queue them; a local Ray is started where RAY_ADDRESS names no cluster."""

    def __init__(self, settings: Settings, watcher: Watcher, jobs: int) -> None:
        try:
            import ray
        except ImportError as error:
            raise MissingDependency(f"{option('engine', 'ray')} needs Ray; install fairweight[ray].") from error
        self.ray: Any = ray
        self.settings, self.free = settings, jobs
        self._own = not ray.is_initialized()
        if self._own and os.environ.get("RAY_ADDRESS"):
            ray.init(address="auto", log_to_driver=False)
        elif self._own:
            ray.init(num_cpus=jobs, include_dashboard=False, log_to_driver=False)
        gpus = 1 if settings.device.startswith("cuda") else 0
        # A lost machine or a killed worker is tried again: the run goes on from its checkpoint.
        self._task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=2)(_remote)
        self._running: dict[Any, Spec] = {}

    def submit(self, spec: Spec) -> None:
        settings = {**vars(self.settings), "pool": str(Path(self.settings.pool).resolve())}
        self._running[self._task.remote(spec.to_dict(), settings)] = spec
        self.free -= 1

    def wait(self) -> list[Outcome]:
        ready, _ = self.ray.wait(list(self._running), num_returns=1)
        over = []
        for reference in ready:
            spec = self._running.pop(reference)
            place = Path(self.settings.pool) / spec.folder_name
            self.free += 1
            try:
                plain = self.ray.get(reference)
            except self.ray.exceptions.RayError as error:
                sentence = f"Ray lost it ({type(error).__name__}); the same command goes on from its checkpoint."
                over.append(Outcome(spec, place, error=sentence, cause="Killed"))
            else:
                over.append(Outcome(spec, place, **plain))
        return over

    def close(self) -> None:
        for reference in self._running:
            self.ray.cancel(reference, force=True)
        self._running = {}
        if self._own:
            self.ray.shutdown()


def _remote(spec: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """One run, on whichever machine Ray chose."""
    outcome = perform(Spec.from_dict(spec), Settings(**settings), lambda fingerprint, epoch, epochs: None)
    return {"reused": outcome.reused, "error": outcome.error, "cause": outcome.cause, "seconds": outcome.seconds}
