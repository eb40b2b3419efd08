"""What an audit found, as sentences with their numbers, the most pressing first."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from fairweight.report._format import capitalised, known, percent, points, short, span
from fairweight.report.audit import LEVELS, Audit, Finding, Level
from fairweight.report.headline import headline
from fairweight.report.training_findings import about_training, beside_baseline

FEW = 30  # samples behind a rate below which its group is called small
WIDE = 0.10  # width of an interval above which it is called wide


def findings(audit: Audit) -> list[Finding]:
    """Everything that the numbers say in words, each with one thing to do next."""
    makers = (
        *(_verdict, _gap, _other_gaps, beside_baseline, _small_groups, _wide_intervals, _label_skew),
        *(about_training, _missing_groups, _data_warnings, _accuracy),
    )
    found = [finding for maker in makers for finding in maker(audit)]
    return sorted(found, key=lambda finding: LEVELS.index(finding.level))  # stable: makers in order


def _verdict(audit: Audit) -> list[Finding]:
    """What the training changed beside plain training, where that was judged."""
    metrics = audit.metrics
    if "verdict" not in metrics or not metrics.get("sentence"):
        return []
    words = [str(metrics["sentence"]), str(metrics.get("all_rates_move_together", ""))]
    names = ("verdict", "chosen", "criterion", "kept_epoch", "accuracy_before", "accuracy_after")
    numbers = {name: metrics.get(name) for name in names}
    gaps = {name: (metrics.get(name) or {}).get("value") for name in ("gap_before", "gap_after")}
    levels: dict[str, Level] = {"worse": "act", "helps": "good"}
    level = levels.get(str(metrics["verdict"]), "note")
    action = headline(audit).action
    return [Finding("verdict", level, " ".join(word for word in words if word), {**numbers, **gaps}, action)]


def _gap(audit: Audit) -> list[Finding]:
    metrics = audit.metrics
    value = metrics["tprd"]
    rate = "Recall" if audit.by_label else "The true positive rate"
    if not known(value):
        sentence = f"{rate} cannot be compared: fewer than two groups have samples to estimate it from."
        action = f"add test samples of every {audit.group_word}."
        return [Finding("gap", "look", sentence, {"tprd": None}, action)]
    low, high = metrics["intervals"]["tprd"]
    floor = metrics["noise_floor"]["tprd"]
    label, (worst, lowest), (best, highest) = _widest_gap(audit)
    apart = f"{percent(lowest)} for {_called(audit, worst)} and {percent(highest)} for {_called(audit, best)}"
    if lowest == highest:  # the first group would stand on both sides
        apart = f"{percent(lowest)} for every {audit.group_word}"
    where = "" if label is None else f" of label {short(label)}"
    sentence = f"{rate}{where} is {apart}: a gap (TPRD) of {points(value)} {span(low, high)}."
    numbers = {"tprd": value, "low": low, "high": high, "noise_floor": floor["mean"], "noise_floor_high": floor["high"]}
    if known(floor["high"]) and value > floor["high"]:
        sentence += f" Equal groups of these sizes would show {points(floor['mean'])} by sampling alone."
        action = f"look at errors and rows of {_called(audit, worst)} first; more rows of it help most."
        return [Finding("gap", "act" if value >= 0.05 else "look", sentence, numbers, action)]
    sentence += (
        f" Equal groups of these sizes would show up to {points(floor['high'])} by sampling alone, so this is no more "
        "than chance explains."
    )
    action = "test on more samples: the fewer there are, the larger a gap chance can make."
    return [Finding("no gap beyond chance", "good", sentence, numbers, action)]


def _widest_gap(audit: Audit) -> tuple[str | None, tuple[str, float], tuple[str, float]]:
    """The label whose TPRs lie farthest apart (None where there is one TPR per group), its lowest and highest group."""
    by_label: dict[str | None, dict[str, float]] = {}
    for cell in audit.metrics.get("cells", audit.metrics["groups"]):
        if known(cell["tpr"]):
            by_label.setdefault(cell.get("label"), {})[cell["group"]] = cell["tpr"]
    label = max(by_label, key=lambda name: max(by_label[name].values()) - min(by_label[name].values()))
    rates = by_label[label]
    lowest, highest = min(rates, key=lambda group: rates[group]), max(rates, key=lambda group: rates[group])
    return label, (lowest, rates[lowest]), (highest, rates[highest])


def _other_gaps(audit: Audit) -> list[Finding]:
    """Gaps beside the TPR's, where groups are not the labels."""
    found = []
    for name, kind, words, action in (
        (
            "fpr_gap",
            "gap in false positives",
            "false positive rate",
            "decide whether false alarms harm people here; if so, train with --criterion equalized-odds.",
        ),
        (
            "selection_rate_gap",
            "gap in predictions",
            "share predicted positive",
            "decide whether equal shares are wanted; if so, train with --criterion demographic-parity.",
        ),
    ):
        value = audit.metrics[name]
        low, high = audit.metrics["intervals"][name]
        if not audit.by_label and known(value) and known(low) and low > 0.02:
            sentence = f"The {words} differs by up to {points(value)} {span(low, high)} between groups."
            found.append(Finding(kind, "look", sentence, {name: value, "low": low, "high": high}, action))
    return found


