"""What a smaller gap costs: one dot per candidate, accuracy against gap, with its spread, its row and its command."""

from __future__ import annotations

import re
import shlex
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fairweight.report._format import capitalised, known, short
from fairweight.report.audit import Audit
from fairweight.report.headline import gap_name
from fairweight.report.plots import HEIGHT, WIDTH, Axes, ticks

SPREAD = "Bars and brackets: 90 % interval of the gap's change from plain training."


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
    kept: list[Dot] = []
    for dot in sorted(dots, key=lambda dot: (dot.gap, -dot.accuracy)):
        if not kept or dot.accuracy > kept[-1].accuracy:
            kept.append(dot)
    return kept


def drawing(front: Front) -> dict[str, Any]:
    """Axes that hold every dot, bar and seed, and the front as a line."""
    dots, best = front.dots, on_front(front.dots)
    gaps = [v for d in dots for v in (d.gap, *(d.gap_span or ()), *(gap for gap, _ in d.seeds))]
    accuracies = [
        v for d in dots for v in (d.accuracy, *(d.accuracy_span or ()), *(accuracy for _, accuracy in d.seeds))
    ]
    axes = Axes(ticks(gaps), ticks(accuracies))
    line = " ".join(f"{axes.x(dot.gap)},{axes.y(dot.accuracy)}" for dot in best)
    return {"axes": axes, "best": best, "line": line, "size": (WIDTH, HEIGHT)}


def judged_dots(
    judged: Mapping[str, Any], details: Callable[[Mapping[str, Any]], tuple[Mapping[str, str], str]]
) -> list[Dot]:
    """A dot for each candidate that was judged and whose gap is known; more: its row and its command."""
    by_title = {
        c["name"] if c["learner"] == "network" else f"{c['name']} ({c['learner']})": c
        for c in judged.get("candidates", ())
        if known(c.get("gap")) and known(c.get("accuracy"))
    }
    plain, dots = by_title.get(judged.get("reference", "")), []
    for title, c in by_title.items():
        between = None
        if plain is not None and c is not plain and known(c.get("low")) and known(c.get("high")):
            between = 100 * max(0.0, plain["gap"] + c["low"]), 100 * (plain["gap"] + c["high"])
        place, marks = (short(title), 100 * c["gap"], 100 * c["accuracy"], between), details(c)
        dots.append(Dot(*place, chosen=title == judged["chosen"], plain=c is plain, row=marks[0], command=marks[1]))
    return dots


def of_search(audit: Audit) -> Front | None:
    """The candidates that a search has judged on rows that they were not trained on; None where there was none."""
    judged = audit.metrics.get("judged") or {}
    command = shlex.split(audit.facts.get("command", ""))
    if not command:  # the run was made in Python
        command = ["fairweight", "train", audit.facts.get("source", "SOURCE")]
        command += [word for key in ("label", "group") if key in audit.facts for word in (f"--{key}", audit.facts[key])]

    def details(candidate: Mapping[str, Any]) -> tuple[Mapping[str, str], str]:
        tried = [] if candidate["learner"] == "network" else ["--learner", candidate["learner"]]
        family = re.sub(r"(-[\d.]+)?( .*)?$", "", candidate["name"])  # reweighing of "reweighing-0.5 + thresholds"
        tried += ["--candidates", family] if tried and family not in ("plain", "thresholds") else []
        words = without(command, "--learner", "--candidates") if tried else command
        smaller = known(candidate.get("high")) and candidate["high"] < 0
        row = {"kept epoch": str(candidate.get("epoch", "")), "gap smaller beyond chance": "yes" if smaller else "no"}
        row["within the budget"] = "yes" if candidate.get("within_budget", True) else "no"
        return row, shlex.join([*words, *tried])

    dots = judged_dots(judged, details)
    if len(dots) < 2:
        return None
    where = f"{int(judged.get('rows', 0)):,} rows that the models were not trained on"
    reference = str(judged["reference"])
    if judged["chosen"] != reference:
        sentence = f"{judged['chosen']} was chosen instead of {reference}."
    elif "why" in judged:
        sentence = f"{judged['why']}, so {reference} was kept."
    else:
        sentence = f"{capitalised(reference)} was kept: no gap is smaller beyond chance within the budget."
    return Front("What a smaller gap costs", dots, gap_name(audit), where, SPREAD, sentence)


