"""What a smaller gap costs: one dot per candidate, accuracy against gap, with its spread, its row and its command."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairweight.report._format import known, short
from fairweight.report.audit import Audit

WIDTH, HEIGHT = 460.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 14.0, 12.0, 40.0


@dataclass(frozen=True)
class Dot:
    """One candidate; numbers in hundredths."""

    title: str
    gap: float
    accuracy: float
    gap_span: tuple[float, float] | None = None
    accuracy_span: tuple[float, float] | None = None
    seeds: Sequence[tuple[float, float]] = ()  # gap and accuracy of each
    chosen: bool = False
    plain: bool = False
    row: Mapping[str, str] = field(default_factory=dict)  # more of what is known, in words
    command: str = ""


@dataclass(frozen=True)
class Front:
    """Candidates side by side."""

    title: str
    dots: Sequence[Dot]
    gap: str  # what is on the axis, in words
    where: str  # which rows it was measured on
    spread: str  # what the bars and small dots are
    sentence: str = ""  # what was chosen, and why
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()


def on_front(dots: Sequence[Dot]) -> list[Dot]:
    """Dots that no other beats in both gap and accuracy, by gap."""
    found = sorted(dots, key=lambda dot: (dot.gap, -dot.accuracy))
    kept: list[Dot] = []
    for dot in found:
        if not kept or dot.accuracy > kept[-1].accuracy:
            kept.append(dot)
    return kept


def drawing(front: Front) -> dict[str, Any]:
    """Places on the canvas: ticks, dots with bars and seeds, and the line of the front."""
    dots = front.dots
    xs = [v for d in dots for v in (d.gap, *(d.gap_span or ()), *(gap for gap, _ in d.seeds))]
    ys = [v for d in dots for v in (d.accuracy, *(d.accuracy_span or ()), *(accuracy for _, accuracy in d.seeds))]
    across, up = _ticks(xs), _ticks(ys)
    x = _scale((across[0], across[-1]), (LEFT, WIDTH - RIGHT))
    y = _scale((up[0], up[-1]), (HEIGHT - BOTTOM, TOP))
    best = on_front(dots)
    shown = [
        {
            "dot": dot,
            "x": x(dot.gap),
            "y": y(dot.accuracy),
            "across": None if dot.gap_span is None else tuple(map(x, dot.gap_span)),
            "up": None if dot.accuracy_span is None else tuple(map(y, dot.accuracy_span)),
            "seeds": [(x(gap), y(accuracy)) for gap, accuracy in dot.seeds],
            "front": dot in best,
            "words": f"{dot.title}: {front.gap} {dot.gap:.2f} points, accuracy {dot.accuracy:.2f} %"
            + (", chosen" if dot.chosen else "")
            + (", on the front" if dot in best else ""),
        }
        for dot in dots
    ]
    return {
        "x_ticks": [(x(value), f"{value:g}") for value in across],
        "y_ticks": [(y(value), f"{value:g}") for value in up],
        "dots": shown,
        "line": " ".join(f"{x(dot.gap):.1f},{y(dot.accuracy):.1f}" for dot in best),
        "box": (LEFT, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM),
        "size": (WIDTH, HEIGHT),
    }


def _ticks(values: Sequence[float]) -> list[float]:
    from matplotlib.ticker import MaxNLocator

    low, high = min(values), max(values)
    pad = 0.06 * (high - low) or 0.5
    return [round(float(tick), 6) for tick in MaxNLocator(6).tick_values(low - pad, high + pad)]


def _scale(values: tuple[float, float], places: tuple[float, float]) -> Any:
    slope = (places[1] - places[0]) / ((values[1] - values[0]) or 1.0)
    return lambda value: places[0] + slope * (value - values[0])


def of_search(audit: Audit) -> Front | None:
    """The candidates that a search has judged on rows that they were not trained on; None where there was none."""
    judged = audit.metrics.get("judged") or {}
    found = [one for one in judged.get("candidates", ()) if known(one.get("gap")) and known(one.get("accuracy"))]
    if len(found) < 2:
        return None
    titles = [f"{one['name']} ({one['learner']})" for one in found]
    plain = next((one for one, title in zip(found, titles, strict=True) if title == judged["reference"]), None)
    dots = []
    for one, title in zip(found, titles, strict=True):
        between = None
        if plain is not None and one is not plain and known(one.get("low")):
            between = 100 * max(0.0, plain["gap"] + one["low"]), 100 * (plain["gap"] + one["high"])
        within = "" if one.get("allowed", True) else "no"
        family = one["name"].rpartition("-")[0] if one["name"][-1:].isdigit() else one["name"]
        words = ["fairweight", "train", audit.facts.get("source", "SOURCE")]
        words += [w for key in ("label", "group") if key in audit.facts for w in (f"--{key}", audit.facts[key])]
        words += ["--learner", one["learner"]] + ([] if family == "plain" else ["--candidates", family])
        row = {"kept epoch": str(one.get("epoch", "")), "within the budget": within or "yes"}
        dots.append(
            Dot(
                short(title),
                100 * one["gap"],
                100 * one["accuracy"],
                between,
                chosen=title == judged["chosen"],
                plain=one is plain,
                row=row,
                command=shlex.join(words),
            )
        )
    gap = f"{audit.metrics.get('criterion', '')} gap".strip()
    where = f"{int(judged.get('rows', 0)):,} rows that the models were not trained on (5 folds)"
    spread = "Bars: 95 % interval of the gap's change from plain training."
    said = f"Chosen: {judged['chosen']}. Plain training: {judged['reference']}."
    return Front("What a smaller gap costs", dots, gap, where, spread, said)


def of_comparison(record: Mapping[str, Any]) -> Front | None:
    """The rows of a `compare` record: means over seeds, their standard errors, and every seed."""
    dots = []
    for row in record["rows"]:
        seeds = [(s["tprd"], s["accuracy"]) for s in row["seeds"].values() if "tprd" in s and "accuracy" in s]
        if not seeds:
            continue
        gap, accuracy = (sum(values) / len(seeds) for values in zip(*seeds, strict=True))
        cost = record.get("cost", {}).get(row["key"])
        dots.append(
            Dot(
                row["title"],
                gap,
                accuracy,
                _error(gap, [one for one, _ in seeds]),
                _error(accuracy, [one for _, one in seeds]),
                seeds if len(seeds) > 1 else (),
                plain=row["key"] == "uniform",
                row={
                    "seeds": str(len(seeds)),
                    "gap's change, p": _chance(row),
                    "training time": "" if cost is None else f"× {cost:.1f} of plain",
                },
                command=_command(str(record.get("command", "")), str(row["spec"]["method"])),
            )
        )
    if not dots:
        return None
    n = len(record["seeds"])
    many = f"Bars: one standard error; small dots: each of {n} seeds."
    spread = many if n > 1 else "One seed: nothing here tells chance in training."
    facts = {"source": str(record["source"]), "seeds": str(n), "methods": str(len(dots))}
    title = f"Comparison: {record['source']}"
    notes = [str(record["protocol"]), *(f"Not run: {name}: {why}" for name, why in record["left_out"].items())]
    sentence = _best_of(dots)
    return Front(title, dots, "gap in true positive rate (TPRD)", "test rows", spread, sentence, facts, notes)


def _best_of(dots: Sequence[Dot]) -> str:
    """Which has the smallest gap on average, and what that costs."""
    best, plain = on_front(dots)[0], next((dot for dot in dots if dot.plain), None)
    if plain is None:
        return f"{best.title} has the smallest gap: {best.gap:.1f} points."
    if best is plain:
        return f"No method has a smaller gap than plain training, {plain.gap:.1f} points."
    cost = plain.accuracy - best.accuracy
    paid = f"costs {cost:.1f} points of accuracy" if cost > 0 else f"gains {-cost:.1f} points of accuracy"
    return (
        f"{best.title} has the smallest gap: {best.gap:.1f} points beside plain training's {plain.gap:.1f}; it {paid}."
    )


def _chance(row: Mapping[str, Any]) -> str:
    """The p-value of the gap's difference from plain training, paired over seeds."""
    for found in row.get("compared", {}).values():
        p = found.get("tprd", {}).get("p")
        return "" if p is None else f"{p:.2g}"
    return ""


def _error(mean: float, values: Sequence[float]) -> tuple[float, float] | None:
    n = len(values)
    if n < 2:
        return None
    half = (sum((value - mean) ** 2 for value in values) / (n - 1) / n) ** 0.5
    return mean - half, mean + half


def _command(whole: str, method: str) -> str:
    """The record's command for one method."""
    try:
        words = shlex.split(whole)
    except ValueError:
        return whole
    if "--methods" in words[:-1]:
        words[words.index("--methods") + 1] = method
    else:
        words += ["--methods", method]
    return shlex.join(words)