def _called(audit: Audit, name: object) -> str:
    return f"label {short(name)}" if audit.by_label else short(name)


def _samples(audit: Audit) -> str:
    return "samples" if audit.trained is None else "test samples"


def _trials(group: Mapping[str, Any]) -> int:
    return int(group.get("n_positive", group["n"]))


def _small_groups(audit: Audit) -> list[Finding]:
    word = audit.group_word
    what = _samples(audit) + ("" if audit.by_label or audit.has_cells else " of the positive label")
    small = sorted((g for g in audit.metrics["groups"] if _trials(g) < FEW), key=_trials)
    found = []
    for group in small[:3]:
        limits = span(group["tpr_low"], group["tpr_high"])
        sentence = f"{word.capitalize()} {short(group['group'])} has {_trials(group):,} {what}" + (
            f": its true positive rate of {percent(group['tpr'])} could as well be anywhere in {limits} %."
            if known(group["tpr"])
            else ", so nothing can be said of its true positive rate."
        )
        numbers = {"n": _trials(group), "tpr": group["tpr"], "low": group["tpr_low"], "high": group["tpr_high"]}
        action = "collect more test samples of it, or merge it with --small-groups merge."
        found.append(Finding("small group", "look", sentence, numbers, action))
    if rest := [short(group["group"]) for group in small[3:]]:
        have = f"{word} has" if len(rest) == 1 else f"{word}s have"
        names = ", ".join(rest[:3]) + (f" and {len(rest) - 3} more" if len(rest) > 3 else "")
        sentence = f"{len(rest)} more {have} fewer than {FEW} such samples: {names}."
        action = "merge them with --small-groups merge, or leave them out of comparisons."
        found.append(Finding("small group", "look", sentence, {"groups": len(rest)}, action))
    return found


def _wide_intervals(audit: Audit) -> list[Finding]:
    """Groups large enough to count, and still too few samples to say much."""
    wide = [
        (g["tpr_high"] - g["tpr_low"], g)
        for g in audit.metrics["groups"]
        if _trials(g) >= FEW and known(g["tpr_low"]) and g["tpr_high"] - g["tpr_low"] > WIDE
    ]
    if not wide:
        return []
    width, group = max(wide, key=lambda pair: pair[0])
    rest = len(wide) - 1
    others = f" {rest} more {'is' if rest == 1 else 'are'} wider than {100 * WIDE:.0f} points." if rest else ""
    sentence = (
        f"The interval of {_called(audit, group['group'])}'s true positive rate is {points(width)} wide "
        f"{span(group['tpr_low'], group['tpr_high'])}, from {_trials(group):,} samples.{others}"
    )
    numbers = {"width": width, "n": _trials(group), "groups": len(wide)}
    action = "test on more samples; four times as many halve the interval."
    return [Finding("wide interval", "look", sentence, numbers, action)]


