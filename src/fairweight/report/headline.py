"""The first screen in values: three tiles, one verdict, what to do next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from fairweight.metrics.levelling import Loss, nobody_gains
from fairweight.report._format import capitalised, change, known, percent, points, sentence_and_action, span
from fairweight.report.audit import Audit

Tone = Literal["good", "bad", "even"]
LARGE = 0.05  # a gap that is worth a look even if chance may explain it


@dataclass(frozen=True)
class Tile:
    """One number of the first screen; before is empty where nothing was compared."""

    title: str
    after: str
    before: str = ""
    unit: str = ""
    words: str = ""
    tone: Tone = "even"


@dataclass(frozen=True)
class Headline:
    """The verdict in a plain sentence, its tiles, and what to do next."""

    sentence: str
    action: str
    tone: Tone
    tiles: tuple[Tile, Tile, Tile]


class _Change(NamedTuple):
    before: float | None
    after: float | None
    low: float | None = None  # of the change
    high: float | None = None

    @property
    def value(self) -> float | None:
        return self.after - self.before if known(self.before) and known(self.after) else None

    def tile(self, title: str, unit: str, *, lower_is_better: bool) -> Tile:
        words = f"{change(self.value)} points {span(self.low, self.high, signed=True)}" if known(self.value) else ""
        tone: Tone = "even"
        if known(self.low) and known(self.high) and not self.low <= 0 <= self.high:
            tone = "good" if (self.high < 0) == lower_is_better else "bad"
        return Tile(title, _hundredths(self.after), _hundredths(self.before), unit, words.strip(), tone)


def headline(audit: Audit) -> Headline:
    """What the first screen says: beside plain training where that is known, otherwise of the model alone."""
    metrics, word, tiles = audit.metrics, word_of(audit), _tiles(audit)
    value, floor = metrics["tprd"], metrics["noise_floor"]["tprd"]["high"]
    values = {"name": gap_name(audit), "word": audit.group_word, "after": points(value)}
    tone: Tone = "even"
    gap, accuracy = _changes(audit) if word else (_Change(value, value), _Change(None, None))
    if not known(gap.value):
        word = "unknown"
    elif not word:
        word, tone = "no-gap", "good" if value < LARGE else "even"
        if known(floor) and value > floor:
            word, tone = "gap", "bad"
    else:
        values |= {"moved": f"from {_hundredths(gap.before)} to {points(gap.after)}", "after": points(gap.after)}
        values |= {"accuracy": percent(accuracy.after), "cost": _cost(accuracy.value)}
        if word == "kept-plain":
            why = str((metrics.get("judged") or {}).get("why", "Nothing that was tried beat it on held-out rows"))
            values["why"] = why[0].lower() + why[1:]
            tried = {one["name"] for one in (metrics.get("judged") or {}).get("candidates", ())}
            word = "only-plain" if tried == {"plain"} else word
            word = "kept-even" if gap.after == value and known(floor) and value <= floor else word
        else:
            if word == "no-effect" and (gap.value, gap.low, gap.high, accuracy.value) == (0, 0, 0, 0):
                word = "no-change"  # no draw of the rows tells the two apart
            tone = "good" if word == "helps" else "bad" if word == "worse" else "even"
            values |= _levelled(audit, word)
            tiles = _tiles_beside(audit, gap, accuracy, tone, clear=word not in ("no-effect", "no-change"))
    if audit.says_one_label:
        word, tone, values["accuracy"] = "one-label", "bad", percent(metrics["accuracy"])
        words = f"Each of the {metrics['n']:,} rows is predicted alike."
        tiles = (*tiles[:2], Tile("How sure", "Says nothing", words=words, tone="bad"))
    return Headline(*sentence_and_action("verdicts", word, values), tone, tiles)


def gap_name(audit: Audit) -> str:
    """What the gap is called, such as equal-opportunity gap."""
    named = audit.metrics.get("criterion")
    if named == "worst-group":
        return "worst-group error"
    return f"{named} gap" if named else "gap in recall" if audit.by_label else "gap in true positive rate"


def word_of(audit: Audit) -> str:
    """helps, levels-down, as-a-threshold, no-effect, outside, worse or kept-plain; empty: nothing was compared."""
    metrics, base = audit.metrics, audit.baseline
    if "verdict" in metrics:
        plain = {"uniform", (metrics.get("judged") or {}).get("reference")}
        if metrics["verdict"] == "no-effect" and metrics.get("chosen") in plain:
            return "kept-plain"
        how = (metrics.get("levelling") or {}).get("kind")
        return "outside" if metrics.get("outside_limits") else str(how or metrics["verdict"])
    if base is None or not known(base.metrics["tprd"]) or not known(metrics["tprd"]):
        return ""
    gap = base.differences.get("tprd")
    if gap is None or not gap["beyond"]:
        return "no-effect"
    return "worse" if gap["value"] > 0 else "helps" if _loss(audit) is None else "levels-down"


def _loss(audit: Audit) -> Loss | None:
    """What was lost beside plain training that no verdict stands beside, if nobody gained."""
    if audit.baseline is None or audit.has_cells:
        return None
    before, after = (
        {("true positive rate", group["group"]): group["tpr"] for group in metrics["groups"] if known(group["tpr"])}
        for metrics in (audit.baseline.metrics, audit.metrics)
    )
    return nobody_gains(before, after, audit.group_word) if before.keys() == after.keys() else None


def _levelled(audit: Audit, word: str) -> dict[str, str]:
    """What the sentences on levelling name."""
    found = audit.metrics.get("levelling") or {}
    if word == "as-a-threshold":
        return {"threshold": points(found["gap"]), "right": percent(found["accuracy"])}
    if word != "levels-down":
        return {}
    instead = "train with --groups-at-prediction, which moves thresholds by group"
    if audit.by_label or audit.has_cells:
        instead = "train with --criterion worst-group"
    return {"because": found.get("because") or str(_loss(audit)), "instead": instead}


def _changes(audit: Audit) -> list[_Change]:
    metrics, base = audit.metrics, audit.baseline
    if "verdict" not in metrics and base is not None:
        found = [(base.metrics[n], metrics[n], base.differences.get(n)) for n in ("tprd", "accuracy")]
    else:
        old, new = ((metrics.get(f"gap_{when}") or {}).get("value") for when in ("before", "after"))
        accuracies = metrics.get("accuracy_before"), metrics.get("accuracy_after")
        found = [(old, new, metrics.get("gap_change")), (*accuracies, metrics.get("accuracy_change"))]
    return [_Change(old, new, (apart or {}).get("low"), (apart or {}).get("high")) for old, new, apart in found]


def _tiles(audit: Audit) -> tuple[Tile, Tile, Tile]:
    metrics = audit.metrics
    gap = metrics.get("gap_after") or {}
    value, (low, high) = gap.get("value", metrics["tprd"]), metrics["intervals"]["tprd"]
    low, high = gap.get("low", low), gap.get("high", high)
    words = f"95 % interval {span(low, high)}" if known(low) else "too few samples"
    first = Tile(capitalised(gap_name(audit)), _hundredths(value), unit="points" if known(value) else "", words=words)
    (low, high), worst = metrics["intervals"]["accuracy"], metrics["worst_group_accuracy"]
    words = f"95 % interval {span(low, high)}" if known(low) else ""
    words += f"; worst {audit.group_word} {percent(worst)}" if known(worst) else ""
    second = Tile("Accuracy", _hundredths(metrics["accuracy"]), unit="%", words=words)
    value, floor = metrics["tprd"], metrics["noise_floor"]["tprd"]["high"]
    size = f"{metrics['n']:,} {'samples' if audit.trained is None else 'test rows, one seed'}."
    if not known(value) or not known(floor):
        return first, second, Tile("How sure", "Too few samples", words=size)
    words = f"Equal groups of these sizes show up to {points(floor)} by sampling alone. {size}"
    return first, second, Tile("How sure", "Beyond chance" if value > floor else "Could be chance", words=words)


def _tiles_beside(audit: Audit, gap: _Change, accuracy: _Change, tone: Tone, clear: bool) -> tuple[Tile, Tile, Tile]:
    """Of the model beside plain training; clear: the verdict does not put the change down to chance."""
    first = gap.tile(capitalised(gap_name(audit)), "points", lower_is_better=True)
    first = first if clear else replace(first, tone="even")
    words = f"The gap changed by {span(gap.low, gap.high, signed=True)} points (95 % interval)."
    words = words if known(gap.low) else "Without both runs' predictions nothing says whether chance explains it."
    words = f"{words} One seed, {audit.metrics['n']:,} test rows."
    sure = Tile("How sure", "Could be chance" if first.tone == "even" else "Beyond chance", words=words, tone=tone)
    return first, accuracy.tile("Accuracy", "%", lower_is_better=False), sure


def _cost(change: float | None) -> str:
    size = f"{abs(100 * change):.1f} points" if known(change) else ""
    if not known(change) or size == "0.0 points":
        return "accuracy stays the same" if size else "its accuracy is not known"
    return f"it costs {size} of accuracy" if change < 0 else f"accuracy rises by {size}"


def _hundredths(value: float | None) -> str:
    return f"{100 * value:.1f}" if known(value) else "–"
