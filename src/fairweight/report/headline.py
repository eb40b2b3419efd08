"""The first screen in values: three tiles, one verdict, what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fairweight.report._format import capitalised, change, known, percent, points, span, words
from fairweight.report.audit import Audit

Tone = Literal["good", "bad", "even"]


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


@dataclass(frozen=True)
class _Change:
    before: float | None
    after: float | None
    value: float | None
    low: float | None
    high: float | None

    @property
    def tile(self) -> dict[str, str]:
        apart = "" if not known(self.value) else f"{change(self.value)} points {span(self.low, self.high, signed=True)}"
        return {"before": _hundredths(self.before), "after": _hundredths(self.after), "words": apart.strip()}


def headline(audit: Audit) -> Headline:
    """What the first screen says: beside plain training where that is known, otherwise of the model alone."""
    changes = _changes(audit)
    return _compared(audit, *changes) if changes else _alone(audit)


def gap_name(audit: Audit) -> str:
    """What the gap is called, such as equal-opportunity gap."""
    named = audit.metrics.get("criterion")
    return f"{named} gap" if named else "gap in recall" if audit.by_label else "gap in true positive rate"


def word_of(audit: Audit) -> str:
    """helps, no-effect, worse or kept-plain; empty where nothing was compared."""
    metrics, base = audit.metrics, audit.baseline
    if "verdict" in metrics:
        plain = {"uniform", (metrics.get("judged") or {}).get("reference")}
        kept = metrics["verdict"] == "no-effect" and metrics.get("chosen") in plain
        return "kept-plain" if kept else str(metrics["verdict"])
    if base is None or not known(base.metrics["tprd"]) or not known(audit.metrics["tprd"]):
        return ""
    gap = base.differences.get("tprd")
    return "no-effect" if gap is None or not gap["beyond"] else "worse" if gap["value"] > 0 else "helps"


def _changes(audit: Audit) -> list[_Change]:
    metrics, base = audit.metrics, audit.baseline
    if "verdict" in metrics:
        before, after = ((metrics.get(key) or {}).get("value") for key in ("gap_before", "gap_after"))
        accuracies = metrics.get("accuracy_before"), metrics.get("accuracy_after")
        return [_change(before, after, metrics.get("gap_change")), _change(*accuracies, metrics.get("accuracy_change"))]
    if base is None or not word_of(audit):
        return []
    return [_change(base.metrics[n], metrics[n], base.differences.get(n)) for n in ("tprd", "accuracy")]


def _change(before: float | None, after: float | None, apart: Mapping[str, Any] | None) -> _Change:
    value = after - before if known(before) and known(after) else None
    return _Change(before, after, value, (apart or {}).get("low"), (apart or {}).get("high"))


def _said(audit: Audit, key: str, tone: Tone, tiles: tuple[Tile, Tile, Tile], **parts: str) -> Headline:
    fields = {"name": gap_name(audit), "word": audit.group_word, **parts}
    return Headline(words("verdicts")[key].format(**fields), words("next")[key].format(**fields), tone, tiles)


def _compared(audit: Audit, gap: _Change, accuracy: _Change) -> Headline:
    word = word_of(audit)
    alone = (_gap_tile(audit), _accuracy_tile(audit), _sure_alone(audit))
    if not known(gap.value):
        return _said(audit, "unknown", "even", alone)
    parts = {
        "moved": f"from {_hundredths(gap.before)} to {points(gap.after)}",
        "cost": _cost(accuracy),
        "after": points(gap.after),
        "accuracy": percent(accuracy.after),
    }
    if word == "kept-plain":
        return _said(audit, word, "even", alone, **parts)
    sides = {"good": "Beyond chance", "bad": "Beyond chance", "even": "Could be chance"}
    interval = f"The gap changed by {span(gap.low, gap.high, signed=True)} points (95 % interval)."
    if not known(gap.low):
        interval = "Without both runs' predictions nothing says whether chance explains it."
    tones: dict[str, Tone] = {"helps": "good", "worse": "bad"}
    tone, sure = tones.get(word, "even"), _tone(gap, lower=True)
    tiles = (
        Tile(capitalised(gap_name(audit)), unit="points", tone=sure, **gap.tile),
        Tile("Accuracy", unit="%", tone=_tone(accuracy, lower=False), **accuracy.tile),
        Tile("How sure", sides[sure], words=f"{interval} One seed, {audit.metrics['n']:,} test rows.", tone=tone),
    )
    return _said(audit, word, tone, tiles, **parts)


def _alone(audit: Audit) -> Headline:
    tiles = (_gap_tile(audit), _accuracy_tile(audit), _sure_alone(audit))
    value, floor = audit.metrics["tprd"], audit.metrics["noise_floor"]["tprd"]["high"]
    if not known(value):
        return _said(audit, "unknown", "even", tiles)
    beyond = known(floor) and value > floor
    return _said(audit, "gap" if beyond else "no-gap", "bad" if beyond else "good", tiles, after=points(value))


def _gap_tile(audit: Audit) -> Tile:
    estimate = audit.metrics.get("gap_after") or {}
    value = estimate.get("value", audit.metrics["tprd"])
    low, high = (estimate["low"], estimate["high"]) if "low" in estimate else audit.metrics["intervals"]["tprd"]
    told = f"95 % interval {span(low, high)}" if known(low) else "too few samples"
    return Tile(capitalised(gap_name(audit)), _hundredths(value), unit="points" if known(value) else "", words=told)


def _accuracy_tile(audit: Audit) -> Tile:
    low, high = audit.metrics["intervals"]["accuracy"]
    worst = audit.metrics["worst_group_accuracy"]
    told = f"95 % interval {span(low, high)}" if known(low) else ""
    told += f"; worst {audit.group_word} {percent(worst)}" if known(worst) else ""
    return Tile("Accuracy", _hundredths(audit.metrics["accuracy"]), unit="%", words=told)


def _sure_alone(audit: Audit) -> Tile:
    value, floor = audit.metrics["tprd"], audit.metrics["noise_floor"]["tprd"]["high"]
    size = f"{audit.metrics['n']:,} {'samples' if audit.trained is None else 'test rows, one seed'}."
    if not known(value) or not known(floor):
        return Tile("How sure", "Too few samples", words=size)
    beyond = value > floor
    told = f"Equal groups of these sizes show up to {points(floor)} by sampling alone. {size}"
    return Tile("How sure", "Beyond chance" if beyond else "Could be chance", words=told)


def _cost(accuracy: _Change) -> str:
    if not known(accuracy.value):
        return "its accuracy is not known"
    size = f"{abs(100 * accuracy.value):.1f} points"
    if round(100 * accuracy.value, 1) == 0:
        return "accuracy stays the same"
    return f"it costs {size} of accuracy" if accuracy.value < 0 else f"accuracy rises by {size}"


def _tone(moved: _Change, *, lower: bool) -> Tone:
    if not known(moved.low) or not known(moved.high) or moved.low <= 0 <= moved.high:
        return "even"
    return "good" if (moved.high < 0) == lower else "bad"


def _hundredths(value: float | None) -> str:
    return f"{100 * value:.1f}" if known(value) else "–"
