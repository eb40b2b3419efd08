"""A published table, run: every row over seeds, ours beside printed, with a verdict."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fairweight.errors import FairweightError
from fairweight.paper import moved_decisions as controls
from fairweight.paper import run_numbers as numbers
from fairweight.paper.plan import Planned, planned
from fairweight.paper.summary import with_statistics
from fairweight.paper.tables import Row
from fairweight.runs._job import Outcome, Watcher
from fairweight.runs.folder import RUN, RunFolder
from fairweight.runs.pool import EngineName, run_all
from fairweight.runs.provenance import of_runs
from fairweight.runs.spec import Spec

__all__ = ["planned", "reproduce"]


def reproduce(
    what: Planned,
    out: str | Path,
    *,
    engine: EngineName = "processes",
    jobs: int | None = None,
    device: str = "cpu",
    data_dir: str | Path | None = None,
    download: bool = False,
    watcher: Watcher | None = None,
    keep: Callable[[dict[str, Any]], object] | None = None,
) -> dict[str, Any]:
    """Run the table's rows over seeds into a pool of run folders under `out`, and say what came out, as plain values.

    Rows that were not asked for stand in the result too where their runs are in the pool already. keep: given the
    record as it stands, now and then.
    """
    pool = Path(out) / "runs"
    started, when = time.monotonic(), datetime.datetime.now(datetime.UTC).isoformat()
    specs = what.specs()
    outcomes: dict[str, Outcome] = {}

    def record() -> dict[str, Any]:
        entries = [_entry(what, row, pool, outcomes) for row in what.every]
        return with_statistics(
            {
                **what.heading(),
                "seeds": list(what.seeds),
                "rows": [entry for entry in entries if entry["seeds"] or entry["failed"]],
                "command": what.command,
                "wall_seconds": (took := round(time.monotonic() - started, 1)),
                "walls": {when: took},
                "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                **of_runs(folder.read(RUN) for folder in _folders(what, pool) if folder.finished),
            }
        )

    run_all(
        specs,
        pool,
        engine=engine,
        jobs=jobs,
        device=device,
        data_dir=data_dir,
        download=download,
        watcher=_Keeping(watcher or Watcher(), outcomes, lambda: keep(record()) if keep is not None else None),
    )
    return record()


class _Keeping(Watcher):
    """Notes what became of each run, and has the record kept now and then: a kill loses minutes, not hours."""

    def __init__(
        self, inner: Watcher, outcomes: dict[str, Outcome], keep: Callable[[], object], every: float = 60
    ) -> None:
        self.inner, self.outcomes, self.keep, self.every = inner, outcomes, keep, every
        self._last = time.monotonic()

    def on_start(self, specs: list[Spec]) -> None:
        self.inner.on_start(specs)

    def on_epoch(self, fingerprint: str, epoch: int, epochs: int) -> None:
        self.inner.on_epoch(fingerprint, epoch, epochs)

    def on_outcome(self, outcome: Outcome) -> None:
        self.inner.on_outcome(outcome)
        self.outcomes[outcome.spec.fingerprint] = outcome
        if time.monotonic() - self._last >= self.every:
            self.keep()
            self._last = time.monotonic()

    def on_end(self) -> None:
        self.inner.on_end()


def _entry(what: Planned, row: Row, pool: Path, outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """A row with its numbers seed by seed."""
    found: dict[str, dict[str, float]] = {}
    failed: dict[str, str] = {}
    for seed in what.seeds:
        outcome = None if row.spec is None else outcomes.get(row.spec_for(seed).fingerprint)
        if outcome is not None and outcome.error is not None:
            failed[str(seed)] = outcome.error
            continue
        try:
            values = _numbers(what, row, seed, pool)
        except FairweightError as error:  # a file is missing: the other rows, and runs under way, know nothing of it
            if row in what.asked:
                failed[str(seed)] = str(error)
            continue
        if values is not None:
            found[str(seed)] = values
    return {
        "key": row.key,
        "title": row.title,
        "kind": row.kind,
        "printed_row": row.printed,
        "against": list(row.against),
        "spec": None if row.spec is None else row.spec.to_dict(),
        "moved": None if row.moved is None else vars(row.moved),
        "seeds": found,
        "failed": failed,
    }


def _numbers(what: Planned, row: Row, seed: int, pool: Path) -> dict[str, float] | None:
    if row.moved is not None:
        by_key = {other.key: other for other in what.every}
        folder = _folder(by_key[row.moved.of], seed, pool)
        if row.moved.how == "class-bias":
            return numbers.of_table(controls.class_bias(folder)) if folder.finished else None
        assert row.moved.like is not None
        like = _folder(by_key[row.moved.like], seed, pool)
        return numbers.of_table(controls.same_rate(folder, like)) if folder.finished and like.finished else None
    folder = _folder(row, seed, pool)
    if not folder.finished:
        return None
    wanted = {number.key for number in what.table.numbers}
    ratios = numbers.loss_ratios(folder) if "loss_ratio" in wanted else {}
    return {**numbers.of_run(folder), **ratios}


def _folder(row: Row, seed: int, pool: Path) -> RunFolder:
    return RunFolder(pool / row.spec_for(seed).folder_name)


def _folders(what: Planned, pool: Path) -> list[RunFolder]:
    """Of every row that is trained, asked for or not."""
    return [_folder(row, seed, pool) for row in what.every if row.spec is not None for seed in what.seeds]
