"""Condensation on a real table: what is left trains what, beside random sets of its size.

One run chooses; plain training on what each rule keeps, on as many samples at random and on as many of each class at
random, over seeds that the choice has not seen. Rules, share and seeds are fixed beforehand; every rule is reported.

    python benchmarks/condense.py --data-dir FOLDER --records records
    python benchmarks/condense.py --page docs/audit.md      # put the newest record's table there
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from newest_record import newest, placed

from fairweight.apps.condense import ARMS, condense_run, retrain
from fairweight.apps.trainings import NUMBERS, Trainings, difference
from fairweight.paper.records import keep
from fairweight.runs.provenance import provenance
from fairweight.runs.run import run
from fairweight.runs.spec import Spec

RULES = ("weighted-loss", "recall-quotas")  # the paper's, and quotas by recall


def measured(rule: str, chooser: Path, asked: argparse.Namespace) -> dict[str, Any]:
    written = condense_run(chooser, asked.drop, rule, 10, Path(asked.out) / rule)
    found = retrain(written, Trainings(asked.seeds, 1, jobs=1, data_dir=asked.data_dir))
    cells = written.condensed.cells.to_dict(orient="records")
    against = {n: difference(found.arms["kept"], found.arms["random-by-class"], n) for n in NUMBERS}
    return {"rule": rule, "cells": cells, "arms": found.to_dict(), "kept_against_random_by_class": against}


def text(mean: dict[str, Any], sign: str = "") -> str:
    return f"{mean['mean']:{sign}.2f} ± {mean['standard_error']:.2f}"


def table(record: dict[str, Any]) -> str:
    """The record as Markdown: in hundredths, mean and standard error over seeds."""
    lines = [
        f"| plain training on | samples | {' | '.join(NUMBERS.values())} |",
        f"|---|---|{'---|' * len(NUMBERS)}",
    ]
    for arm in ("full", "random"):
        found = record["rules"][0]["arms"][arm]
        lines.append(f"| {ARMS[arm]} | {found['samples']:,} | {' | '.join(text(found[n]) for n in NUMBERS)} |")
    for one in record["rules"]:
        for arm, title in (("kept", f"kept by {one['rule']}"), ("random-by-class", "– random, same count per class")):
            found = one["arms"][arm]
            lines.append(f"| {title} | {found['samples']:,} | {' | '.join(text(found[n]) for n in NUMBERS)} |")
    seeds = record["rules"][0]["arms"]["full"]["accuracy"]["n"]
    source = f"`{record['command']}`; {record['device']}; commit {record['commit']}."
    return "\n".join([*lines, "", f"{record['setting']}; in %, mean ± standard error over {seeds} seeds. {source}"])


def fill(page: Path, records: Path) -> None:
    """Replace what stands between the marks by the newest record's table."""
    made = placed(page.read_text(encoding="utf-8"), "condense", table(newest(records, "condense")[1]))
    page.write_text(made, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", default="adult")
    parser.add_argument("--data-dir")
    parser.add_argument("--drop", default="30%")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--out", default="runs/condense")
    parser.add_argument("--records", default="records")
    parser.add_argument("--page", type=Path, help="only put the newest record's table into this page")
    asked = parser.parse_args()
    if asked.page is not None:
        fill(asked.page, Path(asked.records))
        return
    torch.set_num_threads(1)
    network = {"name": "mlp", "hidden": [64, 64]}
    spec = Spec(asked.source, network=network, method="forml", epochs=asked.epochs, batch_size=128, seed=0)
    chooser = Path(asked.out) / "chooser"
    run(spec, chooser, data_dir=asked.data_dir)
    rules = [measured(rule, chooser, asked) for rule in RULES]
    about = provenance()
    about["command"] = (
        f"python benchmarks/condense.py --drop {asked.drop} --seeds {asked.seeds} --epochs {asked.epochs}"
    )
    setting = f"{asked.source}, {asked.drop} dropped by a FORML run of seed 0, MLP 64-64, {asked.epochs} epochs"
    record = {"kind": "condense", "name": "condense", "setting": setting, "rules": rules, **about}
    print(table(record))
    print(f"\nRecord: {keep(record, asked.records)}")


if __name__ == "__main__":
    main()
