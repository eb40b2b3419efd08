"""Run a published table: every row over seeds, ours beside printed, with a verdict."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from fairweight.errors import FairweightError
from fairweight.paper.moved_decisions import class_bias, same_rate
from fairweight.paper.plan import Planned
from fairweight.paper.tables import Row
from fairweight.paper.verdict import with_statistics
from fairweight.runs.folder import RUN, RunFolder
from fairweight.runs.pool import run_each
from fairweight.runs.provenance import of_runs
from fairweight.runs.statistics import numbers_in, numbers_of

KEEP_EVERY = 60.0  # seconds between records while runs go on: a kill loses minutes, not hours


def reproduce(
    plan: Planned,
    out: str | Path,
    *,
    keep: Callable[[dict[str, Any]], object] = lambda record: None,
    **options: Any,
) -> dict[str, Any]:
    """Run the table's rows over seeds into a pool of run folders under `out`; return the record, plain values.

    Trained rows that were not asked for stand in the record too if their runs are in the pool already. keep is given
    the record as it stands, now and then. options: engine, jobs, device, data_dir, download and watcher, as for
    runs.pool.run_each.
    """
    pool = Path(out) / "runs"
    started, when = time.monotonic(), datetime.datetime.now(datetime.UTC).isoformat()
    failed: dict[str, str] = {}  # by fingerprint

    def record() -> dict[str, Any]:
        entries = [_entry(plan, row, pool, failed) for row in plan.all_rows]
        trained = [_folder(row, seed, pool) for row in plan.all_rows if row.spec is not None for seed in plan.seeds]
        return with_statistics(
            {
                **plan.heading(),
                "seeds": list(plan.seeds),
                "rows": [entry for entry in entries if entry["seeds"] or entry["failed"]],
                "command": plan.command,
                "wall_seconds": (took := round(time.monotonic() - started, 1)),
                "walls": {when: took},
                "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                **of_runs(folder.read(RUN) for folder in trained if folder.finished),
            }
        )

    kept = time.monotonic()
    with closing(run_each(plan.specs(), pool, **options)) as finished:
        for outcome in finished:
            if outcome.error is not None:
                failed[outcome.spec.fingerprint] = outcome.error
            if time.monotonic() - kept >= KEEP_EVERY:
                keep(record())
                kept = time.monotonic()
    return record()


def _entry(plan: Planned, row: Row, pool: Path, errors: Mapping[str, str]) -> dict[str, Any]:
    """A row with its numbers seed by seed."""
    numbers: dict[str, dict[str, float]] = {}
    failed: dict[str, str] = {}
    for seed in plan.seeds if row.moved is None or row in plan.rows else ():
        error = None if row.spec is None else errors.get(row.spec_for(seed).fingerprint)
        try:
            values = _numbers(plan, row, seed, pool) if error is None else None
        except FairweightError as missing:  # a file is missing: the other rows, and runs under way, know nothing of it
            values, error = None, str(missing) if row in plan.rows else None
        if values is not None:
            numbers[str(seed)] = values
        elif error is not None:
            failed[str(seed)] = error
    spec = None if row.spec is None else row.spec.to_dict()
    return {**row.described, "spec": spec, "seeds": numbers, "failed": failed}


def _numbers(plan: Planned, row: Row, seed: int, pool: Path) -> dict[str, float] | None:
    """None while a run that they need is not finished."""
    by_key = {other.key: other for other in plan.all_rows}
    needed = (row.key,) if row.moved is None else row.moved.needs
    folders = [_folder(by_key[key], seed, pool) for key in needed]
    if not all(folder.finished for folder in folders):
        return None
    if row.moved is not None:
        table = class_bias(folders[0], row.moved.fraction) if row.moved.how == "class-bias" else same_rate(*folders)
        return numbers_in(table.to_dict())
    with_loss_ratios = any(number.key == "loss_ratio" for number in plan.table.numbers)
    return {**numbers_of(folders[0]), **(_loss_ratios(folders[0]) if with_loss_ratios else {})}


def _folder(row: Row, seed: int, pool: Path) -> RunFolder:
    return RunFolder(pool / row.spec_for(seed).folder_name)


def _loss_ratios(folder: RunFolder) -> dict[str, float]:
    """EMA loss of the training samples labelled 2 over that of the others, plain and weighted."""
    weights = folder.read_weights()
    has_label = weights["label"].astype(str) == "2"
    return {
        name: float(weights.loc[has_label, column].mean() / weights.loc[~has_label, column].mean())
        for name, column in {"loss_ratio": "ema_loss", "weighted_loss_ratio": "ema_weighted_loss"}.items()
    }
