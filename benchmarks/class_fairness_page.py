"""The sections of docs/choices.md that are made from the newest records class_fairness and class_refit."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

from newest_record import newest

from fairweight.paper._table_text import difference_text, markdown
from fairweight.runs.statistics import Mean, mean_text

CLOSE = 0.1  # points of accuracy that the aim allows
ALLOWED = 0.2  # points of accuracy that may be lost where labels are wrong
LATER = ("agreeing own .3", "agreeing^2 own .3", "both 1", "both 2", "both 4", "heeding")  # under a rule of their own
MORE_TPRD = 1.0  # points of TPRD that such a one may have above the default's where labels are wrong
FIRST, WHOLE = "tied .003", "uniform, all rows"  # rows of the record class_refit
HEADS = ("setting", "accuracy", "beside Uniform", "recall std ↓", "TPRD ↓", "worst recall ↑", "n")


def trained(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The settings that could be chosen: FORML's, run on all three seeds, in the first round."""
    ours = [row for row in rows if row["method"] in ("forml", "agreeing") and row["n"] == 3]
    return [row for row in ours if row["name"] not in LATER]


def pooled_error(rows: list[dict[str, Any]]) -> float:
    """Standard error of a mean difference in accuracy, pooled over settings."""
    errors = [row["beside_uniform"]["accuracy"]["standard_error"] for row in rows]
    return math.sqrt(statistics.mean(error**2 for error in errors))


