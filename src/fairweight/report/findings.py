"""What an audit found, as sentences with their numbers, the most pressing first; words.toml has the sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pandas as pd

from fairweight.report._format import capitalised, known, percent, sentence_and_action, short, span
from fairweight.report.audit import LEVELS, Audit, Baseline, Finding, Level, Trained
from fairweight.report.headline import LARGE, headline, word_of
from fairweight.report.table_rows import movement

FEW = 30  # samples behind a rate below which its group is called small
WIDE = 0.10  # width of an interval above which it is called wide
STILL = 0.01  # standard deviation of the scores below which they had no effect
CONCENTRATED = 0.1  # effective share of the training set below which the weights have collapsed
Found = Iterator[tuple[str, Level, dict[str, Any], dict[str, Any]]]  # kind, level, numbers, and names to fill in


def findings(audit: Audit) -> list[Finding]:
    """Everything that the numbers say in words, each with one thing to do next."""
    makers: tuple[Callable[[Audit], Found], ...] = (_verdict, _gap, _other_gaps, _small_groups, _wide_intervals)
    found = []
    for maker in (*makers, _label_skew, _about_training, _of_the_data):
        for kind, level, numbers, names in maker(audit):
            values = {"word": audit.group_word, "interval": span(numbers.get("low"), numbers.get("high"))}
            sentence, action = sentence_and_action("findings", names.get("wording", kind), values | numbers | names)
            found.append(Finding(kind, level, sentence, numbers, names.get("action", action)))
    return sorted(found, key=lambda finding: LEVELS.index(finding.level))  # stable: makers in order


def _verdict(audit: Audit) -> Found:
    metrics = audit.metrics
    if "verdict" not in metrics or not metrics.get("sentence"):
        return
    how = (metrics.get("levelling") or {}).get("sentence") or metrics.get("all_rates_move_together")
    said = metrics["sentence"], how, *(metrics.get("notes") or ())
    sentence = " ".join(filter(None, said))
    numbers = ("verdict", "chosen", "criterion", "kept_epoch", "accuracy_before", "accuracy_after")
    gaps = {name: (metrics.get(name) or {}).get("value") for name in ("gap_before", "gap_after")}
    levels: dict[Any, Level] = {
        "worse": "act",
        "helps": "good",
        **dict.fromkeys(("outside", "levels-down", "as-a-threshold"), "look"),
    }
    names = {"text": sentence, "action": headline(audit).action}
    yield "verdict", levels.get(word_of(audit), "note"), {name: metrics.get(name) for name in numbers} | gaps, names


def _gap(audit: Audit) -> Found:
    metrics, value = audit.metrics, audit.metrics["tprd"]
    names = {"rate": "Recall" if audit.by_label else "The true positive rate"}
    if not known(value):
        yield "gap", "look", {"tprd": None}, {**names, "wording": "gap unknown"}
        return
    (low, high), floor = metrics["intervals"]["tprd"], metrics["noise_floor"]["tprd"]
    by_label: dict[str | None, dict[str, float]] = {}  # one entry where there is one rate per group
    for cell in metrics.get("cells", metrics["groups"]):
        if known(cell["tpr"]):
            by_label.setdefault(cell.get("label"), {})[cell["group"]] = cell["tpr"]
    label, rates = max(by_label.items(), key=lambda item: max(item[1].values()) - min(item[1].values()))
    ends = [pick(rates.items(), key=lambda item: item[1]) for pick in (min, max)]
    names["apart"] = " and ".join(f"{percent(rate)} for {_called(audit, name)}" for name, rate in ends)
    if ends[0][1] == ends[1][1]:  # the first group would stand on both sides
        names["apart"] = f"{percent(ends[0][1])} for every {audit.group_word}"
    names["where"] = "" if label is None else f" of label {short(label)}"
    beyond = known(floor["high"]) and value > floor["high"]
    level: Level = "act" if beyond and value >= LARGE else "look" if beyond or value >= LARGE else "good"
    numbers = {"tprd": value, "low": low, "high": high, "noise_floor": floor["mean"], "noise_floor_high": floor["high"]}
    names |= {"wording": "gap of one label"} if (alike := audit.says_one_label) else {}
    yield "gap" if beyond or alike else "no gap beyond chance", "act" if alike else level, numbers, names


def _other_gaps(audit: Audit) -> Found:
    for name, kind in (("fpr_gap", "gap in false positives"), ("selection_rate_gap", "gap in predictions")):
        value, (low, high) = audit.metrics[name], audit.metrics["intervals"][name]
        if not audit.by_label and known(value) and known(low) and low > 0.02:
            yield kind, "look", {name: value, "low": low, "high": high}, {}


def _called(audit: Audit, name: str) -> str:
    return f"{audit.group_word} {short(name)}" if audit.by_label or name.isdecimal() else short(name)


def _samples(audit: Audit) -> str:
    return "samples" if audit.trained is None else "test samples"


def _trials(group: Mapping[str, Any]) -> int:
    return int(group.get("n_positive", group["n"]))


def _small_groups(audit: Audit) -> Found:
    word, merge = audit.group_word, ", or merge small groups: train with --small-groups merge and a larger --floor"
    merges = audit.trained is not None and not audit.by_label and len(audit.metrics["groups"]) > 2  # two would be left
    names: dict[str, Any] = {"Word": word.capitalize(), "few": FEW, "samples": _samples(audit)}
    names["merge"] = merge * merges
    names["what"] = _samples(audit) + ("" if audit.by_label or audit.has_cells else " of the positive label")
    small = sorted((g for g in audit.metrics["groups"] if _trials(g) < FEW), key=_trials)
    for g in small[:3]:
        numbers = {"n": _trials(g), "tpr": g["tpr"], "low": g["tpr_low"], "high": g["tpr_high"]}
        what = names["what"] if _trials(g) != 1 else names["what"].replace("samples", "sample", 1)
        wording = "small group" if known(g["tpr"]) else "small group unknown"
        yield "small group", "look", numbers, {**names, "name": g["group"], "what": what, "wording": wording}
    if rest := [short(group["group"]) for group in small[3:]]:
        names["have"] = f"{word} has" if len(rest) == 1 else f"{word}s have"
        names["names"] = ", ".join(rest[:3]) + (f" and {len(rest) - 3} more" if len(rest) > 3 else "")
        yield "small group", "look", {"groups": len(rest)}, {**names, "wording": "more small groups"}


def _wide_intervals(audit: Audit) -> Found:
    groups = [g for g in audit.metrics["groups"] if _trials(g) >= FEW and known(g["tpr_low"])]
    wide = [(g["tpr_high"] - g["tpr_low"], g) for g in groups if g["tpr_high"] - g["tpr_low"] > WIDE]
    if wide:
        width, group = max(wide, key=lambda pair: pair[0])
        rest = len(wide) - 1
        names = {"called": _called(audit, group["group"]), "interval": span(group["tpr_low"], group["tpr_high"])}
        words = f" {rest} more {'is' if rest == 1 else 'are'} wider than {100 * WIDE:.0f} points." if rest else ""
        numbers = {"width": width, "n": _trials(group), "groups": len(wide)}
        yield "wide interval", "look", numbers, {**names, "others": words}


def _label_skew(audit: Audit) -> Found:
    """The label whose share differs most between two groups, beyond what their sizes explain."""
    if audit.by_label:
        return
    counts, sizes = _counts(audit)
    shares = counts.div(sizes, axis=0)[sizes >= FEW]  # [groups, labels]
    if shares.empty:
        return
    label = (shares.max() - shares.min()).idxmax()
    column = shares[label]
    names = {"label": str(label), "rarer": str(column.idxmin()), "commoner": str(column.idxmax())}
    least, most = float(column.min()), float(column.max())
    error = (least * (1 - least) / sizes[names["rarer"]] + most * (1 - most) / sizes[names["commoner"]]) ** 0.5
    if most - least >= max(0.05, 3 * float(error)):
        names["where"] = "the data" if audit.trained is None else "train"
        yield "label skew", "look", {"difference": most - least, "high": most, "low": least}, names


def _counts(audit: Audit) -> tuple[pd.DataFrame, pd.Series[float]]:
    """Samples of each label in each group, and of each group: of train where there was training, otherwise of test."""
    if audit.trained is not None:
        weights = audit.trained.weights[audit.trained.weights["group"].notna()]
        table = pd.crosstab(weights["group"].astype(str), weights["label"].astype(str))
        return table, table.sum(axis=1)
    groups = pd.DataFrame(audit.metrics["groups"]).set_index("group")
    if audit.has_cells:
        table = pd.DataFrame(audit.metrics["cells"]).pivot_table("n", "group", "label", aggfunc="sum", sort=False)
        return table.reindex(groups.index), groups["n"]
    return groups[["n_positive"]].rename(columns={"n_positive": str(audit.metrics["positive"])}), groups["n"]


def _of_the_data(audit: Audit) -> Found:
    metrics, samples = audit.metrics, _samples(audit)
    if count := metrics["n_missing"]:
        yield "missing groups", "look", {"n": count, "share": count / (count + metrics["n"])}, {"samples": samples}
    for note in audit.notes:
        if note.startswith("Warning: "):
            yield "data", "look", {}, {"text": capitalised(note.removeprefix("Warning: "))}
    (low, high), worst = metrics["intervals"]["accuracy"], metrics["worst_group_accuracy"]
    rest = f", and {percent(worst)} for the worst {audit.group_word}" if known(worst) else ""
    numbers = {"accuracy": metrics["accuracy"], "low": low, "high": high, "worst": worst, "n": metrics["n"]}
    yield "accuracy", "note", numbers, {"samples": samples, "rest": rest}


def _about_training(audit: Audit) -> Found:
    """What changed, where weight went, wrong labels, the run's own warnings; nothing for predictions alone."""
    if audit.trained is not None:
        yield from _beside_baseline(audit)
        tells = not audit.says_one_label or audit.trained.wrong_counts or audit.trained.wrong is not None
        for maker in (_effect, _moved, _suspects if tells else _no_opinion, _warnings):
            yield from maker(audit.trained)