def without(command: Sequence[str], *flags: str) -> list[str]:
    """The words of a command without these flags and their values."""
    kept: list[str] = []
    words = iter(command)
    for word in words:
        name, equals, _ = word.partition("=")
        if name not in flags:
            kept.append(word)
        elif not equals:
            next(words, None)
    return kept


def without_places(command: str) -> str:
    """The command without where things lie on a machine, which no number depends on; nothing where a quote is open."""
    try:
        return shlex.join(without(shlex.split(command), "--out", "--records", "--data-dir"))
    except ValueError:
        return ""


def training_command(command: str, source: str, name: str) -> list[str]:
    """Words of the command that trained a run, without where things lay; none if it was another. name: the source's."""
    words = [word for word in shlex.split(without_places(command)) if word not in ("--fresh", "--resume", "--json")]
    kept = [name if word == source else Path(word).name if word[:1] == "/" else word for word in words]
    return kept if kept[:2] == ["fairweight", "train"] else []


def of_comparison(record: Mapping[str, Any]) -> Front | None:
    """The rows of a `compare` record: means over seeds, their standard errors, and every seed."""
    key, title = record["numbers"][0]["key"], record["numbers"][0]["title"]  # the gap that counts
    base_command, dots = re.sub(r" --methods[ =]\S+", "", str(record.get("command", ""))), []
    for row in record["rows"]:
        seeds = [(s[key], s["accuracy"]) for s in row["seeds"].values() if key in s and "accuracy" in s]
        if not seeds:
            continue
        (gap, gaps), (accuracy, accuracies) = (_mean_and_error(values) for values in zip(*seeds, strict=True))
        cost = record.get("cost", {}).get(row["key"])
        chance = row.get("compared", {}).get("uniform", {}).get(key, {}).get("p")
        details = {"seeds": str(len(seeds)), "gap's change, p": "" if chance is None else f"{chance:.2g}"}
        details |= {"training time": f"× {cost:.1f} of plain" if cost else "", "verdict": verdict_words(row)}
        dot = Dot(row["title"], gap, accuracy, gaps, accuracies, seeds if len(seeds) > 1 else (), row=details)
        command = f"{base_command} --methods {row['spec']['method']}"
        dots.append(replace(dot, plain=row["key"] == "uniform", command=command))
    if not dots:
        return None
    n, gap_title = len(record["seeds"]), "gap in true positive rate (TPRD)" if key == "tprd" else title
    bars = "Bars and brackets: one standard error to each side"
    spread = f"{bars}; small dots: each of {n} seeds." if n > 1 else "One seed each."
    facts = {"source": str(record["source"]), "seeds": str(n), "methods": str(len(dots))}
    notes = [
        str(record["protocol"]).rstrip(".") + ".",
        *(f"Not run: {name}: {why}" for name, why in record["left_out"].items()),
    ]
    return Front(f"Comparison: {record['source']}", dots, gap_title, "test rows", spread, _best_of(dots), facts, notes)


def verdict_words(row: Mapping[str, Any]) -> str:
    """The verdict on a method of a comparison, in words; nothing for plain training."""
    if row.get("outside_limits"):
        return "smaller gap, outside the budget or bound"
    return {None: "", "no-effect": "no clear effect"}.get(row.get("verdict"), str(row.get("verdict")))


def _best_of(dots: Sequence[Dot]) -> str:
    best, plain = on_front(dots)[0], next((dot for dot in dots if dot.plain), None)
    if best is plain:
        return f"No method has a smaller gap than plain training, {plain.gap:.1f} points."
    text = f"{best.title} has the smallest gap: {best.gap:.1f} points"
    if plain is None:
        return f"{text}."
    cost, chance = round(plain.accuracy - best.accuracy, 1), best.row["gap's change, p"]
    paid = f"{'costs' if cost > 0 else 'gains'} {abs(cost):.1f} points of" if cost else "costs no"
    text = f"{text} beside plain training's {plain.gap:.1f}; it {paid} accuracy."
    if chance:
        return f"{text} The smaller gap {'is beyond' if float(chance) < 0.05 else 'could be'} chance (p = {chance})."
    return f"{text} One seed: it could be chance." if best.row["seeds"] == "1" else text


def _mean_and_error(values: Sequence[float]) -> tuple[float, tuple[float, float] | None]:
    mean = statistics.fmean(values)
    half = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
    return mean, None if half is None else (mean - half, mean + half)
