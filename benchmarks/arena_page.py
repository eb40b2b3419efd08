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
OTHERS = {
    "group40": "one group 40 %",
    "uniform40": "uniform 40 %",
    "one-class": "a fifth as one label",
    "clean": "none",
}
METHODS = (
    *("fairweight", "true rates, same opinions", "fairweight, nothing trusted"),
    *("cleanlab, LightGBM", "cleanlab, logistic"),
    *("Data-OOB", "KNN-Shapley", "margin over training", "low score"),
    *("low score within its cell", "fairweight, by EM", "posterior and score within its cell"),
)
KNOWN = METHODS[1]
TABLES = ("adult", "bank", "credit")
FRESH = ("health", "admissions", "nursery", "german")
COMPARED = ("fairweight", "cleanlab, LightGBM")


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
                if method in seed and all(one in seed for one in COMPARED)
            ]
            cells.append(_both(found) if found else "–")
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def seeds_of(record: dict[str, Any], exemplars: str) -> str:
    """How many seeds both ours and cleanlab have with this draw, in words."""
    rows = [row for row in record["rows"] if row["set"] in TABLES and row["exemplars"] == exemplars]
    sizes = {sum(all(m in seed for m in COMPARED) for seed in row["seeds"].values()) for row in rows}
    return f"{' to '.join(str(size) for size in sorted({min(sizes), max(sizes)}))} seeds"


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
            if all(one in seed for one in COMPARED)
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