def _beside_baseline(audit: Audit) -> Found:
    """What changed beside plain training, and whether a smaller gap was met by levelling down."""
    base, judged = audit.baseline, "verdict" in audit.metrics
    if base is None:
        if not judged:
            yield "no baseline", "note", {}, {}
        return
    gap = base.differences.get("tprd")
    if not judged and word_of(audit):
        both = (("before", base.metrics), ("after", audit.metrics))
        numbers = {f"{name}_{when}": of[name] for name in ("tprd", "accuracy", "max_fnr") for when, of in both}
        levels: dict[str, Level] = {"good": "good", "bad": "act", "even": "look"}
        top = headline(audit)
        level = levels[top.tone] if gap is not None else "note"
        yield "beside the baseline", level, numbers, {"base": base.name, "text": top.sentence, "action": top.action}
    if gap is not None and gap["beyond"] and gap["value"] <= 0 and not audit.has_cells:
        yield from _levelling(audit, base)
        yield from _moved_together(audit, base)


def _now_and_before(audit: Audit, base: Baseline, metric: str) -> list[tuple[float, float]]:
    """The metric of each group in both runs; empty where they do not know it of the same two groups or more."""
    now, before = (
        {g["group"]: g[metric] for g in metrics["groups"] if known(g[metric])}
        for metrics in (audit.metrics, base.metrics)
    )
    return [(now[g], before[g]) for g in now] if len(now) > 1 and now.keys() == before.keys() else []


