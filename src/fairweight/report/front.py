"""What a smaller gap costs: one dot per candidate, accuracy against gap, with its spread, its row and its command."""

from __future__ import annotations

import re
import shlex
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairweight.report._format import known, short
from fairweight.report.audit import Audit
from fairweight.report.headline import gap_name
from fairweight.report.plots import HEIGHT, WIDTH, Axes, ticks


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
    """Axes that hold every dot, bar and seed, and the front as a line."""
    dots, best = front.dots, on_front(front.dots)
    axes = Axes(
        ticks([v for d in dots for v in (d.gap, *(d.gap_span or ()), *(gap for gap, _ in d.seeds))]),
        ticks([v for d in dots for v in (d.accuracy, *(d.accuracy_span or ()), *(one for _, one in d.seeds))]),
    )
    line = " ".join(f"{axes.x(dot.gap)},{axes.y(dot.accuracy)}" for dot in best)
    return {"axes": axes, "best": best, "line": line, "size": (WIDTH, HEIGHT)}


def of_search(audit: Audit) -> Front | None:
    """The candidates that a search has judged on rows that they were not trained on; None where there was none."""
    judged = audit.metrics.get("judged") or {}
    found = [one for one in judged.get("candidates", ()) if known(one.get("gap")) and known(one.get("accuracy"))]
    if len(found) < 2:
        return None
    titles = [o["name"] if o["learner"] == "network" else f"{o['name']} ({o['learner']})" for o in found]
    plain = next((one for one, title in zip(found, titles, strict=True) if title == judged["reference"]), None)
    known_facts = [w for key in ("label", "group") if key in audit.facts for w in (f"--{key}", audit.facts[key])]
    dots = []
    for one, title in zip(found, titles, strict=True):
        between = None
        if plain is not None and one is not plain and known(one.get("low")) and known(one.get("high")):
            between = 100 * max(0.0, plain["gap"] + one["low"]), 100 * (plain["gap"] + one["high"])
        family = re.sub(r"(-[\d.]+)?( .*)?$", "", one["name"])  # reweighing of "reweighing-0.5 + thresholds"
        tried = [] if one["learner"] == "network" else ["--learner", one["learner"]]
        tried += [] if family == "plain" or not tried else ["--candidates", family]
        words = ["fairweight", "train", audit.facts.get("source", "SOURCE"), *known_facts]
        within = "yes" if one.get("allowed", True) else "no"
        row = {"kept epoch": str(one.get("epoch", "")), "within the budget": within}
        place = short(title), 100 * one["gap"], 100 * one["accuracy"], between
        marks = {"chosen": title == judged["chosen"], "plain": one is plain}
        dots.append(Dot(*place, row=row, command=shlex.join([*words, *tried]), **marks))
    where = f"{int(judged.get('rows', 0)):,} rows that the models were not trained on"
    spread = "Bars: 95 % interval of the gap's change from plain training."
    said = f"Chosen: {judged['chosen']}. Plain training: {judged['reference']}."
    return Front("What a smaller gap costs", dots, gap_name(audit), where, spread, said)


def of_comparison(record: Mapping[str, Any]) -> Front | None:
    """The rows of a `compare` record: means over seeds, their standard errors, and every seed."""
    number = record["numbers"][0]  # the gap that counts
    key, named = number["key"], "gap in true positive rate (TPRD)" if number["key"] == "tprd" else number["title"]
    dots = []
    for row in record["rows"]:
        seeds = [(s[key], s["accuracy"]) for s in row["seeds"].values() if key in s and "accuracy" in s]
        if not seeds:
            continue
        gap, accuracy = (statistics.fmean(values) for values in zip(*seeds, strict=True))
        cost = record.get("cost", {}).get(row["key"])
        chance = row.get("compared", {}).get("uniform", {}).get(key, {}).get("p")
        whole = {"seeds": str(len(seeds)), "gap's change, p": "" if chance is None else f"{chance:.2g}"}
        whole |= {"training time": f"× {cost:.1f} of plain" if cost else "", "verdict": row.get("verdict") or ""}
        spans = _error([one for one, _ in seeds]), _error([one for _, one in seeds])
        command = _command(str(record.get("command", "")), str(row["spec"]["method"]))
        shown, plain = seeds if len(seeds) > 1 else (), row["key"] == "uniform"
        dots.append(Dot(row["title"], gap, accuracy, *spans, shown, plain=plain, row=whole, command=command))
    if not dots:
        return None
    n = len(record["seeds"])
    spread = f"Bars: one standard error; small dots: each of {n} seeds." if n > 1 else "One seed each."
    facts = {"source": str(record["source"]), "seeds": str(n), "methods": str(len(dots))}
    notes = [str(record["protocol"]), *(f"Not run: {name}: {why}" for name, why in record["left_out"].items())]
    return Front(f"Comparison: {record['source']}", dots, named, "test rows", spread, _best_of(dots), facts, notes)


def _best_of(dots: Sequence[Dot]) -> str:
    best, plain = on_front(dots)[0], next((dot for dot in dots if dot.plain), None)
    if plain is None:
        return f"{best.title} has the smallest gap: {best.gap:.1f} points."
    if best is plain:
        return f"No method has a smaller gap than plain training, {plain.gap:.1f} points."
    cost, chance = plain.accuracy - best.accuracy, best.row["gap's change, p"]
    paid = f"costs {cost:.1f} points of accuracy" if cost > 0 else f"gains {-cost:.1f} points of accuracy"
    said = (
        f"{best.title} has the smallest gap: {best.gap:.1f} points beside plain training's {plain.gap:.1f}; it {paid}."
    )
    if not chance:
        return f"{said} One seed: it could be chance." if best.row["seeds"] == "1" else said
    return f"{said} The smaller gap {'is beyond' if float(chance) < 0.05 else 'could be'} chance (p = {chance})."


def _error(values: Sequence[float]) -> tuple[float, float] | None:
    if len(values) < 2:
        return None
    mean, half = statistics.fmean(values), statistics.stdev(values) / len(values) ** 0.5
    return mean - half, mean + half


def _command(whole: str, method: str) -> str:
    return re.sub(r" --methods[ =]\S+", "", whole) + f" --methods {method}"
