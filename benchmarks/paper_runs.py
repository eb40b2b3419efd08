r"""Run rows of several tables side by side within a time, and bring what was finished back as one file of records.

A machine that is there for minutes alone loses its run folders: seeds that were finished come home, the others are
run again another day. Runs of all tables share the processes, the longest first, those that others build on before
them.

    python benchmarks/paper_runs.py --data FOLDER --seconds 500 --jobs 14 --device cuda --to records.json \
        'mnist --seeds 10 --rows lb-rate-3,fine-tuned' 'mnist --seeds 10 --rows uniform --option selection=last'
    python benchmarks/paper_runs.py --take records.json           # into records/, beside what is there; then make docs
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairweight.paper.plan import Planned, planned
from fairweight.paper.records import keep
from fairweight.paper.reproduce import reproduce
from fairweight.runs.pool import run_each

ROOT = Path(__file__).resolve().parents[1]


def plan_of(line: str) -> Planned:
    """What `fairweight reproduce LINE` would run."""
    words = argparse.ArgumentParser(prog="fairweight reproduce")
    words.add_argument("table")
    words.add_argument("--seeds", type=int)
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--short", action="store_true")
    words.add_argument("--quick", action="store_true")
    words.add_argument("--epochs", type=int)
    words.add_argument("--rows")
    words.add_argument("--option", action="append", default=[])
    asked = words.parse_args(shlex.split(line))
    return planned(
        asked.table,
        size="quick" if asked.quick else "short" if asked.short else "paper",
        seeds=asked.seeds,
        first_seed=asked.seed,
        rows=None if asked.rows is None else asked.rows.split(","),
        options=dict(entry.split("=", 1) for entry in asked.option),
        epochs=asked.epochs,
    )


def run(plans: list[Planned], out: Path, seconds: float, to: Path, **options: Any) -> None:
    """Run what the plans ask for until the time is over; write the records of what is finished."""
    started = time.monotonic()
    specs = {spec.fingerprint: spec for plan in plans for spec in plan.specs()}
    names = {key: f"{plan.name}: {name}" for plan in plans for key, name in plan.run_names().items()}

    def stop() -> None:
        write(plans, out, to)
        os._exit(0)  # runs under way are lost: their seeds are not finished

    clock = threading.Timer(seconds, stop)
    clock.daemon = True
    clock.start()
    try:
        with closing(run_each(specs.values(), out / "runs", **options)) as outcomes:
            for number, outcome in enumerate(outcomes, start=1):
                name = names.get(outcome.spec.fingerprint, outcome.spec.folder_name)
                words = f"{name}, {outcome.seconds:.0f} s" if outcome.error is None else f"{name}: {outcome.error}"
                print(f"{time.monotonic() - started:5.0f} s  {number} of {len(specs)}: {words}", flush=True)
    finally:  # also where a set is missing, which ends the runs: what is finished comes home
        clock.cancel()
        write(plans, out, to)


def write(plans: list[Planned], out: Path, to: Path) -> None:
    """The records as they stand, one file."""
    # Plans that ask for no training: rows whose runs are finished stand in their records all the same.
    untrained = [replace(plan, rows=tuple(row for row in plan.rows if row.spec is None)) for plan in plans]
    found = [reproduce(plan, out, jobs=1) for plan in untrained]
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(json.dumps([record for record in found if record["rows"]]) + "\n")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("tables", nargs="*", help="as after `fairweight reproduce`, each in quotes")
    words.add_argument("--take", type=Path, help="run nothing: take these records into records/")
    words.add_argument("--data")
    words.add_argument("--device", default="cpu")
    words.add_argument("--jobs", type=int, default=1)
    words.add_argument("--seconds", type=float, default=86_400.0, help="stop after so many")
    words.add_argument("--out", type=Path, default=Path("runs/paper"))
    words.add_argument("--to", type=Path, default=Path("records.json"))
    asked = words.parse_args()
    if asked.take:
        for record in json.loads(asked.take.read_text()):
            print(keep(record, ROOT / "records"))
        return
    if not asked.tables:
        words.error("name a table")
    plans = [plan_of(line) for line in asked.tables]
    options = {"device": asked.device, "jobs": asked.jobs, "data_dir": asked.data}
    run(plans, asked.out, asked.seconds, asked.to, **options)


if __name__ == "__main__":
    main()
