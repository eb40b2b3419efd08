"""Choose among the candidates, train the chosen one on all rows, look at it again, and write it into a run folder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairweight.apps.candidates import Candidate, Candidates, Tell, together
from fairweight.apps.judge import (
    BUDGET,
    SURE,
    Asked,
    Clock,
    Judgement,
    Rows,
    Score,
    Wish,
    choose,
    judged,
    near_constant,
)
from fairweight.apps.verdict import Verdict, by_group, calibration_of
from fairweight.data import Dataset
from fairweight.errors import BadInput, option
from fairweight.metagradient.passes import predicted
from fairweight.metrics import GroupTable
from fairweight.metrics.criterion import criterion
from fairweight.runs.cross_fit import all_rows, folds_for
from fairweight.runs.folder import METRICS, PREPROCESSING, RUN, RunFolder
from fairweight.runs.held_out import held_out_parts
from fairweight.runs.learners import LEARNERS, Fitted, Learner, usable
from fairweight.runs.manifest import FILE as MANIFEST
from fairweight.runs.manifest import VERSION as MANIFEST_VERSION
from fairweight.runs.provenance import provenance
from fairweight.runs.run import Result, final_predictions, score_numbers
from fairweight.runs.shift import shifted
from fairweight.runs.spec import Spec
from fairweight.training.predict import logits
from fairweight.types import Batch, RunRecord

PLAIN = "uniform"  # the folder of plain training inside that of the run
ANY = criterion("recall-parity")  # where the gap is not asked for


@dataclass(frozen=True)
class Search:
    """All candidates with their judgements, the one that was chosen, and its training on all rows."""

    dataset: Dataset  # with every row that is not for test in train
    rows: Rows
    wish: Wish
    plain: Candidate
    candidates: Sequence[Candidate]
    judgements: Sequence[Judgement]
    chosen: Candidate
    fitted: Fitted
    fitted_plain: Fitted
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def kept_plain(self) -> bool:
        """True if nothing beats plain training."""
        return self.chosen is self.plain

    def to_dict(self) -> dict[str, Any]:
        """Plain values: every candidate with what it was judged by."""
        found = [
            {"name": c.name, "learner": c.learner, "epoch": c.epoch, "seconds": round(c.seconds, 2), **j.to_dict()}
            for c, j in zip(self.candidates, self.judgements, strict=True)
        ]
        return {
            "reference": self.plain.title,
            "chosen": self.chosen.title,
            "rows": len(self.rows.labels),
            "candidates": found,
            "notes": list(self.notes),
            "seconds": round(self.seconds, 2),
        }


def search(dataset: Dataset, asked: Asked, *, seed: int = 0, device: str = "cpu", tell: Tell | None = None) -> Search:
    """Train and judge the candidates, choose one, train it on all rows and look at it again."""
    clock = Clock(asked.seconds)
    whole = all_rows(dataset)
    train = whole.train
    assert isinstance(train, Batch)
    names = [name for name in LEARNERS if asked.learner in (None, name) and usable(name, whole)]
    if not names:
        raise BadInput(f"{option('learner', asked.learner)} does not take these inputs; choose mlp.")
    runs: list[Candidates] = []
    for turn in range(asked.seeds):
        learners = {name: Learner(name, whole, seed + turn, device, asked.training) for name in names}
        made = Candidates(whole, folds_for(train, seed + turn), learners, asked, clock, tell)
        asked.wish.criterion.check(made.classes, not made.by_label)
        made.run()
        runs.append(made)
        if made.notes:  # no time for another
            break
    first = runs[0]
    found = together([made.found for made in runs])
    there = np.logical_or.reduce([made.folds.judged for made in runs])
    rows = Rows(first.labels[there], None if first.groups is None else first.groups[there], first.classes)
    plain = max((one for one in found if one.name == "plain"), key=lambda one: one.right(there, first.labels))
    said = plain.said(there)
    judgements = [judged(rows, said, one.said(there), asked.wish, seed) for one in found]
    place = choose(Score.of(rows, said, asked.wish.criterion), judgements, asked.wish)
    chosen = plain if place is None else found[place]
    fitted_plain = first.learners[plain.learner].whole(plain.way, plain.epoch)
    fitted, notes = fitted_plain, [note for made in runs for note in made.notes]
    if chosen is not plain:
        if chosen.way is not plain.way:  # a second stage of plain training needs no other
            fitted = first.learners[chosen.learner].whole(chosen.way, chosen.epoch)
        if chosen.shift is not None:
            fitted = replace(fitted, shift=chosen.shift.tolist())
        then, before = judgements[found.index(chosen)], judgements[found.index(plain)]
        if gone_wrong(fitted, fitted_plain, whole, then, before):
            notes.append(f"{chosen.title} was chosen, and its training on all rows came out close to constant.")
            chosen, fitted = plain, fitted_plain
    if place is None and (near := closest(found, judgements, plain)):
        notes.append(near)
    took = time.monotonic() - clock.start
    return Search(
        whole, rows, asked.wish, plain, found, judgements, chosen, fitted, fitted_plain, tuple(notes), took
    )  # fmt: skip


def closest(found: Sequence[Candidate], judgements: Sequence[Judgement], plain: Candidate) -> str:
    """Say what came closest to beating plain training, and what it lacked; nothing where no gap was smaller."""
    before = judgements[found.index(plain)].score
    near = [(c, j) for c, j in zip(found, judgements, strict=True) if j.change[0] < 0 and not j.constant]
    if not near:
        return ""
    one, best = min(near, key=lambda pair: (not pair[1].within, pair[1].score.gap))
    moved = f"gap {100 * before.gap:.1f} → {100 * best.score.gap:.1f} points, accuracy {_signed(best, before)}"
    if not best.within:
        return f"Closest on the judged rows: {one.title}, {moved}, which costs more than the budget."
    low, high = (100 * bound for bound in best.change[1:])
    why = "which chance may explain" if high >= 0 else "which keeps no bound"
    return f"Closest on the judged rows: {one.title}, {moved} ({SURE:.0%} interval {low:+.1f} to {high:+.1f}), {why}."


def _signed(one: Judgement, before: Score) -> str:
    return f"{100 * (one.score.accuracy - before.accuracy):+.2f}"


def gone_wrong(fitted: Fitted, plain: Fitted, whole: Dataset, then: Judgement, before: Judgement) -> bool:
    """True if a training on all rows is closer to constant, beside plain training's, than it was when judged."""
    train = whole.train
    assert isinstance(train, Batch)
    rows = Rows(train.labels.numpy(), None, len(whole.label_names))
    fall = 100 * max(0.0, before.score.balanced - then.score.balanced)
    scores = [
        Score.of(rows, predicted(shifted(logits(one.model, train), train.groups, one.shift)).cpu().numpy(), ANY)
        for one in (plain, fitted)
    ]
    return near_constant(scores[1], scores[0], 2.0 + fall)