def _levelling(audit: Audit, base: Baseline) -> Found:
    if rates := _now_and_before(audit, base, "tpr"):
        now, before = zip(*rates, strict=True)
        fell, best_fell = (max(before) - min(before)) - (max(now) - min(now)), max(before) - max(now)
        if fell >= 0.01 and best_fell >= max(0.005, 0.5 * fell):
            names = {"best": max(now), "best_before": max(before), "worst": min(now), "worst_before": min(before)}
            yield "levelling down", "look", {"gap_fell": fell, "best_fell": best_fell}, names


def _moved_together(audit: Audit, base: Baseline) -> Found:
    """A smaller gap that came with more (or fewer) positives everywhere, as a moved threshold would bring it."""
    moves, falsely = ([n - b for n, b in _now_and_before(audit, base, metric)] for metric in ("selection_rate", "fpr"))
    sizes = [abs(move) for move in moves]
    if audit.by_label or not falsely or not moves or min(sizes) < 0.01 or min(moves) < 0 < max(moves):
        return
    numbers = {"least": min(moves), "most": max(moves), "fpr_least": min(falsely), "fpr_most": max(falsely)}
    names = {"how": "more" if moves[0] > 0 else "less", "low": f"{100 * min(sizes):.1f}", "high": max(sizes)}
    yield "all rates moved", "look", numbers, {**names, "base": base.name}


