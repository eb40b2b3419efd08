"""What training left behind, in words: whether weights had an effect, where they went, which labels look wrong."""

from __future__ import annotations

from fairweight.report._words import known, number, percent, short
from fairweight.report.audit import Audit, Trained
from fairweight.report.finding import Finding
from fairweight.report.movement import movement

STILL = 0.01  # standard deviation of the scores below which they had no effect
CONCENTRATED = 0.1  # effective share of the training set below which the weights have collapsed


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
        return [Finding("no scores", "note", sentence, {})]
    std, size = trained.scores.get("std"), trained.scores.get("effective_size")
    if std is None or size is None:
        return []
    numbers = {"score_std": std, "effective_size": size}
    if std < STILL:
        sentence = (
            f"No effect: the scores ended at a standard deviation of {number(std)}, so every sample counted almost "
            "alike; use the adaptive score step, or raise the plain step's scale."
        )
        return [Finding("no effect", "act", sentence, numbers)]
    if size < CONCENTRATED:
        sentence = (
            f"Collapse: the weights amount to {percent(size)} of the training set, so a few samples carry the model; "
            "lower the score step's scale or rate."
        )
        return [Finding("collapse", "act", sentence, numbers)]
    sentence = (
        f"The scores ended between {number(trained.scores.get('min'))} and {number(trained.scores.get('max'))} "
        f"(standard deviation {number(std)}); the weights amount to {percent(size)} of the training set."
    )
    return [Finding("effect", "note", sentence, numbers)]


def _moved(trained: Trained) -> list[Finding]:
    found = movement(trained, "group" if trained.grouped else "label")
    if found is None or len(found.names) < 2:
        return []
    ends = found.ends()
    (most, _, high), (least, _, low) = ends[0], ends[-1]
    if high - low < 0.02:
        sentence = f"Weight stayed even between parts: their mean weights lie between {low:.2f} and {high:.2f}."
        return [Finding("weight", "note", sentence, {"highest": high, "lowest": low})]
    what = "group" if trained.grouped else "label"
    if trained.weights_are_fixed:
        sentence = (
            f"Weights are fixed: samples of {what} {short(least)} count {low:.2f} on average, those of {what} "
            f"{short(most)} {high:.2f}; 1 is an even share."
        )
        return [Finding("weight", "note", sentence, {"highest": high, "lowest": low})]
    sentence = (
        f"Weight moved from {what} {short(least)}, whose samples count {low:.2f} on average, to {what} {short(most)}, "
        f"whose count {high:.2f}; 1 is an even share."
    )
    return [Finding("weight", "note", sentence, {"highest": high, "lowest": low})]


def _suspects(trained: Trained) -> list[Finding]:
    suspected = trained.suspects["suspected"].to_numpy()
    count, total = int(suspected.sum()), len(suspected)
    if not count:
        return [Finding("wrong labels", "note", "No label looks wrong: no average margin is below 0.", {"n": 0})]
    labels = trained.weights["label"].astype(str)
    by_label = labels[suspected].value_counts()
    top, most = str(by_label.index[0]), int(by_label.iloc[0])
    share = count / total
    sentence = (
        f"{count:,} of {total:,} labels ({percent(share)}) look wrong or are hard: over the whole of training the "
        f"model preferred another label. {most:,} of them are labelled {short(top)}."
    )
    numbers = {"n": count, "share": share, "most": most}
    found = [Finding("wrong labels", "look" if share >= 0.005 else "note", sentence, numbers)]
    if trained.detection is not None:
        d = trained.detection
        at = d.precision[d.wrong]
        known_sentence = (
            f"{d.wrong:,} labels are known to be wrong. The ranking finds them with an AUC of {d.auc:.4f}; of the "
            f"{d.wrong:,} most suspect labels {percent(at)} are."
        )
        numbers = {"wrong": d.wrong, "auc": d.auc, "precision": at}
        found.append(Finding("wrong labels found", "note", known_sentence, numbers))
    return found


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
    return [Finding("memorised", "note", sentence, {"share": same})]


def _warnings(trained: Trained) -> list[Finding]:
    """The run's own, but for those that were said above."""
    found = []
    for text in trained.warnings:
        kind = text.split(":")[0]
        if known(kind) and kind not in ("no effect", "collapse"):
            found.append(Finding(kind, "look", text[:1].upper() + text[1:], {}))
    return found
