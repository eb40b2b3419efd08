"""Findings about training: what the method changed, where weight went, which labels look wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairweight.report._format import capitalised, change, known, number, percent, points, short, span
from fairweight.report.audit import Audit, Baseline, Finding, Level, Trained
from fairweight.report.headline import headline
from fairweight.report.movement import movement

TITLES = {"accuracy": "accuracy", "tprd": "TPRD", "max_fnr": "maxFNR"}
STILL = 0.01  # standard deviation of the scores below which they had no effect
CONCENTRATED = 0.1  # effective share of the training set below which the weights have collapsed


def beside_baseline(audit: Audit) -> list[Finding]:
    """The gap and the accuracy beside the baseline's, and whether a smaller gap was met by levelling down."""
    if audit.trained is None:
        return []
    if audit.baseline is None:
        sentence = (
            "No plain training of the same data stands beside this run, so nothing here says what the method changed; "
            "train one with --method uniform into a folder beside it, or name it with --baseline."
        )
        action = "train plainly beside it with --method uniform, and audit again."
        return [Finding("no baseline", "note", sentence, action=action)] if "verdict" not in audit.metrics else []
    base = audit.baseline
    both = known(audit.metrics["tprd"]) and known(base.metrics["tprd"])
    found = [_changes(audit, base)] if both and "verdict" not in audit.metrics else []  # the verdict says it better
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
    sentence = f"Beside {short(base.name)}: {'; '.join(parts)}.{verdict}"
    return Finding("beside the baseline", level, sentence, numbers, headline(audit).action)


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


def _now_and_before(audit: Audit, base: Baseline, metric: str) -> tuple[dict[str, float], dict[str, float]] | None:
    """The metric by group in both runs; None where they do not know it of the same groups."""
    now, before = (
        {g["group"]: g[metric] for g in metrics["groups"] if known(g[metric])}
        for metrics in (audit.metrics, base.metrics)
    )
    return (now, before) if now and now.keys() == before.keys() else None


def _moved_together(audit: Audit, base: Baseline) -> list[Finding]:
    """A smaller gap that came with more (or fewer) positives everywhere, as a moved threshold would bring it."""
    selected, wrong = (_now_and_before(audit, base, metric) for metric in ("selection_rate", "fpr"))
    if audit.by_label or audit.has_cells or selected is None or wrong is None or len(selected[0]) < 2:
        return []
    moves, falsely = ([now[group] - before[group] for group in now] for now, before in (selected, wrong))
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
    action = "move plain training's threshold on validation rows, and compare that with this model."
    return [Finding("all rates moved", "look", sentence, numbers, action)]


def _levelling(audit: Audit, base: Baseline) -> list[Finding]:
    """A gap that fell because its best group did."""
    rates = _now_and_before(audit, base, "tpr")
    if audit.has_cells or rates is None or len(rates[0]) < 2:
        return []
    (worst, best), (worst_before, best_before) = ((min(r.values()), max(r.values())) for r in rates)
    fell, best_fell = (best_before - worst_before) - (best - worst), best_before - best
    if fell < 0.01 or best_fell < 0.005 or best_fell < 0.5 * fell:
        return []
    sentence = (
        f"Of the {points(fell)} that the gap is smaller, {points(best_fell)} come from the best group, which fell from "
        f"{percent(best_before)} to {percent(best)}; the worst went from {percent(worst_before)} to {percent(worst)}: "
        "levelling down."
    )
    action = "ask whether anybody gains: --criterion worst-group helps the worst group instead."
    return [Finding("levelling down", "look", sentence, {"gap_fell": fell, "best_fell": best_fell}, action)]


def about_training(audit: Audit) -> list[Finding]:
    """Effect, movement, wrong labels and the run's own warnings; nothing for an audit of predictions alone."""
    trained = audit.trained
    if trained is None:
        return []
    return [*_effect(trained), *_moved(trained), *_suspects(trained), *_memorised(trained), *_warnings(trained)]


