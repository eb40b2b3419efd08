"""What the table by group says in words: gaps, small groups, wide intervals, label skew, accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairweight.report._words import known, listed, percent, points, short, span
from fairweight.report.audit import Audit
from fairweight.report.finding import Finding

FEW = 30  # samples behind a rate below which its group is called small
WIDE = 0.10  # width of an interval above which it is called wide


def about_gaps(audit: Audit) -> list[Finding]:
    """How far groups lie apart."""
    return [*_gap(audit), *_other_gaps(audit)]


def about_groups(audit: Audit) -> list[Finding]:
    """How much the table can say, and what it leaves out."""
    return [*_small_groups(audit), *_wide_intervals(audit), *_label_skew(audit)]


def about_the_whole(audit: Audit) -> list[Finding]:
    """What was left out, and the accuracy."""
    return [*_left_out(audit), *_accuracy(audit)]


def _gap(audit: Audit) -> list[Finding]:
    metrics = audit.metrics
    value = metrics["tprd"]
    rate = "Recall" if audit.by_label else "The true positive rate"
    if not known(value):
        return [
            Finding(
                "gap",
                "look",
                f"{rate} cannot be compared: fewer than two groups have samples to estimate it from.",
                {"tprd": None},
            )
        ]
    low, high = metrics["intervals"]["tprd"]
    floor = metrics["noise_floor"]["tprd"]
    where, lowest, highest = _extremes(audit)
    numbers = {"tprd": value, "low": low, "high": high, "noise_floor": floor["mean"], "noise_floor_high": floor["high"]}
    apart = f"{percent(lowest[1])} for {_called(audit, lowest[0])} and {percent(highest[1])} for "
    apart += _called(audit, highest[0])
    if lowest[1] == highest[1]:  # the first group would stand on both sides
        apart = f"{percent(lowest[1])} for every {'label' if audit.by_label else 'group'}"
    sentence = f"{rate}{where} is {apart}: a gap (TPRD) of {points(value)} {span(low, high)}."
    beyond = known(floor["high"]) and value > floor["high"]
    if beyond:
        sentence += f" Equal groups of these sizes would show {points(floor['mean'])} by sampling alone."
        return [Finding("gap", "act" if value >= 0.05 else "look", sentence, numbers)]
    sentence += (
        f" Equal groups of these sizes would show up to {points(floor['high'])} by sampling alone, so this is no more "
        "than chance explains."
    )
    return [Finding("no gap beyond chance", "note", sentence, numbers)]


def _extremes(audit: Audit) -> tuple[str, tuple[str, float], tuple[str, float]]:
    """Where the largest gap in TPR is, its lowest and its highest group."""
    if not audit.has_cells:
        rates = [(g["group"], g["tpr"]) for g in audit.metrics["groups"] if known(g["tpr"])]
        return "", min(rates, key=lambda r: r[1]), max(rates, key=lambda r: r[1])
    by_label: dict[str, list[tuple[str, float]]] = {}
    for cell in audit.metrics["cells"]:
        if known(cell["tpr"]):
            by_label.setdefault(cell["label"], []).append((cell["group"], cell["tpr"]))

    def width(label: str) -> float:
        values = [rate for _, rate in by_label[label]]
        return max(values) - min(values)

    label = max(by_label, key=width)
    rates = by_label[label]
    return f" of label {short(label)}", min(rates, key=lambda r: r[1]), max(rates, key=lambda r: r[1])


def _other_gaps(audit: Audit) -> list[Finding]:
    """Gaps beside the TPR's, where groups stand apart from labels."""
    if audit.by_label:
        return []
    found = []
    for name, kind, words in (
        ("fpr_gap", "gap in false positives", "false positive rate"),
        ("selection_rate_gap", "gap in predictions", "share predicted positive"),
    ):
        value = audit.metrics[name]
        low, high = audit.metrics["intervals"][name]
        if known(value) and known(low) and low > 0.02:
            sentence = f"The {words} differs by up to {points(value)} {span(low, high)} between groups."
            found.append(Finding(kind, "look", sentence, {name: value, "low": low, "high": high}))
    return found


def _called(audit: Audit, name: object) -> str:
    return f"label {short(name)}" if audit.by_label else short(name)


def _samples(audit: Audit) -> str:
    return "samples" if audit.trained is None else "test samples"


def _trials(group: Mapping[str, Any]) -> int:
    return int(group.get("n_positive", group["n"]))


def _small_groups(audit: Audit) -> list[Finding]:
    named = "label" if audit.by_label else "group"
    small = sorted((g for g in audit.metrics["groups"] if _trials(g) < FEW), key=_trials)
    found = []
    for group in small[:3]:
        n = _trials(group)
        what = _samples(audit) + ("" if audit.by_label or audit.has_cells else " of the positive label")
        numbers = {"n": n, "tpr": group["tpr"], "low": group["tpr_low"], "high": group["tpr_high"]}
        sentence = f"{named.capitalize()} {short(group['group'])} has {n:,} {what}"
        sentence += (
            ", so nothing can be said of its true positive rate."
            if not known(group["tpr"])
            else f": its true positive rate of {percent(group['tpr'])} could as well be anywhere in "
            f"{span(group['tpr_low'], group['tpr_high'])} %."
        )
        found.append(Finding("small group", "look", sentence, numbers))
    if len(small) > 3:
        rest = [g["group"] for g in small[3:]]
        have = f"{named} has" if len(rest) == 1 else f"{named}s have"
        sentence = f"{len(rest)} more {have} fewer than {FEW} such samples: {listed(rest)}."
        found.append(Finding("small group", "look", sentence, {"groups": len(rest)}))
    return found


