"""Condensation on a real table: what is left trains what, beside random sets of its size.

One run chooses; training, plainly and by FORML, on what each rule keeps, on as many samples at random, and on as many
of each class and of each cell at random, over seeds that the choice has not seen. Rules, share and seeds are fixed
beforehand; every rule is reported.

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
from fairweight.apps.trainings import NUMBERS, Trainings
from fairweight.paper.records import keep
from fairweight.runs.provenance import provenance
from fairweight.runs.run import run
from fairweight.runs.spec import Spec

RULES = ("weighted-loss", "recall-quotas")  # the paper's, and quotas by recall


def measured(rule: str, chooser: Path, asked: argparse.Namespace) -> dict[str, Any]:
    written = condense_run(chooser, asked.drop, rule, 10, Path(asked.out) / rule)
    found = retrain(written, Trainings(asked.seeds, 1, jobs=1, data_dir=asked.data_dir))
    cells = written.condensed.cells.to_dict(orient="records")
    told = found.to_dict()
    said = {"arms": told["retrained"], "by_method": told["by_method"], "verdict": told["verdict"]}
    return {"rule": rule, "cells": cells, **said}


def text(mean: dict[str, Any], sign: str = "") -> str:
    return f"{mean['mean']:{sign}.2f} ± {mean['standard_error']:.2f}"


def table(record: dict[str, Any]) -> str:
    """The record as Markdown: in hundredths, mean and standard error over seeds."""
    heads = ["training on", "samples", *NUMBERS.values(), "beside all"]
    parts = []
    for method in record["rules"][0]["by_method"]:
        lines = [f"| {method}, {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        first = record["rules"][0]["by_method"][method]
        rows = [(ARMS[arm], first[arm]) for arm in ("full", "random")]
        for one in record["rules"]:
            found = one["by_method"][method]
            rows.append((f"kept by {one['rule']}", found["kept"]))
            rows += [(f"– {ARMS[arm]}", found[arm]) for arm in ("random-by-class", "random-by-cell") if arm in found]
        for title, found in rows:
            numbers = [f"{found['samples']:,}", *(text(found[n]) for n in NUMBERS), ", ".join(found["beside_all"])]
            lines.append(f"| {title} | {' | '.join(numbers)} |")
        parts.append("\n".join(lines))
    parts.append(" ".join(f"Verdict on {one['rule']}: {one['verdict']}" for one in record["rules"]))
    seeds = record["rules"][0]["arms"]["full"]["accuracy"]["n"]
    source = f"`{record['command']}`; {record['device']}; commit {record['commit']}."
    parts.append(f"{record['setting']}; in %, mean ± standard error over {seeds} seeds. {source}")
    return "\n\n".join(parts)


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
