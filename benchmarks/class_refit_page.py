"""The section of docs/choices.md that is made from the newest record of the kind class_refit."""

from __future__ import annotations

import json
from pathlib import Path

from class_fairness_page import cell, error

FIRST, WHOLE = "tied .003", "uniform, all rows"


def section(records: Path) -> list[str]:
    """What docs/choices.md says of the newest record; nothing where there is none."""
    paths = sorted(records.glob("*_class_refit/record.json"))
    if not paths:
        return []
    record = json.loads(paths[-1].read_text())
    heads = ("training", "rows", "accuracy", "beside Uniform, all", "recall std ↓", "TPRD ↓", "worst recall ↑", "n")
    lines = [
        "## Once more with all rows",
        "",
        f"From `records/{paths[-1].parent.name}/record.json` ({record['device']}; commit "
        f"{', '.join(record['commits'])}). The same net, rows and validation. `{FIRST}` learns class weights while "
        "5,000 exemplars are held out; `refit` trains afresh on all 20,000 rows with the weights to the power of the "
        "share, fixed. `fairweight refit` does what a share of 1 does; nothing was chosen here. Validation, percent, "
        "mean ± standard error over seeds, differences by seed.",
        "",
        f"| {' | '.join(heads)} |",
        "|---" * len(heads) + "|",
    ]
    for row in record["rows"]:
        size = "15,000" if row["name"] in ("uniform", FIRST) else "20,000"
        beside = row["beside"].get(WHOLE, {}).get("accuracy")
        apart = "" if beside is None else f"{beside['mean']:+.2f}{error(beside)}"
        cells = [row["name"], size, cell(row["means"]["accuracy"]), apart]
        cells += [cell(row["means"][key]) for key in ("recall_std", "tprd", "worst")]
        lines.append(f"| {' | '.join(cells)} | {row['n']} |")
    by_name = {row["name"]: row for row in record["rows"]}
    said = by_name["refit, share 1"]["beside"][WHOLE]
    less = -100 * said["tprd"]["mean"] / by_name[WHOLE]["means"]["tprd"]["mean"]
    spread = -100 * said["recall_std"]["mean"] / by_name[WHOLE]["means"]["recall_std"]["mean"]
    lines += [
        "",
        f"At a share of 1: {less:.0f} % less TPRD ({said['tprd']['mean']:+.2f} ± {said['tprd']['standard_error']:.2f}) "
        f"and {spread:.0f} % less spread of the recalls than Uniform on all rows, accuracy "
        f"{said['accuracy']['mean']:+.2f} ± {said['accuracy']['standard_error']:.2f} points. What it gave with "
        "ResNet-18 stands in [results](results.md), cifar10, short.",
        "",
    ]
    return lines