def deliver(
    spec: Spec, asked: Asked, dataset: Dataset, out: Path, *, device: str = "cpu", tell: Tell | None = None
) -> tuple[Result, Result | None, Verdict]:
    """Search, and write what was chosen: the run, plain training where that is another model, and the verdict."""
    found = search(dataset, asked, seed=spec.seed, device=device, tell=tell)
    folder = RunFolder(out)
    folder.make()
    about = {**provenance(device), "asked": spec.to_dict(), "fingerprint": spec.fingerprint}
    verdict = verdict_of(found, dataset)
    plain = None
    if not found.kept_plain:
        beside = RunFolder(out / PLAIN)
        beside.make()
        ours = chosen_spec(spec, found, found.plain, found.fitted_plain)
        own = {**provenance(device), "fingerprint": ours.fingerprint}
        plain = _written(beside, ours, found, found.fitted_plain, own, {}, dataset)
    final = chosen_spec(spec, found, found.chosen, found.fitted)
    more = {**verdict.to_dict(), "judged": found.to_dict()}
    return _written(folder, final, found, found.fitted, about, more, dataset), plain, verdict


def verdict_of(found: Search, dataset: Dataset) -> Verdict:
    """What the chosen model changes on test rows."""
    test, meaning, allowed = dataset.test, dataset.preprocessing.meaning, found.wish.allowed
    fitted = {"before": found.fitted_plain, "after": found.fitted}
    said = {when: shifted(logits(one.model, test), test.groups, one.shift).cpu() for when, one in fitted.items()}
    before, after = (by_group(meaning, test.labels, predicted(one), test.groups) for one in said.values())
    return Verdict(
        found.wish.criterion,
        before,
        after,
        found.chosen.title,
        found.plain.title,
        found.fitted.epoch,
        found.kept_plain,
        allowed if np.isfinite(allowed) else max(BUDGET, 100.0),
        found.notes,
        {when: calibration_of(meaning, one, test.labels, test.groups) for when, one in said.items()},
    )


