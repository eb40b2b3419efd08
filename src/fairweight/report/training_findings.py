"""Findings about training: what the method changed, where weight went, which labels look wrong."""

from __future__ import annotations

from fairweight.report._format import capitalised, change, known, number, percent, points, short
from fairweight.report.audit import Audit, Baseline, Finding, Level, Trained
from fairweight.report.headline import headline, word_of
from fairweight.report.movement import movement

STILL = 0.01  # standard deviation of the scores below which they had no effect
CONCENTRATED = 0.1  # effective share of the training set below which the weights have collapsed


def beside_baseline(audit: Audit) -> list[Finding]:
    """What changed beside plain training, and whether a smaller gap was met by levelling down."""
    base = audit.baseline
    if audit.trained is None or (base is None and "verdict" in audit.metrics):
        return []
    if base is None:
        sentence = (
            "No plain training of the same data stands beside this run; if there is one, name it with --baseline."
        )
        return [Finding("no baseline", "note", sentence)]
    found = [_changes(audit, base)] if "verdict" not in audit.metrics and word_of(audit) else []
    gap = base.differences.get("tprd")
    if gap is None or not gap["beyond"] or gap["value"] > 0:
        return found
    return [*found, *_levelling(audit, base), *_moved_together(audit, base)]


def _changes(audit: Audit, base: Baseline) -> Finding:
    names = ("tprd", "accuracy", "max_fnr")
    numbers = {f"{n}_{when}": m[n] for n in names for when, m in (("before", base.metrics), ("after", audit.metrics))}
    levels: dict[str, Level] = {"good": "good", "bad": "act", "even": "look"}
    top = headline(audit)
    level = levels[top.tone] if "tprd" in base.differences else "note"
    return Finding("beside the baseline", level, f"Beside {short(base.name)}: {top.sentence}", numbers)


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
    return [Finding("all rates moved", "look", sentence, numbers)]


def _levelling(audit: Audit, base: Baseline) -> list[Finding]:
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
    return [Finding("levelling down", "look", sentence, {"gap_fell": fell, "best_fell": best_fell})]


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
        return [Finding("no scores", "note", sentence)]
    std, size = trained.scores.get("std"), trained.scores.get("effective_size")
    if std is None or size is None:
        return []
    numbers = {"score_std": std, "effective_size": size}
    if std < STILL:
        sentence = f"No effect: scores ended at a standard deviation of {number(std)}, so samples counted almost alike."
        return [Finding("no effect", "act", sentence, numbers)]
    if size < CONCENTRATED:
        sentence = f"Collapse: a few samples carry the model; the effective sample size is {percent(size)} of train."
        return [Finding("collapse", "act", sentence, numbers)]
    sentence = (
        f"The scores ended between {number(trained.scores.get('min'))} and {number(trained.scores.get('max'))} "
        f"(standard deviation {number(std)}); the effective sample size is {percent(size)} of the training set."
    )
    return [Finding("effect", "note", sentence, numbers)]


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
        return [Finding("weight", "note", sentence, numbers)]
    began = "Weights are fixed before training" if trained.weights_are_fixed else "Weight moved"
    sentence = (
        f"{began}: samples of {what} {short(most)} ({n_most:,}) count {high:.2f} on average, the most, and those of "
        f"{what} {short(least)} ({n_least:,}) {low:.2f}, the least; 1 is an even share."
    )
    return [Finding("weight", "note", sentence, numbers)]


def _suspects(trained: Trained) -> list[Finding]:
    if trained.wrong_counts:
        return [_wrong(trained), *_found(trained)]
    suspected = trained.suspects["suspected"].to_numpy()
    count, total = int(suspected.sum()), len(suspected)
    if not count:
        sentence = "No label looks wrong: no average margin is below 0."
        return [Finding("wrong labels", "good", sentence, {"n": 0}, "no wrong labels")]
    by_label = trained.weights["label"].astype(str)[suspected].value_counts()
    top, most = str(by_label.index[0]), int(by_label.iloc[0])
    share = count / total
    sentence = (
        f"{count:,} of {total:,} labels ({percent(share)}) look wrong or are hard: over the whole of training the "
        f"model preferred another label. {most:,} of them are labelled {short(top)}. "
    )
    found = expected_wrong(trained)
    why = ", as no row is trusted" if "no trusted rows" in trained.suspect_rule else ""
    many = f"How many are wrong is not known{why}."
    sentence += many if found is None else f"{found:,.0f} of them are known to be wrong."
    numbers = {"n": count, "share": share, "most": most}
    level: Level = "look" if share >= 0.005 else "note"
    return [Finding("wrong labels", level, sentence, numbers), *_found(trained)]


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
        return Finding("wrong labels", "good", sentence, numbers, "no wrong labels")
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
    return Finding("wrong labels", level, sentence, numbers, "wrong labels counted")


def _found(trained: Trained) -> list[Finding]:
    truth = trained.detection
    if truth is None:
        return []
    at = truth.precision[truth.wrong]
    sentence = (
        f"{truth.wrong:,} labels are known to be wrong. The ranking finds them with an AUC of {truth.auc:.4f}; of "
        f"the {truth.wrong:,} most suspect labels {percent(at)} are."
    )
    return [Finding("wrong labels found", "note", sentence, {"wrong": truth.wrong, "auc": truth.auc, "precision": at})]


def _memorised(trained: Trained) -> list[Finding]:
    weights = trained.weights
    if "predicted" not in weights:
        return []
    same = float((weights["predicted"].astype(str) == weights["label"].astype(str)).mean())
    if same < 0.995:
        return []
    sentence = f"The model repeats {percent(same)} of the training labels, so its opinion says little of wrong ones."
    return [Finding("memorised", "note", sentence, {"share": same})]


def _warnings(trained: Trained) -> list[Finding]:
    kinds = [(text.split(":")[0], text) for text in trained.warnings]
    return [Finding(k, "look", capitalised(text)) for k, text in kinds if k not in ("no effect", "collapse")]