def verdict(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Step 2 of the rule: what is chosen (None: nothing), the best trade-off, and who may be free."""
    rows = trained(rows)
    error = pooled_error(rows)

    def spread(row: dict[str, Any]) -> float:
        return float(row["means"]["recall_std"]["mean"])

    def lost(row: dict[str, Any]) -> float:
        return -float(row["beside_uniform"]["accuracy"]["mean"])

    within = sorted((row for row in rows if lost(row) <= CLOSE), key=spread)
    free = [row["name"] for row in sorted(rows, key=spread) if lost(row) <= CLOSE + error]
    best = min(rows, key=lambda row: row["sum"])
    return {
        "chosen": within[0]["name"] if within else None,
        "trade_off": best["name"],
        "free": free,
        "pooled_error": error,
    }


def table(rows: list[dict[str, Any]]) -> list[str]:
    cells = []
    for row in rows:
        accuracy, *others = (mean_text(row["means"][key]) for key in ("accuracy", "recall_std", "tprd", "worst"))
        beside = "" if row["name"] == "uniform" else difference_text(row["beside_uniform"]["accuracy"])
        cells.append([row["name"], accuracy, beside, *others, row["n"]])
    return [markdown(HEADS, cells)]


def beside(row: dict[str, Any]) -> str:
    """A setting and what it did, in words."""
    accuracy, tprd = (row["beside_uniform"][key] for key in ("accuracy", "tprd"))
    before = row["means"]["tprd"]["mean"] - tprd["mean"]
    return (
        f"`{row['name']}` (recall std {100 * row['recall_std_over_uniform'] - 100:+.0f} %, TPRD "
        f"{100 * tprd['mean'] / before:+.0f} %, accuracy {accuracy['mean']:+.3f} point)"
    )


def beside_default(rows: list[dict[str, Any]], said: dict[str, Any]) -> list[str]:
    """Step 3 of the rule on wrong labels: whether a setting is for clean data alone."""
    by_name = {row["name"]: row["means"] for row in rows}
    lines = []
    for name in dict.fromkeys((said["chosen"], said["trade_off"])):
        if name not in by_name:
            continue
        less, tprd = (by_name[name][key]["mean"] - by_name["default"][key]["mean"] for key in ("accuracy", "tprd"))
        so = "it is for clean labels alone" if less < -ALLOWED else "within what the rule allows"
        lines.append(f"- `{name}` beside the default: accuracy {less:+.2f}, TPRD {tprd:+.2f}; {so}.")
    return lines


def section(record: dict[str, Any], name: str) -> list[str]:
    said = verdict(record["chosen_on"])
    three = [row for row in record["chosen_on"] if row["n"] == 3 and row["name"] not in LATER]
    free = ", ".join(f"`{each}`" for each in said["free"]) or "none"
    by_name = {row["name"]: row for row in three}
    words = "no setting is within 0.1 point, so none is chosen."
    if said["chosen"]:
        words = f"by the rule's letter the choice is {beside(by_name[said['chosen']])}."
    lines = [
        "## Clean labels, the class as the attribute",
        "",
        f"From `records/{name}/record.json` ({record['device']}; commit "
        f"{', '.join(dict.fromkeys(record['commits']))}). CIFAR-10, a net of "
        "four convolutions, 8 epochs; 15,000 training rows, 5,000 exemplars held out, 30,000 other training rows as "
        "validation; the test part was not looked at. `tied R`: one score per class alone, AdaptiveStep at rate R; "
        "`own R`: a score per sample alone; `agreeing`: the step times 2r / (1 + r), r the running cosine between the "
        "pulls of two halves of the exemplar batch. Validation, percent, mean ± standard error over seeds, "
        "differences by seed. The rule of the choice stands in the record, and was written before the runs.",
        "",
        "Three seeds (0 to 2), the settings that the first seed left: "
        + words
        + " "
        f"Within 0.1 point plus a standard error ({said['pooled_error']:.2f}) of Uniform's accuracy, from the lowest "
        f"recall std: {free}. Best by recall std over Uniform's plus 0.3 per point lost: "
        f"{beside(by_name[said['trade_off']])}. "
        f"Added {record['added'][0].lower()}{record['added'][1:]}".replace("\n", " "),
        "",
        *table(three),
        "",
        "All candidates on the first seed:",
        "",
        *table(record["screen"]),
    ]
    if record.get("fresh"):
        head = "Seeds that took no part in the choice, for what was chosen, the best trade-off and the default:"
        lines += ["", head, "", *table(record["fresh"])]
    if record.get("wrong_labels"):
        lines += [
            "",
            "MNIST with 20 % of the labels set to 2 (validation with true labels, MLP, 6 epochs):",
            "",
            *table(record["wrong_labels"]),
            "",
            *beside_default(record["wrong_labels"], said),
        ]
    return [*lines, "", *(later(record) if record.get("later") else [])]


def passing(wrong: list[dict[str, Any]]) -> list[str]:
    """Of the later settings those that hold what the default holds where labels are wrong."""
    by_name = {row["name"]: row["means"] for row in wrong}
    ours = by_name["default"]
    return [
        name
        for name, means in by_name.items()
        if name in LATER
        and means["accuracy"]["mean"] >= ours["accuracy"]["mean"] - ALLOWED
        and means["tprd"]["mean"] <= ours["tprd"]["mean"] + MORE_TPRD
    ]


def later(record: dict[str, Any]) -> list[str]:
    """The second round: one setting for clean and for wrong labels."""
    parts = record["later"]
    wrong, clean = parts["wrong labels, seeds 0 to 4"], parts["clean labels, seeds 0 to 2"]
    held = passing(wrong)
    sums = {row["name"]: row["sum"] for row in clean if row["name"] in held}
    chosen = min(sums, key=sums.__getitem__)
    names = ", ".join(f"`{name}`" for name in held)
    lines = [
        "### One setting for clean and for wrong labels",
        "",
        f"{record['later_rule'][0].upper()}{record['later_rule'][1:]}".replace("\n", " "),
        "",
        f"Passing where labels are wrong: {names}. Of these the lowest sum where they are clean: `{chosen}` "
        f"({sums[chosen]:.3f}; the default {_named(clean, 'default')['sum']:.3f}, Uniform 1). In the product it is "
        "`AdaptiveStep(heed=1)` (`heeding` below), the default for images; `default` here is that of 0.1. On seeds "
        "that took no part:",
        "",
        *(_apart(title, parts[f"{title}, seeds 10 to 13"]) for title in ("clean labels", "wrong labels")),
        "",
    ]
    for title, rows in parts.items():
        shown = [row for row in rows if row["name"] in ("uniform", "default", *LATER)]
        lines += [f"{title[0].upper()}{title[1:]}:", "", *table(shown), ""]
    return lines


def _named(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(row for row in rows if row["name"] == name)


def _apart(title: str, rows: list[dict[str, Any]]) -> str:
    """How far `heeding` is from the default, seed by seed."""
    ours, theirs = (_named(rows, name)["seeds"] for name in ("heeding", "default"))
    shared = sorted(ours.keys() & theirs.keys(), key=int)
    found = []
    for key, words in (("accuracy", "accuracy"), ("recall_std", "recall std"), ("tprd", "TPRD")):
        pair = Mean.of([ours[seed][key] - theirs[seed][key] for seed in shared]).to_dict()
        found.append(f"{words} {difference_text(pair)}")
    return f"- {title}, beside the default: {', '.join(found)} (n {len(shared)})."


def refit_section(records: Path) -> list[str]:
    """What docs/choices.md says of the newest record."""
    name, record = newest(records, "class_refit")
    heads = ("training", "rows", "accuracy", "beside Uniform, all", "recall std ↓", "TPRD ↓", "worst recall ↑", "n")
    cells = []
    for row in record["rows"]:
        size = "15,000" if row["name"] in ("uniform", FIRST) else "20,000"
        beside = row["beside"].get(WHOLE, {}).get("accuracy")
        accuracy, *others = (mean_text(row["means"][key]) for key in ("accuracy", "recall_std", "tprd", "worst"))
        cells.append(
            [row["name"], size, accuracy, "" if beside is None else difference_text(beside), *others, row["n"]]
        )
    lines = [
        "## Once more with all rows",
        "",
        f"From `records/{name}/record.json` ({record['device']}; commit "
        f"{', '.join(record['commits'])}). The same net, rows and validation. `{FIRST}` learns class weights while "
        "5,000 exemplars are held out; `refit` trains afresh on all 20,000 rows with the weights to the power of the "
        "share, fixed. `fairweight refit` does what a share of 1 does; nothing was chosen here. Validation, percent, "
        "mean ± standard error over seeds, differences by seed.",
        "",
        markdown(heads, cells),
    ]
    by_name = {row["name"]: row for row in record["rows"]}
    said = by_name["refit, share 1"]["beside"][WHOLE]
    less = -100 * said["tprd"]["mean"] / by_name[WHOLE]["means"]["tprd"]["mean"]
    spread = -100 * said["recall_std"]["mean"] / by_name[WHOLE]["means"]["recall_std"]["mean"]
    lines += [
        "",
        f"At a share of 1: {less:.0f} % less TPRD ({said['tprd']['mean']:+.2f} ± {said['tprd']['standard_error']:.2f}) "
        f"and {spread:.0f} % less spread of the recalls than Uniform on all rows, accuracy "
        f"{said['accuracy']['mean']:+.2f} ± {said['accuracy']['standard_error']:.2f} points. What it gave with "
        "ResNet-18 stands in [cifar10, short](results/cifar10-short.md).",
        "",
    ]
    return lines