def fresh(record: dict[str, Any]) -> str:
    """Tables that took no part in choosing the rule: rankings over kinds of noise, and how many counts hold."""
    heads = ["set, exemplars", "n", *COMPARED, "count off by", "interval holds the truth", "cleanlab off by"]
    lines = table_head(heads)
    for name in FRESH:
        for exemplars in dict.fromkeys(row["exemplars"] for row in record["rows"] if row["set"] == name):
            rows = [row for row in record["rows"] if row["set"] == name and row["exemplars"] == exemplars]
            found = [seed for row in rows for seed in row["seeds"].values() if all(one in seed for one in COMPARED)]
            ranked = [[seed[one] for seed in found if "auc" in seed[one]] for one in COMPARED]
            off = [np.mean([abs(seed[one]["count"] - seed[one]["wrong"]) for seed in found]) for one in COMPARED]
            ours = [seed["fairweight"] for seed in found]
            inside = sum(entry["low"] <= entry["wrong"] <= entry["high"] for entry in ours)
            cells = [*map(_both, ranked), f"{off[0]:,.0f}", f"{inside} of {len(ours)}", f"{off[1]:,.0f}"]
            lines.append(f"| {name}, {exemplars} | {len(found)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def pair(found: dict[str, Any]) -> str:
    return f"{found['accuracy']['mean']:.1f} / {found['tprd']['mean']:.1f}"


def cleaning(record: dict[str, Any]) -> str:
    """Accuracy and gap of each way on rows that gave no verdict, and the verdicts."""
    ways = {"as-given": "as given", "relabelled": "relabelled", "weighted": "weighted", "dropped": "dropped"}
    ways |= {"random-drop": "random drop", "true labels": "true labels"}
    lines = table_head(["set, noise", "training", "n", *ways.values(), "verdicts"])
    for found in record["cleaning"]:
        for method, arms in found["fresh"].items():
            cells = [pair(arms[way]["means"]) + star(arms[way]) if way in arms else "–" for way in ways]
            said = [verdict["recommended"] or "do not clean" for verdict in found["verdicts"].values()]
            verdicts = ", ".join(f"{said.count(one)} x {one}" for one in dict.fromkeys(said))
            n = arms["as-given"]["means"]["tprd"]["n"]
            about = f"{found['set']}, {(NOISES | OTHERS)[found['noise']]} | {method} | {n}"
            lines.append(f"| {about} | {' | '.join(cells)} | {verdicts} |")
    return "\n".join(lines)


def star(arm: dict[str, Any]) -> str:
    """* where accuracy is lower or the gap wider than with the labels as given, beyond chance over trainings."""
    gap, accuracy = (arm["from_as_given"][name] for name in ("tprd", "accuracy"))
    sure = [one["p"] is not None and one["p"] < 0.05 for one in (gap, accuracy)]
    return "*" if (sure[0] and gap["mean"] > 0) or (sure[1] and accuracy["mean"] < 0) else ""


def followed(record: dict[str, Any]) -> str:
    """What following the verdicts does on rows that did not give them."""
    verdicts = [verdict for found in record["cleaning"] for verdict in found["verdicts"].values()]
    moved = [verdict["on_fresh_rows"] for verdict in verdicts if verdict["on_fresh_rows"] is not None]
    said = f"A way was recommended in {len(moved)} of {len(verdicts)} cases"
    if not moved:
        return f"{said}."
    gaps, accuracies = ([one[name]["mean"] for one in moved] for name in ("tprd", "accuracy"))
    wider = sum(one["tprd"]["p"] is not None and one["tprd"]["p"] < 0.05 and one["tprd"]["mean"] > 0 for one in moved)
    return (
        f"{said}; there accuracy changes by {np.mean(accuracies):+.1f} points and the gap by {np.mean(gaps):+.1f} "
        f"(from {min(gaps):+.1f} to {max(gaps):+.1f}) on the fresh rows, and it widens beyond chance in {wider}."
    )


def table_head(heads: list[str]) -> list[str]:
    return [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]


def controls(record: dict[str, Any]) -> str:
    """Plain uses of the exemplars beside FORML: accuracy and gap."""
    ways = ("plain training", "exemplars added", "fine-tuned on exemplars", "FORML")
    lines = table_head(["set, noise", "n", *ways])
    for found in record["controls"]:
        cells = [pair(found["means"][way]) for way in ways]
        lines.append(f"| {found['set']}, {NOISES[found['noise']]} | {len(found['seeds'])} | {' | '.join(cells)} |")
    return "\n".join(lines)


def scores(record: dict[str, Any]) -> str:
    """AUC / precision of posterior, scores and both, the mean over sets and seeds."""
    rows = record["scores"]
    noises = list(dict.fromkeys(row["noise"] for row in rows))
    methods = list(dict.fromkeys(method for row in rows for seed in row["seeds"].values() for method in seed))
    lines = table_head(["", *(NOISES[noise] for noise in noises)])
    for method in methods:
        found = [
            [s[method] for row in rows if row["noise"] == noise for s in row["seeds"].values()] for noise in noises
        ]
        lines.append(f"| {method} | {' | '.join(map(_both, found))} |")
    return "\n".join(lines)


def fragile(record: dict[str, Any]) -> str:
    """The case of credit card default with exemplars drawn at random, in words."""
    found = record["fragile"][0]
    means, suspects = found["means"], found["suspects"]
    ways = [way for way in ("plain training", "FORML", "fairweight train") if way in means]
    said = "; ".join(f"{way} {pair(means[way])} (n = {means[way]['tprd']['n']})" for way in ways)
    return (
        f"Credit card default, a fifth of men's labels flipped, 600 exemplars at random, accuracy / TPRD: {said}. "
        f"AUC {suspects['auc']['mean']:.3f}; {suspects['count']['mean']:,.0f} labels are estimated to be wrong and "
        f"{suspects['looks_wrong']['mean']:,.0f} look wrong, of {suspects['wrong']['mean']:,.0f} that are."
    )


def images(record: dict[str, Any]) -> str:
    """AUC / precision at the true count, and the counts."""
    names = ("fairweight", "fairweight, nothing trusted", "cleanlab, cross-validated")
    names += ("fairweight's posterior, cross-validated",)
    lines = table_head(["set, noise, training", "n", *names, "wrong", "ours counts", "cross-validated", "cleanlab"])
    for row in record["images"]:
        means = row["means"]
        both = [
            f"{100 * means[name]['auc']['mean']:.1f} / {100 * means[name]['precision']['mean']:.0f}"
            if name in means
            else "–"
            for name in names
        ]
        counted = [means.get(name, {}).get("count") for name in (names[0], names[3], names[2])]
        counts = [f"{means['fairweight']['wrong']['mean']:,.0f}"]
        counts += ["–" if one is None else f"{one['mean']:,.0f}" for one in counted]
        method = {"uniform": "plain", "forml": "FORML"}[row["method"]]
        about = f"{row['set']}, {row['noise']}, {method} | {len(row['seeds'])}"
        lines.append(f"| {about} | {' | '.join([*both, *counts])} |")
    return "\n".join(lines)


def page_of(record: dict[str, Any]) -> str:
    """Everything as Markdown."""
    seeds = sorted({seed for row in record["rows"] for seed in row["seeds"]}, key=int)
    source = f"`{record['command']}`; {record['device']}; commits {record['commit']}."
    parts = [
        "Adult, bank and credit, 600 exemplars drawn evenly: AUC / precision at the true count in %, mean of the sets.",
        ranking(record, TABLES, "600 even", METHODS),
        "Digits (the label is the group):",
        ranking(record, ("digits",), "600 even", tuple(method for method in METHODS[:8] if method != KNOWN)),
    ]
    for exemplars in ("600 random", "100 even", "100 random"):
        if any(row["exemplars"] == exemplars for row in record["rows"]):
            drawn = (
                exemplars.replace("even", "evenly").replace("random", "at random").replace(" ", " exemplars drawn ", 1)
            )
            both = METHODS[:4]
            parts += [f"{drawn}, {seeds_of(record, exemplars)}:", ranking(record, TABLES, exemplars, both)]
    parts += ["How many, 600 exemplars drawn evenly, mean of the sets:", counts(record, "600 even")]
    for exemplars in ("600 random", "100 even", "100 random"):
        drawn = exemplars.replace("even", "evenly").replace("random", "at random").replace(" ", " exemplars drawn ", 1)
        parts += [f"The same, {drawn}, {seeds_of(record, exemplars)}:", counts(record, exemplars)]
    parts += [
        "Tables that took no part in choosing the rule, up to 6,000 train rows with wrong labels in one group, in the "
        "minority class, in a cell (30 %), uniform (20 %) and none; n sets and seeds; counts are off by so many "
        "labels, on average:",
        fresh(record),
    ]
    if record["cleaning"]:
        parts += [
            "Training after cleaning, accuracy / TPRD in % on test rows that gave no verdict, mean over n trainings "
            "(seeds of the data and of training); * is worse than the labels as given beyond chance over trainings:",
            cleaning(record),
            followed(record),
        ]
    if record.get("scores"):
        n = sum(len(row["seeds"]) for row in record["scores"]) // len({row["noise"] for row in record["scores"]})
        parts += [
            f"Scores beside the posterior, AUC / precision in %, n = {n} (sets and seeds). tied: FORML's default, "
            "which adds a score for each cell; own: a score for each sample alone; both: the mean rank of the two; "
            "fitted to the truth: a logistic model that knows which labels are wrong, the most that scores could add:",
            scores(record),
        ]
    if record["fragile"]:
        parts.append(fragile(record))
    if record["controls"]:
        parts += ["Plain uses of the 600 exemplars beside FORML, accuracy / TPRD in %:", controls(record)]
    if record["images"]:
        parts += [
            "Pictures, AUC / precision in %, and how many labels are said to be wrong; cross-validated takes three "
            "more trainings, which `suspects` does not do:",
            images(record),
        ]
    return "\n\n".join([*parts, f"{record['setting']}; seeds {seeds[0]} to {seeds[-1]}. {source}"])


def mended_gap(record: dict[str, Any]) -> str:
    """How far gap and accuracy on given and on mended labels are from those on true labels."""
    heads = [f"{number} on {way} labels" for number in ("gap", "accuracy") for way in ("given", "mended")]
    lines = table_head(["wrong labels", "n", *heads, "the gap's error changes by"])
    for row in record["rows"]:
        means = [row["off"][head.replace(" on ", " by ")] for head in heads]
        cells = [f"{mean['mean']:.1f} ± {mean['standard_error']:.1f}" for mean in means]
        change = row["change"]["gap"]
        p = "–" if change["p"] is None else f"p = {change['p']:.2g}"
        about = f"| {NOISES[row['noise']]} | {means[0]['n']} | {' | '.join(cells)}"
        lines.append(f"{about} | {change['mean']:+.1f} ({p}) |")
    end = f"{record['setting']}. `{record['command']}`; {record['device']}; commit {record['commit']}."
    said = "Points by which a gap and an accuracy are off, mean ± standard error over Adult, bank and credit and seeds:"
    return "\n\n".join([said, "\n".join(lines), end])


def fill(page: Path, records: Path) -> None:
    """Replace what stands between the marks by the newest record."""
    made = placed(page.read_text(encoding="utf-8"), "arena", page_of(newest(records, "arena")[1]))
    made = placed(made, "mended_gap", mended_gap(newest(records, "mended_gap")[1]))
    page.write_text(made, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, required=True)
    parser.add_argument("--records", type=Path, default=Path("records"))
    asked = parser.parse_args()
    fill(asked.page, asked.records)


if __name__ == "__main__":
    main()