def _effect(trained: Trained) -> list[Finding]:
    if not trained.has_scores:
        kept = "" if trained.weighs else ", and every sample counted alike"
        sentence = f"{trained.method} learns no score per sample{kept}; losses, margins and forgetting are shown."
        return [Finding("no scores", "note", sentence, action="train with --method forml for a score per sample.")]
    std, size = trained.scores.get("std"), trained.scores.get("effective_size")
    if std is None or size is None:
        return []
    numbers = {"score_std": std, "effective_size": size}
    if std < STILL:
        sentence = (
            f"No effect: scores ended at a standard deviation of {number(std)}; every sample counted almost alike."
        )
        action = "use the adaptive score step, or raise the plain step's scale."
        return [Finding("no effect", "act", sentence, numbers, action)]
    if size < CONCENTRATED:
        sentence = f"Collapse: a few samples carry the model; the effective sample size is {percent(size)} of train."
        return [Finding("collapse", "act", sentence, numbers, "lower the score step's scale or rate.")]
    sentence = (
        f"The scores ended between {number(trained.scores.get('min'))} and {number(trained.scores.get('max'))} "
        f"(standard deviation {number(std)}); the effective sample size is {percent(size)} of the training set."
    )
    return [Finding("effect", "note", sentence, numbers, "nothing: the weights differ, and none of them rules.")]


def _moved(trained: Trained) -> list[Finding]:
    """Where weight went, by cell: a group's mean hides that its positives rose while its negatives fell."""
    what = "cell" if trained.grouped else "label"
    found = movement(trained, what)
    if found is None or len(found.names) < 2:
        return []
    (most, n_most, high), *_, (least, n_least, low) = found.ends()
    numbers = {"highest": high, "lowest": low}
    if high - low < 0.02:
        sentence = f"Weight stayed even between {what}s: their mean weights lie between {low:.2f} and {high:.2f}."
        return [Finding("weight", "note", sentence, numbers, "nothing: no part of the data was favoured.")]
    began = "Weights are fixed before training" if trained.weights_are_fixed else "Weight moved"
    sentence = (
        f"{began}: samples of {what} {short(most)} ({n_most:,}) count {high:.2f} on average, the most, and those of "
        f"{what} {short(least)} ({n_least:,}) {low:.2f}, the least; 1 is an even share."
    )
    action = f"check that the {what}s that count more are those that the model serves worse."
    return [Finding("weight", "note", sentence, numbers, action)]


def _suspects(trained: Trained) -> list[Finding]:
    if trained.wrong_counts:
        return [_wrong(trained), *_found(trained)]
    suspected = trained.suspects["suspected"].to_numpy()
    count, total = int(suspected.sum()), len(suspected)
    if not count:
        sentence = "No label looks wrong: no average margin is below 0."
        return [Finding("wrong labels", "good", sentence, {"n": 0}, "nothing: the labels may stay as they are.")]
    by_label = trained.weights["label"].astype(str)[suspected].value_counts()
    top, most = str(by_label.index[0]), int(by_label.iloc[0])
    share = count / total
    sentence = (
        f"{count:,} of {total:,} labels ({percent(share)}) look wrong or are hard: over the whole of training the "
        f"model preferred another label. {most:,} of them are labelled {short(top)}. "
    )
    sentence += (
        "How many are wrong is not known, as no row is trusted."
        if trained.detection is None
        else f"{expected_wrong(trained):,.0f} of them are known to be wrong."
    )
    numbers = {"n": count, "share": share, "most": most}
    action = "check the labels of some hundred rows by hand and give them with --exemplars; then they can be counted."
    level: Level = "look" if share >= 0.005 else "note"
    return [Finding("wrong labels", level, sentence, numbers, action), *_found(trained)]


