"""Put the arena's newest record into the documentation: rankings, counts, and training after cleaning.

python benchmarks/arena_page.py --page docs/audit.md
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from newest_record import newest, placed

NOISES = {
    "group": "one group",
    "majority": "majority class",
    "minority": "minority class",
    "uniform10": "uniform 10 %",
    "uniform20": "uniform 20 %",
}
METHODS = (
    *("fairweight", "fairweight, nothing trusted", "cleanlab, LightGBM", "cleanlab, logistic"),
    *("Data-OOB", "KNN-Shapley", "margin over training", "low score"),
    *("low score within its cell", "posterior and score within its cell"),
)
TABLES = ("adult", "bank", "credit")


def ranking(record: dict[str, Any], sets: tuple[str, ...], exemplars: str, methods: tuple[str, ...]) -> str:
    """AUC / precision at the true count in %, the mean over sets and seeds."""
    lines = [f"| | {' | '.join(NOISES.values())} |", "|---" * (len(NOISES) + 1) + "|"]
    for method in methods:
        cells = []
        for noise in NOISES:
            found = [
                seed[method]
                for row in record["rows"]
                if row["set"] in sets and row["noise"] == noise and row["exemplars"] == exemplars
                for seed in row["seeds"].values()
                if method in seed
            ]
            cells.append(_both(found) if found else "–")
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _both(found: list[dict[str, Any]]) -> str:
    auc, precision = (100 * np.array([entry[key] for entry in found]) for key in ("auc", "precision"))
    return f"{auc.mean():.1f} / {precision.mean():.0f}"


def counts(record: dict[str, Any], exemplars: str) -> str:
    """How many labels are wrong, as estimated, and how often the interval holds the truth."""
    heads = ["noise", "wrong", "estimated", "look wrong", "interval holds the truth", "by label and group", "cleanlab"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for noise, title in {**NOISES, "clean": "none"}.items():
        found = [
            seed
            for row in record["rows"]
            if row["set"] in TABLES and row["noise"] == noise and row["exemplars"] == exemplars
            for seed in row["seeds"].values()
        ]
        if not found:
            continue
        ours = [seed["fairweight"] for seed in found]
        inside = [entry["low"] <= entry["wrong"] <= entry["high"] for entry in ours]
        parts = [part for entry in ours for part in entry["parts"]]
        means = [np.mean([entry[key] for entry in ours]) for key in ("wrong", "count", "looks_wrong")]
        theirs = np.mean([seed["cleanlab, LightGBM"]["count"] for seed in found])
        held = f"{sum(inside)} of {len(inside)} | {sum(parts)} of {len(parts)}"
        lines.append(f"| {title} | {' | '.join(f'{mean:,.0f}' for mean in means)} | {held} | {theirs:,.0f} |")
    return "\n".join(lines)


def cleaning(record: dict[str, Any]) -> str:
    """Accuracy and gap of each way, plainly and by FORML, and the verdict."""
    ways = {"as-given": "as given", "relabelled": "relabelled", "weighted": "weighted", "dropped": "dropped"}
    ways["random-drop"] = "random drop"
    heads = ["set, noise", "training", *ways.values(), "verdict"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for found in record["cleaning"]:
        for method, arms in found["methods"].items():
            cells = [
                f"{arms[way]['means']['accuracy']['mean']:.1f} / {arms[way]['means']['tprd']['mean']:.1f}"
                + ("*" if arms[way]["harms"] else "")
                if way in arms
                else "–"
                for way in ways
            ]
            verdict = found["recommended"] or "do not clean"
            lines.append(f"| {found['set']}, {found['noise']} | {method} | {' | '.join(cells)} | {verdict} |")
    return "\n".join(lines)


def page_of(record: dict[str, Any]) -> str:
    """Everything as Markdown."""
    seeds = sorted({seed for row in record["rows"] for seed in row["seeds"]}, key=int)
    source = f"`{record['command']}`; {record['device']}; commit {record['commit']}."
    parts = [
        "Adult, bank and credit, 600 exemplars drawn evenly: AUC / precision at the true count in %, mean of the sets.",
        ranking(record, TABLES, "600 even", METHODS),
        "Digits (the label is the group):",
        ranking(record, ("digits",), "600 even", METHODS[:7]),
    ]
    for exemplars in ("600 random", "100 even", "100 random"):
        if any(row["exemplars"] == exemplars for row in record["rows"]):
            parts += [
                f"{exemplars.replace(' ', ' exemplars, drawn ')}:",
                ranking(record, TABLES, exemplars, METHODS[:4]),
            ]
    parts += ["How many, 600 exemplars drawn evenly, mean of the sets:", counts(record, "600 even")]
    if record["cleaning"]:
        parts += [
            "Training after cleaning, accuracy / TPRD in %, mean over 5 seeds; * harms beyond chance:",
            cleaning(record),
        ]
    if record.get("images"):
        parts += ["Images, AUC / precision in %:", images(record["images"])]
    return "\n\n".join([*parts, f"{record['setting']}; seeds {seeds[0]} to {seeds[-1]}. {source}"])


def images(found: list[dict[str, Any]]) -> str:
    """One row per set, noise and training; ranked by our rule, its parts, and the same model's self-confidence."""
    names = [name for name in found[0]["means"] if name != "low score"]
    lines = [f"| set, noise, training | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for row in found:
        cells = [
            f"{100 * row['means'][name]['auc']:.1f} / {100 * row['means'][name]['precision']:.0f}" for name in names
        ]
        lines.append(f"| {row['set']}, {row['noise']}, {row['method']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def fill(page: Path, records: Path) -> None:
    """Replace what stands between the marks by the newest record."""
    made = placed(page.read_text(encoding="utf-8"), "arena", page_of(newest(records, "arena")[1]))
    page.write_text(made, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, required=True)
    parser.add_argument("--records", type=Path, default=Path("records"))
    asked = parser.parse_args()
    fill(asked.page, asked.records)


if __name__ == "__main__":
    main()