def chosen_spec(spec: Spec, found: Search, one: Candidate, fitted: Fitted) -> Spec:
    """The Spec of a training on all rows with what was chosen."""
    way = one.way
    options = dict(way.options)
    if way.cells is not None:
        options = {"online": False, "multipliers": multipliers(way.cells, by_label=found.rows.by_label)}
    return spec.with_(
        method=way.method,
        method_options=options,
        network=dict(fitted.network),
        epochs=fitted.epoch,
        early_stopping={},
        judge={} if fitted.shift is None else {"shift": [list(row) for row in fitted.shift]},
        data=_all_rows(spec.data, found.dataset),
    )


def multipliers(cells: Any, *, by_label: bool) -> list[list[float]]:
    """Label-bias's λ, by label and group, for weights σ(2 λ) in these proportions."""
    table = cells.T if by_label else np.concatenate([cells.mean(axis=0, keepdims=True), cells]).T  # [K, G + 1]
    share = table / (2 * table.max())
    found: list[list[float]] = (0.5 * np.log(share / (1 - share))).tolist()
    return found


def _all_rows(data: Any, whole: Dataset) -> dict[str, Any]:
    """Options of the data that put every row that is not for test into train, where they were drawn from it."""
    found = dict(data)
    if whole.validation is None and isinstance((data.get("split") or {}).get("validation", 0.1), float):
        found["split"] = {**(data.get("split") or {}), "validation": 0.0}
    exemplar = dict(data.get("exemplar") or {})
    if exemplar.get("source", "train") == "train":
        found["exemplar"] = {**exemplar, "inside": True}
    return found


def _held_out(found: Search, fitted: Fitted) -> dict[str, Tensor]:
    """Loss and margin of each row by a model that was not trained on it, where training kept no history of its own."""
    if bool((fitted.dynamics.table()["visits"] > 0).any()):
        return {}
    one = found.plain if fitted is found.fitted_plain else found.chosen
    chances = torch.from_numpy(np.clip(one.chances, 1e-7, 1.0)).log()  # [N, K]
    labels = found.dataset.train.labels
    loss = -chances.gather(1, labels[:, None]).squeeze(1)
    best_other = chances.scatter(1, labels[:, None], -torch.inf).amax(dim=1)
    margin = torch.where(loss.isnan(), loss, -loss - best_other)
    return {"ema_loss": loss, "ema_weighted_loss": loss * fitted.weights, "margin": margin, "mean_margin": margin}


def _table(fitted: Fitted, dataset: Dataset) -> GroupTable:
    said = predicted(shifted(logits(fitted.model, dataset.test), dataset.test.groups, fitted.shift)).cpu()
    return by_group(dataset.preprocessing.meaning, dataset.test.labels, said, dataset.test.groups)


def _written(
    folder: RunFolder,
    spec: Spec,
    found: Search,
    fitted: Fitted,
    about: dict[str, Any],
    more: dict[str, Any],
    dataset: Dataset,
) -> Result:
    whole = found.dataset
    for name in (MANIFEST, METRICS):
        (folder.path / name).unlink(missing_ok=True)
    data = {**dataset.spec, "fingerprint": dataset.fingerprint, "notes": list(dataset.notes)}
    folder.write(RUN, {"spec": spec.to_dict(), "data": data, **about, "manifest": MANIFEST_VERSION})
    folder.write(PREPROCESSING, dataset.preprocessing.to_dict())
    folder.write_model(fitted.model)
    parts = {"test": dataset.test, "exemplar": dataset.exemplar, "validation": dataset.validation}
    found_logits = {n: (part, logits(fitted.model, part)) for n, part in parts.items() if part is not None}
    kept = {n: (part, shifted(out, part.groups, fitted.shift)) for n, (part, out) in found_logits.items()}
    folder.write_logits({**kept, **held_out_parts(whole, data)})
    said = {**final_predictions(fitted.model, whole.train, fitted.shift), **_held_out(found, fitted)}
    folder.write_weights(whole, fitted.reweighter, fitted.dynamics, said)
    folder.write_predictions(dataset, final_predictions(fitted.model, dataset.test, fitted.shift))
    seconds = found.seconds if more else 0.0
    record = RunRecord(fitted.epoch, 0, "finished", fitted.epoch, seconds=seconds)
    metrics = {**_table(fitted, dataset).to_dict(), "run": record.to_dict(), **more}
    if fitted.reweighter.scores is not None:
        metrics["scores"] = score_numbers(torch.as_tensor(fitted.reweighter.scores), whole)
    folder.write(METRICS, metrics)
    folder.seal()
    return Result(spec, folder, folder.read(METRICS), reused=False)
