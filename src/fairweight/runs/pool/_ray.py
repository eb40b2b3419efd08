"""Runs on a Ray cluster, each a task; the pool must lie where every machine of the cluster sees it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fairweight.errors import MissingDependency, option
from fairweight.runs.pool._job import Outcome, Settings, perform
from fairweight.runs.spec import Spec


class RayTasks:
    """Hands each run to Ray and waits for it; starts a local Ray where RAY_ADDRESS names no cluster."""

    def __init__(self, settings: Settings, jobs: int) -> None:
        try:
            import ray
        except ImportError as error:
            raise MissingDependency(f"{option('engine', 'ray')} needs Ray; install fairweight[ray].") from error
        self.ray: Any = ray
        self.settings = settings
        self._own = not ray.is_initialized()
        if self._own and os.environ.get("RAY_ADDRESS"):
            ray.init(address="auto", log_to_driver=False)
        elif self._own:
            ray.init(num_cpus=jobs, include_dashboard=False, log_to_driver=False)
        gpus = 1 if settings.device.startswith("cuda") else 0
        # A lost machine or a killed worker is tried again: the run goes on from its checkpoint.
        self._task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=2)(_remote)
        self._running: set[Any] = set()

    def __call__(self, spec: Spec) -> Outcome:
        settings = {**vars(self.settings), "pool": str(Path(self.settings.pool).resolve())}
        place = Path(self.settings.pool) / spec.folder_name
        reference = self._task.remote(spec.to_dict(), settings)
        self._running.add(reference)
        try:
            return Outcome(spec, place, **self.ray.get(reference))
        except self.ray.exceptions.RayError as error:
            sentence = f"Ray lost it ({type(error).__name__}); the same command goes on from its checkpoint."
            return Outcome(spec, place, error=sentence, cause="Killed")
        finally:
            self._running.discard(reference)

    def close(self) -> None:
        """Cancel what is under way; only the work since the last checkpoint is lost."""
        for reference in list(self._running):
            self.ray.cancel(reference, force=True)
        if self._own:
            self.ray.shutdown()


def _remote(spec: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    return perform(Spec.from_dict(spec), Settings(**settings), lambda *_: None).plain()