def _label_skew(audit: Audit) -> list[Finding]:
    """The label whose share differs most between two groups, beyond what their sizes explain."""
    if audit.by_label:
        return []
    best = (0.0, "", ("", 0.0, 1), ("", 0.0, 1))
    for label, shares in _shares(audit).items():
        groups = [group for group in shares if group[2] >= FEW]
        low, high = min(groups, key=itemgetter(1), default=best[2]), max(groups, key=itemgetter(1), default=best[2])
        if high[1] - low[1] > best[0]:
            best = (high[1] - low[1], label, low, high)
    difference, label, (rarer, least, n_least), (commoner, most, n_most) = best
    error = (least * (1 - least) / n_least + most * (1 - most) / n_most) ** 0.5
    if difference < 0.05 or difference < 3 * error:
        return []
    sentence = (
        f"Label {short(label)} is {percent(most)} of {short(commoner)} and {percent(least)} of {short(rarer)} in "
        f"{'the data' if audit.trained is None else 'train'}: a skew of {points(difference)}."
    )
    numbers = {"difference": difference, "high": most, "low": least}
    action = "ask whether the world is like that or the labels are; no weight mends labels that were given unevenly."
    return [Finding("label skew", "look", sentence, numbers, action)]


def _shares(audit: Audit) -> dict[str, list[tuple[str, float, int]]]:
    """Each label's share of each group (name, share, samples): in train where there was training, otherwise in test."""
    found: dict[str, list[tuple[str, float, int]]] = {}
    if audit.trained is not None:
        import pandas as pd

        weights = audit.trained.weights[audit.trained.weights["group"].notna()]
        table = pd.crosstab(weights["group"].astype(str), weights["label"].astype(str))
        counts = [(str(label), str(group), int(n)) for group, row in table.iterrows() for label, n in row.items()]
        sizes = {str(group): int(n) for group, n in table.sum(axis=1).items()}
    else:
        groups = audit.metrics["groups"]
        cells = audit.metrics.get("cells") or [{**g, "n": g["n_positive"]} for g in groups]
        positive = str(audit.metrics["positive"])
        counts = [(cell.get("label", positive), cell["group"], int(cell["n"])) for cell in cells]
        sizes = {g["group"]: int(g["n"]) for g in groups}
    for label, group, n in counts:
        if sizes[group]:
            found.setdefault(label, []).append((group, n / sizes[group], sizes[group]))
    return found


def _missing_groups(audit: Audit) -> list[Finding]:
    count = audit.metrics["n_missing"]
    if not count:
        return []
    share = count / (count + audit.metrics["n"])
    sentence = f"{count:,} {_samples(audit)} ({percent(share)}) have no known group and are left out of every number."
    action = "fill in their groups, or count them as one with --missing-groups group."
    return [Finding("missing groups", "look", sentence, {"n": count, "share": share}, action)]


def _data_warnings(audit: Audit) -> list[Finding]:
    texts = [note.removeprefix("Warning: ") for note in audit.notes if note.startswith("Warning: ")]
    action = "check the data, then train again."
    return [Finding("data", "look", capitalised(text), action=action) for text in texts]


def _accuracy(audit: Audit) -> list[Finding]:
    metrics = audit.metrics
    low, high = metrics["intervals"]["accuracy"]
    worst = metrics["worst_group_accuracy"]
    sentence = f"Accuracy is {percent(metrics['accuracy'])} {span(low, high)} on {metrics['n']:,} {_samples(audit)}"
    sentence += f", and {percent(worst)} for the worst {audit.group_word}." if known(worst) else "."
    numbers = {"accuracy": metrics["accuracy"], "low": low, "high": high, "worst": worst, "n": metrics["n"]}
    action = f"compare it with what the worst {audit.group_word} needs before you use the model."
    return [Finding("accuracy", "note", sentence, numbers, action)]
