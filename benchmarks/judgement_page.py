"""The record of judgement.py for people: a table in Markdown, and a picture of every set's front."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from judgement_record import ANSWERS, answering

from fairweight.runs.statistics import mean_text


def table(record: Mapping[str, Any]) -> str:
    """Every set's methods, and the promises."""
    parts = [_promises(record, criterion) for criterion in record["checks"]]
    for name, found in record["sets"].items():
        rows = found["rows"]
        seeds = sorted({int(s) for row in rows.values() for s in row["seeds"]})
        lines = [
            f"## {name}: {found['about']}",
            "",
            f"{_n(rows)}; seeds {', '.join(map(str, seeds))}; in points, mean ± standard error. G: needs the group at "
            "prediction.",
            "",
            "| | accuracy | " + " | ".join(ANSWERS) + " | balanced accuracy | positives | n | s |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for row in rows.values():
            means, gaps = row["means"], row["means"]["gaps"]
            cells = [mean_text(means["accuracy"]), *(mean_text(gaps[c], 1) for c in ANSWERS)]
            cells += [mean_text(means["balanced_accuracy"], 1), mean_text(means["positives"], 1)]
            mark = " (G)" if row["groups_at_prediction"] else ""
            cells += [str(means["accuracy"]["n"]), f"{means['seconds']['mean']:.1f}"]
            lines.append(f"| {row['title']}{mark} | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    lacking = [f"- {line}" for line in (*record["failed"], *_grouped(record["missing"]))]
    parts.append("\n".join(["## Not run, or failed", "", *(lacking or ["Nothing."])]))
    made = f"{record['device']}, commits {', '.join(record['commits'])}; {_used(record)}."
    return "\n\n".join(["# Judgement", f"{made} Noise: {record['noise']}.", *parts]) + "\n"


def _n(rows: Mapping[str, Any]) -> str:
    run = next(run for row in rows.values() for run in row["seeds"].values())
    test = sum(n for group in run["counts"] for label in group for n in label)
    return f"{run['n_fit']:,} rows to learn from, {test:,} test rows"


def _used(record: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {v}" for name, v in record["versions"].items() if name != "python")


def _grouped(missing: list[str]) -> list[str]:
    """Join the sets that lack the same method."""
    found: dict[str, list[str]] = {}
    for line in missing:
        name, _, rest = line.partition(", ")
        found.setdefault(rest or "", []).append(name)
    return [f"{rest} ({', '.join(names)})" if rest else "; ".join(names) for rest, names in found.items()]


def _promises(record: Mapping[str, Any], criterion: str) -> str:
    found = record["checks"][criterion]
    title = next(r["rows"][found["ours"]]["title"] for r in record["sets"].values() if found["ours"] in r["rows"])
    lines = [
        f"## Promises by {criterion}: {title}",
        "",
        "| promise | holds | sets asked | fails on |",
        "|---|---|---|---|",
    ]
    for promise in found["promises"]:
        said = "; ".join(f"{name} ({why})" for name, why in promise["failed"].items()) or "–"
        holds = {True: "yes", False: "**no**", None: "not asked, or too few seeds"}[promise["holds"]]
        lines.append(f"| {promise['title']} | {holds} | {len(promise['asked'])} | {said} |")
    return "\n".join(lines)


def docs_page(record: Mapping[str, Any], folder: str) -> str:
    """The page of the documentation: the promises, what was chosen, and a picture per set."""
    seeds = sorted({int(s) for f in record["sets"].values() for row in f["rows"].values() for s in row["seeds"]})
    parts = [
        "# What `fairweight train` delivers",
        f"Made from [the record]({folder}/table.md) by `benchmarks/judgement.py`: {len(record['sets'])} tables, seeds "
        f"{seeds[0]} to {seeds[-1]}, every method on the same rows; {record['device']}. The rule was written first: "
        "[choices](choices.md#the-rule-that-chooses-among-models). A star is what is delivered, squares are plain "
        "models, hollow marks need the group at prediction.",
        *(_promises(record, criterion) for criterion in record["checks"]),
        _changes(record),
    ]
    parts += [f"## {name}\n\n![{found['about']}]({folder}/front_{name}.png)" for name, found in record["sets"].items()]
    return "\n\n".join(parts) + "\n"


def _changes(record: Mapping[str, Any]) -> str:
    """By set: how often plain training was left, and what that changed on test beside it."""
    lines = [
        "| | plain training left | accuracy | gap | gap of plain training | gap larger |",
        "|---|---|---|---|---|---|",
    ]
    whole: list[tuple[float, float, float, bool]] = []
    for name, found in record["sets"].items():
        told = [run["verdict"] for run in found["rows"].get("ours", {}).get("seeds", {}).values() if "verdict" in run]
        rows = [
            (
                100 * (v["accuracy_after"] - v["accuracy_before"]),
                100 * (v["gap_after"]["value"] - v["gap_before"]["value"]),
                100 * v["gap_before"]["value"],
                v["gap_after"] != v["gap_before"] or v["accuracy_after"] != v["accuracy_before"],
            )
            for v in told
            if v["gap_before"]["value"] is not None and v["gap_after"]["value"] is not None
        ]
        lines.append(_change(name, rows))
        whole += rows
    return "\n".join([*lines, _change("all", whole)])


def _change(name: str, rows: list[tuple[float, float, float, bool]]) -> str:
    if not rows:
        return f"| {name} | – | – | – | – | – |"
    n = len(rows)
    accuracy, gap, before = (sum(row[k] for row in rows) / n for k in range(3))
    left, larger = sum(row[3] for row in rows), sum(row[1] > 0 for row in rows)
    return f"| {name} | {left} of {n} | {accuracy:+.2f} | {gap:+.2f} | {before:.2f} | {larger} of {n} |"


def write_table(record: Mapping[str, Any], path: Path) -> None:
    """Write the table as a page."""
    path.write_text(table(record), encoding="utf-8")


def write_pictures(record: Mapping[str, Any], folder: Path) -> None:
    """Draw accuracy against gap of every method of every set, with the seeds' spread."""
    for name in record["sets"]:
        picture(record, name).savefig(folder / f"front_{name}.png", dpi=80)


def front(rows: Mapping[str, Any], criterion: str) -> list[tuple[float, float]]:
    """Gap and accuracy of the group-blind methods that no other one beats in both means, by rising gap."""
    blind = [row["means"] for row in rows.values() if not row["groups_at_prediction"]]
    points = [(m["gaps"][criterion]["mean"], m["accuracy"]["mean"]) for m in blind]
    found: list[tuple[float, float]] = []
    for gap, accuracy in sorted((p for p in points if p[0] is not None), key=lambda p: (p[0], -p[1])):
        if not found or accuracy > found[-1][1]:
            found.append((gap, accuracy))
    return found


def picture(record: Mapping[str, Any], name: str, criterion: str = "equal-opportunity") -> Any:
    """Draw one set: every method's mean with its standard error, ours as a star, plain as squares, G hollow."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    found = record["sets"][name]
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    ours, colors = answering(record, criterion), colormaps["tab20"].colors
    for place, (method, row) in enumerate(found["rows"].items()):
        gap, accuracy = row["means"]["gaps"][criterion], row["means"]["accuracy"]
        if gap["mean"] is None:
            continue
        mine = method == ours
        axes.errorbar(
            gap["mean"], accuracy["mean"], xerr=gap["standard_error"] or 0, yerr=accuracy["standard_error"] or 0,
            marker="*" if mine else "s" if row["plain"] else "o", markersize=16 if mine else 7, linewidth=0.6,
            color="black" if mine else colors[place % 20], linestyle="none", zorder=3 if mine else 2,
            markerfacecolor="none" if row["groups_at_prediction"] else "black" if mine else colors[place % 20],
            label=row["title"] + (" (G)" if row["groups_at_prediction"] else ""),
        )  # fmt: skip
    line = front(found["rows"], criterion)
    axes.step(*zip(*line, strict=True), where="post", color="grey", linewidth=0.8, zorder=1, label="front, group-blind")
    axes.set_xlabel(f"{criterion} gap on test, points (less is better)")
    axes.set_ylabel("accuracy on test, %")
    axes.set_title(found["about"], fontsize=10)
    figure.legend(loc="outside right upper", fontsize=6)
    return figure
