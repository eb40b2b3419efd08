"""The record of judgement.py for people: a table in Markdown, and a picture of every set's front."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from judgement_record import ANSWERS, answering

from fairweight.paper._table_text import markdown
from fairweight.runs.statistics import mean_text


def table(record: Mapping[str, Any]) -> str:
    """Every set's methods, and the promises."""
    parts = [_promises(record, criterion) for criterion in record["checks"]]
    for name, found in record["sets"].items():
        rows = found["rows"]
        seeds = sorted({int(s) for row in rows.values() for s in row["seeds"]})
        cells = []
        for row in rows.values():
            means, gaps = row["means"], row["means"]["gaps"]
            mark = " (G)" if row["groups_at_prediction"] else ""
            numbers = [mean_text(means["accuracy"]), *(mean_text(gaps[c], 1) for c in ANSWERS)]
            numbers += [mean_text(means["balanced_accuracy"], 1), mean_text(means["positives"], 1)]
            seconds = f"{means['seconds']['mean']:.1f}"
            cells.append([row["title"] + mark, *numbers, means["accuracy"]["n"], seconds])
        about = f"{_n(rows)}; seeds {', '.join(map(str, seeds))}; in points, mean ± standard error. G: needs the group "
        titles = ["method", "accuracy", *ANSWERS, "balanced accuracy", "positives", "n", "s"]
        parts += [f"## {name}: {found['about']}", f"{about}at prediction.", markdown(titles, cells)]
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
    rows = []
    for promise in found["promises"]:
        said = "; ".join(f"{name} ({why})" for name, why in promise["failed"].items()) or "–"
        holds = {True: "yes", False: "**no**", None: "not asked, or too few seeds"}[promise["holds"]]
        rows.append([promise["title"], holds, len(promise["asked"]), said])
    head = f"## Promises by {criterion}: {title}"
    return f"{head}\n\n{markdown(['promise', 'holds', 'sets asked', 'fails on'], rows)}"


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
