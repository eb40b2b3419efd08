"""What an audit found, as sentences with their numbers, the most pressing first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairweight.report._format import capitalised, known, percent, points, short, span, words
from fairweight.report.audit import LEVELS, Audit, Finding, Level
from fairweight.report.headline import headline
from fairweight.report.training_findings import about_training, beside_baseline

if TYPE_CHECKING:
    import pandas as pd

FEW = 30  # samples behind a rate below which its group is called small
WIDE = 0.10  # width of an interval above which it is called wide


def findings(audit: Audit) -> list[Finding]:
    """Everything that the numbers say in words, each with one thing to do next."""
    makers = (
        *(_verdict, _gap, _other_gaps, beside_baseline, _small_groups, _wide_intervals, _label_skew),
        *(about_training, _missing_groups, _data_warnings, _accuracy),
    )
    found = [_with_action(finding, audit) for maker in makers for finding in maker(audit)]
    return sorted(found, key=lambda finding: LEVELS.index(finding.level))  # stable: makers in order


def _with_action(finding: Finding, audit: Audit) -> Finding:
    if finding.kind in ("verdict", "beside the baseline"):
        return replace(finding, action=headline(audit).action)
    actions = words("actions")
    text = actions.get(finding.action or finding.kind, actions["other"])
    return replace(finding, action=text.format(word=audit.group_word))


def _verdict(audit: Audit) -> list[Finding]:
    metrics = audit.metrics
    if "verdict" not in metrics or not metrics.get("sentence"):
        return []
    said = [str(metrics["sentence"]), str(metrics.get("all_rates_move_together", ""))]
    names = ("verdict", "chosen", "criterion", "kept_epoch", "accuracy_before", "accuracy_after")
    numbers = {name: metrics.get(name) for name in names}
    gaps = {name: (metrics.get(name) or {}).get("value") for name in ("gap_before", "gap_after")}
    levels: dict[Any, Level] = {"worse": "act", "helps": "good"}
    level = levels.get(metrics["verdict"], "note")
    return [Finding("verdict", level, " ".join(filter(None, said)), {**numbers, **gaps})]


def _gap(audit: Audit) -> list[Finding]:
    metrics = audit.metrics
    value = metrics["tprd"]
    rate = "Recall" if audit.by_label else "The true positive rate"
    if not known(value):
        sentence = f"{rate} cannot be compared: fewer than two groups have samples to estimate it from."
        return [Finding("gap", "look", sentence, {"tprd": None})]
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
        return [Finding("gap", "act" if value >= 0.05 else "look", sentence, numbers)]
    sentence += f" Equal groups of these sizes would show up to {points(floor['high'])} by sampling alone."
    return [Finding("no gap beyond chance", "good", sentence, numbers)]


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
    found = []
    for name, kind, what in (
        ("fpr_gap", "gap in false positives", "false positive rate"),
        ("selection_rate_gap", "gap in predictions", "share predicted positive"),
    ):
        value = audit.metrics[name]
        low, high = audit.metrics["intervals"][name]
        if not audit.by_label and known(value) and known(low) and low > 0.02:
            sentence = f"The {what} differs by up to {points(value)} {span(low, high)} between groups."
            found.append(Finding(kind, "look", sentence, {name: value, "low": low, "high": high}))
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
        found.append(Finding("small group", "look", sentence, numbers))
    if rest := [short(group["group"]) for group in small[3:]]:
        have = f"{word} has" if len(rest) == 1 else f"{word}s have"
        names = ", ".join(rest[:3]) + (f" and {len(rest) - 3} more" if len(rest) > 3 else "")
        sentence = f"{len(rest)} more {have} fewer than {FEW} such samples: {names}."
        found.append(Finding("small group", "look", sentence, {"groups": len(rest)}))
    return found


def _wide_intervals(audit: Audit) -> list[Finding]:
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
    return [Finding("wide interval", "look", sentence, {"width": width, "n": _trials(group), "groups": len(wide)})]


def _label_skew(audit: Audit) -> list[Finding]:
    """The label whose share differs most between two groups, beyond what their sizes explain."""
    if audit.by_label:
        return []
    counts, sizes = _counts(audit)
    shares = counts.div(sizes, axis=0)[sizes >= FEW]  # [groups, labels]
    if shares.empty:
        return []
    label = (shares.max() - shares.min()).idxmax()
    column = shares[label]
    rarer, commoner = str(column.idxmin()), str(column.idxmax())
    least, most = float(column.min()), float(column.max())
    error = (least * (1 - least) / float(sizes[rarer]) + most * (1 - most) / float(sizes[commoner])) ** 0.5
    if most - least < 0.05 or most - least < 3 * error:
        return []
    sentence = (
        f"Label {short(label)} is {percent(most)} of {short(commoner)} and {percent(least)} of {short(rarer)} in "
        f"{'the data' if audit.trained is None else 'train'}: a skew of {points(most - least)}."
    )
    return [Finding("label skew", "look", sentence, {"difference": most - least, "high": most, "low": least})]


def _counts(audit: Audit) -> tuple[pd.DataFrame, pd.Series[float]]:
    """Samples of each label in each group, and of each group: of train where there was training, otherwise of test."""
    import pandas as pd

    if audit.trained is not None:
        weights = audit.trained.weights[audit.trained.weights["group"].notna()]
        table = pd.crosstab(weights["group"].astype(str), weights["label"].astype(str))
        return table, table.sum(axis=1)
    groups = pd.DataFrame(audit.metrics["groups"]).set_index("group")
    if audit.has_cells:
        table = pd.DataFrame(audit.metrics["cells"]).pivot_table("n", "group", "label", aggfunc="sum", sort=False)
        return table.reindex(groups.index), groups["n"]
    return groups[["n_positive"]].rename(columns={"n_positive": str(audit.metrics["positive"])}), groups["n"]


def _missing_groups(audit: Audit) -> list[Finding]:
    count = audit.metrics["n_missing"]
    if not count:
        return []
    share = count / (count + audit.metrics["n"])
    sentence = f"{count:,} {_samples(audit)} ({percent(share)}) have no known group and are left out of every number."
    return [Finding("missing groups", "look", sentence, {"n": count, "share": share})]


def _data_warnings(audit: Audit) -> list[Finding]:
    texts = [note.removeprefix("Warning: ") for note in audit.notes if note.startswith("Warning: ")]
    return [Finding("data", "look", capitalised(text)) for text in texts]


def _accuracy(audit: Audit) -> list[Finding]:
    metrics = audit.metrics
    low, high = metrics["intervals"]["accuracy"]
    worst = metrics["worst_group_accuracy"]
    sentence = f"Accuracy is {percent(metrics['accuracy'])} {span(low, high)} on {metrics['n']:,} {_samples(audit)}"
    sentence += f", and {percent(worst)} for the worst {audit.group_word}." if known(worst) else "."
    numbers = {"accuracy": metrics["accuracy"], "low": low, "high": high, "worst": worst, "n": metrics["n"]}
    return [Finding("accuracy", "note", sentence, numbers)]
