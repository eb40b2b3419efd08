"""What the method changed, beside plain training on the same data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairweight.report._words import change, known, percent, points, short, span
from fairweight.report.audit import Audit, Baseline
from fairweight.report.finding import Finding, Level

TITLES = {"accuracy": "accuracy", "tprd": "TPRD", "max_fnr": "maxFNR"}


def beside_baseline(audit: Audit) -> list[Finding]:
    """The gap and the accuracy beside the baseline's, and whether a smaller gap was met by levelling down."""
    if audit.trained is None:
        return []
    if audit.baseline is None:
        sentence = (
            "No plain training of the same data stands beside this run, so nothing here says what the method changed; "
            "train one with --method uniform into a folder beside it, or name it with --baseline."
        )
        return [Finding("no baseline", "note", sentence, {})]
    base = audit.baseline
    found = [_changes(audit, base)] if known(audit.metrics["tprd"]) and known(base.metrics["tprd"]) else []
    gap = base.differences.get("tprd")
    if gap is None or not gap["beyond"] or gap["value"] > 0:
        return found
    return [*found, *_levelling(audit, base), *_moved_together(audit, base)]


def _changes(audit: Audit, base: Baseline) -> Finding:
    parts: list[str] = []
    numbers: dict[str, float] = {}
    for name, title in TITLES.items():
        before, after = base.metrics[name], audit.metrics[name]
        if not known(before) or not known(after):
            continue
        apart = base.differences.get(name)
        numbers |= {f"{name}_before": before, f"{name}_after": after}
        limits = "" if apart is None else f" {span(apart['low'], apart['high'], signed=True)}"
        parts.append(f"{title} went from {percent(before)} to {percent(after)}, {change(after - before)}{limits}")
    verdict, level = _verdict(base.differences)
    return Finding("beside the baseline", level, f"Beside {short(base.name)}: {'; '.join(parts)}.{verdict}", numbers)


def _verdict(differences: Mapping[str, Mapping[str, Any]]) -> tuple[str, Level]:
    if "tprd" not in differences:
        return " One run each: without both runs' predictions nothing says whether chance explains it.", "note"
    gap, accuracy = differences["tprd"], differences.get("accuracy")
    if not gap["beyond"]:
        return " Chance in the test set explains the change of the gap.", "look"
    if gap["value"] > 0:
        return " The gap is larger than plain training's, beyond chance in the test set.", "act"
    if accuracy is not None and accuracy["beyond"] and accuracy["value"] < 0:
        return " The gap is smaller and so is the accuracy, both beyond chance in the test set.", "look"
    return " The gap is smaller, beyond chance in the test set, and accuracy was not paid for it.", "good"


def _by_group(metrics: Mapping[str, Any], metric: str) -> dict[str, float]:
    return {g["group"]: g[metric] for g in metrics["groups"] if known(g[metric])}


def _moved_together(audit: Audit, base: Baseline) -> list[Finding]:
    """A smaller gap that came with more (or fewer) positives everywhere, which a moved threshold brings as well."""
    if audit.by_label or audit.has_cells:
        return []
    now, before = _by_group(audit.metrics, "selection_rate"), _by_group(base.metrics, "selection_rate")
    wrong, wrong_before = _by_group(audit.metrics, "fpr"), _by_group(base.metrics, "fpr")
    if len(now) < 2 or now.keys() != before.keys() or wrong.keys() != wrong_before.keys() or not wrong:
        return []
    moves = [now[group] - before[group] for group in now]
    falsely = [wrong[group] - wrong_before[group] for group in wrong]
    if min(map(abs, moves)) < 0.01 or (min(moves) < 0 < max(moves)):
        return []
    how = "more" if moves[0] > 0 else "less"
    least, most = f"{100 * min(map(abs, moves)):.1f}", points(max(map(abs, moves)))
    sentence = (
        f"Every group is predicted positive {how} often than by {short(base.name)}, by {least} to {most}, and false "
        f"positive rates changed by {change(min(falsely))} to {change(max(falsely))}: a moved decision threshold "
        "could do as much."
    )
    numbers = {"least": min(moves), "most": max(moves), "fpr_least": min(falsely), "fpr_most": max(falsely)}
    return [Finding("all rates moved", "look", sentence, numbers)]


def _levelling(audit: Audit, base: Baseline) -> list[Finding]:
    """A gap that fell because its best group did."""
    now, before = _by_group(audit.metrics, "tpr"), _by_group(base.metrics, "tpr")
    if audit.has_cells or len(now) < 2 or now.keys() != before.keys():
        return []
    fell = (max(before.values()) - min(before.values())) - (max(now.values()) - min(now.values()))
    best = max(before.values()) - max(now.values())
    if fell < 0.01 or best < 0.005 or best < 0.5 * fell:
        return []
    sentence = (
        f"Of the {points(fell)} that the gap is smaller, {points(best)} come from the best group, which fell from "
        f"{percent(max(before.values()))} to {percent(max(now.values()))}; the worst went from "
        f"{percent(min(before.values()))} to {percent(min(now.values()))}: levelling down."
    )
    return [Finding("levelling down", "look", sentence, {"gap_fell": fell, "best_fell": best})]