def expected_wrong(trained: Trained) -> float | None:
    """How many of the labels that look wrong are: counted where the truth is known, expected where rows are trusted."""
    suspected = trained.suspects["suspected"].to_numpy()
    if trained.detection is not None:
        wrong = trained.weights["label"].astype(str) != trained.weights["true_label"].astype(str)
        return float(wrong.to_numpy()[suspected].sum())
    if "posterior" in trained.suspects:
        return float(trained.suspects["posterior"].to_numpy()[suspected].sum())
    return None


def _wrong(trained: Trained) -> Finding:
    """How many labels are wrong beside trusted exemplars, where most of them are, and how many are only hard."""
    whole, *parts = trained.wrong_counts
    suspected, hard = (int(trained.suspects[name].sum()) for name in ("suspected", "hard"))
    numbers = {key: whole[key] for key in ("n", "wrong", "low", "high")} | {"look_wrong": suspected, "hard": hard}
    told = f"{hard:,} more are hard: their inputs speak for another label, and the given one still stands"
    if whole["low"] <= 0:
        sentence = (
            f"Nothing shows that labels are wrong: of {whole['n']:,} an estimated {whole['wrong']:,.0f}, and the "
            f"interval reaches from 0 to {whole['high']:,.0f}. {told}."
        )
        return Finding("wrong labels", "good", sentence, numbers, "nothing: the labels may stay as they are.")
    sentence = (
        f"About {whole['wrong']:,.0f} of {whole['n']:,} labels are wrong (95 % interval {whole['low']:,.0f} to "
        f"{whole['high']:,.0f}), judged beside trusted exemplars. {suspected:,} look wrong one by one, of which about "
        f"{expected_wrong(trained) or 0:,.0f} are expected to be. {told}."
    )
    for by in ("label", "group"):
        found = [part for part in parts if part["by"] == by and part["n"]]
        if len(found) > 1:
            most = max(found, key=lambda part: part["wrong"] / part["n"])
            share = f"{percent(most['wrong'] / most['n'])} of {most['n']:,}"
            sentence += f" By {by} the most are in {short(str(most['name']))}: {share}."
    level: Level = "look" if whole["low"] >= 0.005 * whole["n"] else "note"
    action = "run `fairweight clean`: it says whether mending or dropping them gives a better model."
    return Finding("wrong labels", level, sentence, numbers, action)


def _found(trained: Trained) -> list[Finding]:
    """How well the ranking finds labels that are known to be wrong."""
    truth = trained.detection
    if truth is None:
        return []
    at = truth.precision[truth.wrong]
    sentence = (
        f"{truth.wrong:,} labels are known to be wrong. The ranking finds them with an AUC of {truth.auc:.4f}; of "
        f"the {truth.wrong:,} most suspect labels {percent(at)} are."
    )
    numbers = {"wrong": truth.wrong, "auc": truth.auc, "precision": at}
    action = f"check labels from the top of the list; about {percent(at)} of the first {truth.wrong:,} need mending."
    return [Finding("wrong labels found", "note", sentence, numbers, action)]


def _memorised(trained: Trained) -> list[Finding]:
    weights = trained.weights
    if "predicted" not in weights:
        return []
    same = float((weights["predicted"].astype(str) == weights["label"].astype(str)).mean())
    if same < 0.995:
        return []
    sentence = (
        f"The model repeats {percent(same)} of the training labels, so its last opinion says little about wrong ones; "
        "the ranking looks at the whole of training."
    )
    action = "train for fewer epochs, or with validation rows, so that its opinion counts."
    return [Finding("memorised", "note", sentence, {"share": same}, action)]


def _warnings(trained: Trained) -> list[Finding]:
    """The run's own warnings, except those that _effect repeats."""
    kinds = [(text.split(":")[0], text) for text in trained.warnings]
    action = "read log.jsonl of the run for when it began."
    return [
        Finding(kind, "look", capitalised(text), action=action)
        for kind, text in kinds
        if kind not in ("no effect", "collapse")
    ]
