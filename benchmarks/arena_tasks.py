"""Carry out the tasks of an arena side by side, and keep each result when it is there."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import logging
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from fairweight.runs.provenance import provenance

Task = dict[str, Any]
Job = Callable[[Task, str, str], dict[str, Any]]


def parser_of(about: str | None, out: str) -> argparse.ArgumentParser:
    """Options that every arena has."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", default="shared/data")
    parser.add_argument("--first-seed", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600, help="no task is begun after so many")
    parser.add_argument("--out", default=out, help="folder of the runs")
    parser.add_argument("--results", type=Path, help="file of what was found; default: found.json in the folder")
    return parser


def carry_out(job: Job, wanted: list[Task], asked: argparse.Namespace) -> None:
    """Carry out what is not yet in the file, so that a study that was stopped goes on."""
    file = asked.results or Path(asked.out) / "found.json"
    kept = json.loads(file.read_text())["entries"] if file.is_file() else []
    about = provenance()
    peers = {dist.metadata["Name"].lower(): dist.version for dist in importlib.metadata.distributions()}
    about["versions"] |= {name: peers[name] for name in ("cleanlab", "lightgbm") if name in peers}
    have = [entry["task"] for entry in kept]
    left, ends = [task for task in wanted if task not in have], time.monotonic() + 60 * asked.minutes
    file.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(asked.jobs) as pool:
        queue = iter(left)
        running = {pool.submit(_timed, job, task, asked.out, asked.data_dir) for task in islice(queue, asked.jobs)}
        while running:
            done = next(as_completed(running))
            running.remove(done)
            task, found = done.result()
            kept.append({"task": task, "found": found})
            print(f"{len(kept)} of {len(have) + len(left)}: {task}", flush=True)
            file.with_suffix(".part").write_text(json.dumps({"about": about, "entries": kept}))
            file.with_suffix(".part").replace(file)
            following = next(queue, None) if time.monotonic() < ends else None
            if following is not None:
                running.add(pool.submit(_timed, job, following, asked.out, asked.data_dir))


def _timed(job: Job, task: Task, out: str, data_dir: str) -> tuple[Task, dict[str, Any]]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.getLogger("fairweight").addHandler(logging.NullHandler())
    return task, job(task, out, data_dir)