def _wide_intervals(audit: Audit) -> list[Finding]:
    """Groups large enough to count, and still too few to say much."""
    wide = [
        (g["tpr_high"] - g["tpr_low"], g)
        for g in audit.metrics["groups"]
        if _trials(g) >= FEW and known(g["tpr_low"]) and g["tpr_high"] - g["tpr_low"] > WIDE
    ]
    if not wide:
        return []
    width, group = max(wide, key=lambda pair: pair[0])
    rest = len(wide) - 1
    others = f" {rest} more {'is' if rest == 1 else 'are'} wider than {points(WIDE, 0)}." if rest else ""
    sentence = (
        f"The interval of {_called(audit, group['group'])}'s true positive rate is {points(width)} wide "
        f"{span(group['tpr_low'], group['tpr_high'])}, from {_trials(group):,} samples.{others}"
    )
    return [Finding("wide interval", "look", sentence, {"width": width, "n": _trials(group), "groups": len(wide)})]


def _label_skew(audit: Audit) -> list[Finding]:
    """The label whose share differs most between two groups, beyond what their sizes explain."""
    if audit.by_label:
        return []
    where, shares = _shares(audit)
    best: tuple[float, str, tuple[str, float, int], tuple[str, float, int]] | None = None
    for label, groups in shares.items():
        groups = [group for group in groups if group[2] >= FEW]
        if len(groups) < 2:
            continue
        low, high = min(groups, key=lambda g: g[1]), max(groups, key=lambda g: g[1])
        if best is None or high[1] - low[1] > best[0]:
            best = (high[1] - low[1], label, low, high)
    if best is None:
        return []
    difference, label, low, high = best
    error = (low[1] * (1 - low[1]) / low[2] + high[1] * (1 - high[1]) / high[2]) ** 0.5
    if difference < 0.05 or difference < 3 * error:
        return []
    sentence = (
        f"Label {short(label)} is {percent(high[1])} of {short(high[0])} and {percent(low[1])} of {short(low[0])} in "
        f"{where}: a skew of {points(difference)}."
    )
    return [Finding("label skew", "look", sentence, {"difference": difference, "high": high[1], "low": low[1]})]


def _shares(audit: Audit) -> tuple[str, dict[str, list[tuple[str, float, int]]]]:
    """Each label's share of each group (name, share, samples): in train where there was training, otherwise in test."""
    found: dict[str, list[tuple[str, float, int]]] = {}
    if audit.trained is not None:
        import pandas as pd

        weights = audit.trained.weights[audit.trained.weights["group"].notna()]
        table = pd.crosstab(weights["group"].astype(str), weights["label"].astype(str))
        for group, row in table.iterrows():
            size = int(row.sum())
            for label, count in row.items():
                found.setdefault(str(label), []).append((str(group), count / size, size))
        return "train", found
    if audit.has_cells:
        sizes = {g["group"]: g["n"] for g in audit.metrics["groups"]}
        for cell in audit.metrics["cells"]:
            if size := int(sizes[cell["group"]]):
                found.setdefault(cell["label"], []).append((cell["group"], cell["n"] / size, size))
    else:
        found[str(audit.metrics["positive"])] = [
            (g["group"], g["n_positive"] / g["n"], int(g["n"])) for g in audit.metrics["groups"] if g["n"]
        ]
    return "the data", found


def _left_out(audit: Audit) -> list[Finding]:
    found = []
    if count := audit.metrics["n_missing"]:
        share = count / (count + audit.metrics["n"])
        sentence = (
            f"{count:,} {_samples(audit)} ({percent(share)}) have no known group and are left out of every number."
        )
        found.append(Finding("missing groups", "look", sentence, {"n": count, "share": share}))
    for note in audit.notes:
        if note.startswith("Warning: "):
            text = note.removeprefix("Warning: ")
            found.append(Finding("data", "look", text[:1].upper() + text[1:], {}))
    return found


def _accuracy(audit: Audit) -> list[Finding]:
    metrics = audit.metrics
    low, high = metrics["intervals"]["accuracy"]
    worst = metrics["worst_group_accuracy"]
    name = "label" if audit.by_label else "group"
    sentence = f"Accuracy is {percent(metrics['accuracy'])} {span(low, high)} on {metrics['n']:,} {_samples(audit)}"
    sentence += f", and {percent(worst)} for the worst {name}." if known(worst) else "."
    numbers = {"accuracy": metrics["accuracy"], "low": low, "high": high, "worst": worst, "n": metrics["n"]}
    return [Finding("accuracy", "note", sentence, numbers)]