def _effect(trained: Trained) -> Found:
    std, size = trained.scores.get("std"), trained.scores.get("effective_size")
    if not trained.has_scores:
        kept = "" if trained.weighs else ", and every sample counted alike"
        yield "no scores", "note", {}, {"method": trained.subject, "kept": kept}
    elif std is not None and size is not None:
        kind = "no effect" if std < STILL else "collapse" if size < CONCENTRATED else "effect"
        names = {name: trained.scores.get(name) for name in ("min", "max")}
        yield kind, "note" if kind == "effect" else "act", {"score_std": std, "effective_size": size}, names


def _moved(trained: Trained) -> Found:
    """Where weight went, by cell: a group's mean hides that its positives rose while its negatives fell."""
    found = movement(trained, trained.part)
    if len(found) > 1:
        least, most = (pick(found, key=lambda part: part.end) for pick in (min, max))
        low, high = least.end, most.end
        names = {"what": trained.part, "most": most.name, "n_most": most.n, "least": least.name, "n_least": least.n}
        names["began"] = "Weights are fixed before training" if trained.weights_are_fixed else "Weight moved"
        names["wording"] = "weight" if high - low >= 0.02 else "weight even"
        yield "weight", "note", {"highest": high, "lowest": low}, names


def expected_wrong(trained: Trained) -> float | None:
    """How many of the labels that look wrong are: counted where the truth is known, expected where rows are trusted."""
    wrong = None if trained.detection is None else trained.wrong
    if wrong is None and "posterior" in trained.suspects:
        wrong = trained.suspects["posterior"].to_numpy()
    return None if wrong is None else float(wrong[trained.suspects["suspected"].to_numpy()].sum())


def _no_opinion(trained: Trained) -> Found:
    """A model that prefers one label for every row holds all rows of the others wrong."""
    yield "wrong labels", "note", {"n": None}, {"wording": "wrong labels unknown"}


def _suspects(trained: Trained) -> Found:
    suspected = trained.suspects["suspected"].to_numpy()
    count, total, expected = int(suspected.sum()), len(suspected), expected_wrong(trained)
    if trained.wrong_counts:
        yield from _counted(trained, count, expected)
    elif not count:
        yield "wrong labels", "good", {"n": 0}, {"wording": "no wrong labels"}
    else:
        by_label = trained.weights["label"].astype(str)[suspected].value_counts()
        why = ", as no row is trusted" if "no trusted rows" in trained.suspect_rule else ""
        many = f"How many are wrong is not known{why}."
        many = many if expected is None else f"{expected:,.0f} of them are known to be wrong."
        numbers = {"n": count, "share": count / total, "most": int(by_label.iloc[0])}
        level: Level = "look" if count / total >= 0.005 else "note"
        yield "wrong labels", level, numbers, {"total": total, "top": by_label.index[0], "many": many}
    if truth := trained.detection:
        numbers = {"wrong": truth.wrong, "auc": truth.auc, "precision": truth.precision[truth.wrong]}
        yield "wrong labels found", "note", numbers, {}


def _counted(trained: Trained, suspected: int, expected: float | None) -> Found:
    """How many labels are wrong beside trusted exemplars, where most of them are, and how many are only hard."""
    whole, *parts = trained.wrong_counts
    numbers = {name: whole[name] for name in ("n", "wrong", "low", "high")}
    numbers |= {"look_wrong": suspected, "hard": int(trained.suspects["hard"].sum())}
    if whole["low"] <= 0:
        yield "wrong labels", "good", numbers, {"wording": "no wrong labels counted"}
        return
    where = ""
    for by in ("label", "group"):
        found = [(part["wrong"] / part["n"], part) for part in parts if part["by"] == by and part["n"]]
        if len(found) > 1:
            share, most = max(found, key=lambda pair: pair[0])
            where += f" By {by} the most are in {short(most['name'])}: {percent(share)} of {most['n']:,}."
    level: Level = "look" if whole["low"] >= 0.005 * whole["n"] else "note"
    yield "wrong labels", level, numbers, {"wording": "wrong labels counted", "expected": expected or 0, "where": where}


def _warnings(trained: Trained) -> Found:
    """A model that repeats its labels, and what the run itself has warned of."""
    if "predicted" in trained.weights:
        same = float((trained.weights["predicted"].astype(str) == trained.weights["label"].astype(str)).mean())
        if same >= 0.995:
            yield "memorised", "note", {"share": same}, {}
    for text in trained.warnings:
        kind = text.split(":")[0]
        if kind not in ("no effect", "collapse"):
            yield kind, "look", {}, {"wording": "warning", "text": capitalised(text)}
