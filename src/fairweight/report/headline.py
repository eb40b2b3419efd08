"""The first screen in values: three tiles, one verdict, what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fairweight.report._format import change, known, percent, points, span
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
    """A number before and after, as fractions, with the interval of the difference."""

    before: float | None
    after: float | None
    value: float | None
    low: float | None
    high: float | None

    @property
    def tile(self) -> dict[str, str]:
        """Before, after and the change, as text."""
        apart = "" if not known(self.value) else f"{change(self.value)} points {span(self.low, self.high, signed=True)}"
        return {"before": _hundredths(self.before), "after": _hundredths(self.after), "words": apart.strip()}


def headline(audit: Audit) -> Headline:
    """What the first screen says: beside plain training where that is known, otherwise of the model alone."""
    gap, accuracy = _changes(audit)
    return _alone(audit) if gap is None or accuracy is None else _compared(audit, gap, accuracy)


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


def _changes(audit: Audit) -> tuple[_Change | None, _Change | None]:
    metrics, base = audit.metrics, audit.baseline
    if not word_of(audit):
        return None, None
    if "verdict" in metrics:
        before, after = ((metrics.get(key) or {}).get("value") for key in ("gap_before", "gap_after"))
        gap = _change(before, after, metrics.get("gap_change"))
        pair = metrics.get("accuracy_before"), metrics.get("accuracy_after")
        return gap, _change(*pair, metrics.get("accuracy_change"))
    assert base is not None
    gap, accuracy = (
        _change(base.metrics[name], metrics[name], base.differences.get(name)) for name in ("tprd", "accuracy")
    )
    return gap, accuracy


def _change(before: Any, after: Any, apart: Mapping[str, Any] | None) -> _Change:
    limits = apart or {}
    value = after - before if known(before) and known(after) else None
    return _Change(before, after, value, limits.get("low"), limits.get("high"))


def _compared(audit: Audit, gap: _Change, accuracy: _Change) -> Headline:
    name, word = gap_name(audit), word_of(audit)
    if not known(gap.value):
        sentence = f"No verdict: the {name} cannot be estimated on {audit.metrics['n']:,} test rows."
        action = "test on more rows of every group."
        return Headline(sentence, action, "even", (_gap_tile(audit), _accuracy_tile(audit), _sure_alone(audit)))
    moved = f"from {_hundredths(gap.before)} to {points(gap.after)}"
    cost = _cost(accuracy)
    says: dict[str, tuple[str, str, Tone]] = {
        "helps": (
            f"It helps: the {name} falls {moved}, and {cost}.",
            "use this model, and repeat the training with another --seed to see that the result holds.",
            "good",
        ),
        "no-effect": (
            f"No clear effect: the {name} goes {moved}, which chance in the test rows explains; {cost}.",
            "repeat it with another --seed, or test on more rows, before you prefer it to plain training.",
            "even",
        ),
        "worse": (
            f"It is worse: the {name} goes {moved}, and {cost}.",
            "use plain training; try another --criterion or a smaller --budget.",
            "bad",
        ),
        "kept-plain": (
            f"Plain training stays: nothing that was tried beat it on held-out rows. Its {name} is "
            f"{points(gap.after)}, its accuracy {percent(accuracy.after)}.",
            "allow more loss of accuracy with --budget, or give more rows of the group that is behind.",
            "even",
        ),
    }
    sentence, action, tone = says[word]
    if word == "kept-plain":
        return Headline(sentence, action, tone, (_gap_tile(audit), _accuracy_tile(audit), _sure_alone(audit)))
    beyond = "Beyond chance" if known(gap.low) and (gap.low > 0 or gap.high < 0) else "Could be chance"  # type: ignore[operator]
    interval = f"The gap changed by {span(gap.low, gap.high, signed=True)} points (95 % interval)."
    if not known(gap.low):
        interval = "Without both runs' predictions nothing says whether chance explains it."
    sure = Tile("How sure", beyond, words=f"{interval} One seed, {audit.metrics['n']:,} test rows.", tone=tone)
    tiles = (
        Tile(_titled(name), unit="points", tone=_tone(gap, lower=True), **gap.tile),
        Tile("Accuracy", unit="%", tone=_tone(accuracy, lower=False), **accuracy.tile),
        sure,
    )
    return Headline(sentence, action, tone, tiles)


def _alone(audit: Audit) -> Headline:
    tiles = (_gap_tile(audit), _accuracy_tile(audit), _sure_alone(audit))
    value, floor = audit.metrics["tprd"], audit.metrics["noise_floor"]["tprd"]["high"]
    if not known(value):
        sentence = f"The {gap_name(audit)} cannot be estimated: fewer than two {audit.group_word}s have enough samples."
        return Headline(sentence, f"add test samples of every {audit.group_word}.", "even", tiles)
    if known(floor) and value > floor:
        sentence = f"The {audit.group_word}s are not served alike: a {gap_name(audit)} of {points(value)}."
        action = "train with `fairweight train` on your own rows, and compare with plain training."
        return Headline(sentence + " Chance does not explain it.", action, "bad", tiles)
    sentence = f"No gap beyond chance: the {gap_name(audit)} is {points(value)}, which sampling alone can show."
    return Headline(sentence, "test on more samples before you rely on it.", "good", tiles)


def _gap_tile(audit: Audit) -> Tile:
    estimate = audit.metrics.get("gap_after") or {}
    value = estimate.get("value", audit.metrics["tprd"])
    low, high = (estimate["low"], estimate["high"]) if "low" in estimate else audit.metrics["intervals"]["tprd"]
    words = f"95 % interval {span(low, high)}" if known(low) else "too few samples"
    return Tile(_titled(gap_name(audit)), _hundredths(value), unit="points" if known(value) else "", words=words)


def _accuracy_tile(audit: Audit) -> Tile:
    low, high = audit.metrics["intervals"]["accuracy"]
    worst = audit.metrics["worst_group_accuracy"]
    words = f"95 % interval {span(low, high)}" if known(low) else ""
    words += f"; worst {audit.group_word} {percent(worst)}" if known(worst) else ""
    return Tile("Accuracy", _hundredths(audit.metrics["accuracy"]), unit="%", words=words)


def _sure_alone(audit: Audit) -> Tile:
    value, floor = audit.metrics["tprd"], audit.metrics["noise_floor"]["tprd"]["high"]
    size = f"{audit.metrics['n']:,} {'samples' if audit.trained is None else 'test rows, one seed'}."
    if not known(value) or not known(floor):
        return Tile("How sure", "Too few samples", words=size)
    beyond = value > floor
    words = f"Equal groups of these sizes show up to {points(floor)} by sampling alone. {size}"
    return Tile("How sure", "Beyond chance" if beyond else "Could be chance", words=words)


def _cost(accuracy: _Change) -> str:
    if not known(accuracy.value):
        return "its accuracy is not known"
    size = f"{abs(100 * accuracy.value):.1f} points"
    if round(100 * accuracy.value, 1) == 0:
        return "accuracy stays the same"
    return f"it costs {size} of accuracy" if accuracy.value < 0 else f"accuracy rises by {size}"


def _tone(moved: _Change, *, lower: bool) -> Tone:
    """Good or bad where the interval leaves 0 on one side."""
    if not known(moved.low) or not known(moved.high) or moved.low <= 0 <= moved.high:
        return "even"
    return "good" if (moved.high < 0) == lower else "bad"


def _hundredths(value: float | None) -> str:
    return f"{100 * value:.1f}" if known(value) else "–"


def _titled(name: str) -> str:
    return name[:1].upper() + name[1:]
