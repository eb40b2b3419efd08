"""Choose among the candidates, train the chosen one on all rows, look at it again, and write it into a run folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fairweight.apps.candidates import Candidate, CandidateMaker, Tell, reference, together
from fairweight.apps.judge import (
    NOTHING,
    SURE,
    Floats,
    Goal,
    Ints,
    Judgement,
    Rows,
    Score,
    TrainRequest,
    counted,
    judged_together,
    near_constant,
)
from fairweight.data import Dataset
from fairweight.errors import BadInput, option
from fairweight.metagradient.passes import predicted
from fairweight.metrics.criterion import FEWEST, criterion
from fairweight.runs.clock import Clock
from fairweight.runs.cross_fit import all_rows, folds_for, without_zero_weights
from fairweight.runs.folder import METRICS, PREPROCESSING, RunFolder
from fairweight.runs.held_out import noise_of
from fairweight.runs.learners import LEARNERS, WIDEST, Fitted, Learner, usable
from fairweight.runs.manifest import FILE as MANIFEST
from fairweight.runs.provenance import provenance
from fairweight.runs.run import Result, finish, write_results
from fairweight.runs.run_place import BASELINE
from fairweight.runs.shift import shifted
from fairweight.runs.spec import Spec
from fairweight.training.predict import logits
from fairweight.training.run_record import RunRecord
from fairweight.types import Batch

if TYPE_CHECKING:
    from fairweight.apps.train import Prepared

ONLY_PLAIN = "Nothing but plain training was tried"
ANY = criterion("recall-parity")  # where the gap is not asked for


@dataclass(frozen=True)
class Search:
    """All candidates with their judgements, the one that was chosen, and its training on all rows."""

    dataset: Dataset  # with every row that is not for test in train
    rows: Rows
    goal: Goal
    plain: Candidate
    candidates: Sequence[Candidate]
    judgements: Sequence[Judgement]
    chosen: Candidate
    fitted: Fitted
    fitted_plain: Fitted
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    why: str = NOTHING  # plain training was kept

    @property
    def kept_plain(self) -> bool:
        """True if nothing beats plain training."""
        return self.chosen is self.plain

    def to_dict(self) -> dict[str, Any]:
        """Plain values: every candidate with what it was judged by."""
        candidates = [
            {"name": c.name, "learner": c.learner, "epoch": c.epoch, "seconds": round(c.seconds, 2), **j.to_dict()}
            for c, j in zip(self.candidates, self.judgements, strict=True)
        ]
        about = {"reference": self.plain.title, "chosen": self.chosen.title, "rows": len(self.rows.labels)}
        about |= {"why": self.why} if self.kept_plain else {}
        return {**about, "candidates": candidates, "notes": list(self.notes), "seconds": round(self.seconds, 2)}


def search(
    dataset: Dataset, request: TrainRequest, goal: Goal, *, seed: int = 0, device: str = "cpu",
    tell: Tell | None = None, weights: Tensor | None = None,
) -> Search:  # fmt: skip
    """Train and judge the candidates, choose one, train it on all rows and look at it again.

    weights: what each row of the source counts in training, times what a candidate gives it. Rows of weight 0 are left
    out; judging counts the others alike.
    """
    clock, data = Clock(request.seconds), all_rows(dataset)
    data = data if weights is None else without_zero_weights(data, weights)
    names = [name for name in LEARNERS if request.learner in (None, name) and usable(name, data)]
    if not names:
        takes = f"two labels and at most {WIDEST} inputs" if request.learner == "linear" else "tables"
        raise BadInput(f"{option('learner', request.learner)} takes only {takes}; choose trees or mlp.")
    labels, notes = mended_labels(data, seed)
    row_weights = None if weights is None else weights[data.rows["train"]]
    assert isinstance(data.train, Batch)
    makers: list[CandidateMaker] = []
    for k in range(seed, seed + request.seeds):
        learners = {name: Learner(name, data, k, device, request.training, row_weights) for name in names}
        maker = CandidateMaker(data, folds_for(data.train, k), learners, request, goal, clock, tell, labels)
        maker.run()
        if not makers or not maker.notes:  # a further seed counts if it came to its end
            makers.append(maker)
        if maker.notes:
            break
    first = makers[0]
    notes += [*first.left_out, *maker.notes]
    candidates = together([maker.candidates for maker in makers])
    judged = np.logical_or.reduce([maker.folds.judged for maker in makers])
    rows = first.rows.at(judged)
    plain = reference([c for c in candidates if c.name == "plain"], judged, first.rows.labels, goal)
    notes += too_few(rows, plain.votes(judged), goal, data)
    votes = [c.votes(judged) for c in candidates]
    judgements, place, why = judged_together(rows, plain.votes(judged), votes, goal, seed)
    chosen = plain if place is None else candidates[place]
    fitted_plain = first.learners[plain.learner].whole(plain.way, plain.epoch)
    fitted = fitted_plain
    if chosen.way is not plain.way:  # a second stage of plain training needs no other
        fitted = first.learners[chosen.learner].whole(chosen.way, chosen.epoch)
    if chosen.shift is not None:
        fitted = replace(fitted, shift=chosen.shift.tolist())
    if why == NOTHING and all(c.name == "plain" for c in candidates):
        why = ONLY_PLAIN
    if place is None:
        before = judgements[candidates.index(plain)].score
        note = closest(candidates, judgements, before, goal) if why == NOTHING else ""
    else:
        note = short_of_bound(candidates, judgements, judgements[place].score, goal)
        if gone_wrong(fitted, data, judgements[place].score, labels):
            why = f"{chosen.title} won on the rows that models were judged on, but lost much in its last training"
            chosen, fitted, note = plain, fitted_plain, ""
    notes += [note] if note else []
    took = clock.now() - clock.start
    return Search(
        data, rows, goal, plain, candidates, judgements, chosen, fitted, fitted_plain, tuple(notes), took, why
    )


def closest(candidates: Sequence[Candidate], judgements: Sequence[Judgement], before: Score, goal: Goal) -> str:
    """Say what came closest to beating plain training, and what it lacked; nothing where no gap was smaller."""
    pairs = zip(candidates, judgements, strict=True)
    close = [(c, j) for c, j in pairs if j.change[0] < 0 and not j.constant]
    if not close:
        return ""
    candidate, judgement = min(close, key=lambda pair: (not pair[1].within, pair[1].score.gap))
    noun = goal.criterion.noun
    why = "that costs more accuracy than may be given up"
    if judgement.within:
        low, high = (100 * bound for bound in judgement.change[1:])
        why = (
            f"chance may explain the smaller {noun} ({100 * SURE:g} % interval of its change {low:+.1f} to {high:+.1f})"
        )
    moved = f"{100 * before.gap:.1f} → {100 * judgement.score.gap:.1f}"
    cost = f"{100 * (judgement.score.accuracy - before.accuracy):+.2f}"
    return (
        f"Closest to beating it: {candidate.title}, {noun} {moved} points, accuracy {cost} points on those rows; {why}."
    )


def too_few(rows: Rows, plain: Ints | Floats, goal: Goal, data: Dataset) -> list[str]:
    """Say whose rates are measured on too few rows to choose by, if any."""
    names = data.label_names if rows.by_label else data.group_names
    few = [] if goal.criterion.views else goal.criterion.few(counted(rows, plain), by_label=rows.by_label)
    named = ", ".join(repr(names[row]) for row in few[:5]) + (f" and {len(few) - 5} more" if len(few) > 5 else "")
    have = "has a rate" if len(few) == 1 else "have rates"
    which = ("Label" if rows.by_label else "Group") + "s" * (len(few) > 1)
    return [f"{which} {named} {have} on fewer than {FEWEST} rows, which took no part in the choice."] if few else []


def short_of_bound(candidates: Sequence[Candidate], judgements: Sequence[Judgement], chosen: Score, goal: Goal) -> str:
    """Say that a bound is not kept where models were judged, and what would keep it and was refused."""
    if goal.bound is None or 100 * chosen.gap <= goal.bound:
        return ""
    pairs = zip(candidates, judgements, strict=True)
    keeps = [c.title for c, j in pairs if j.constant and 100 * j.score.gap <= goal.bound]
    refused = f" {keeps[0]} does, and is refused: it predicts almost the same for everybody." if keeps else ""
    return (
        f"The bound of {goal.bound:g} points is not kept on the rows that models were judged on: there the "
        f"{goal.criterion.noun} is {100 * chosen.gap:.1f} points, the smallest that was found.{refused}"
    )


def mended_labels(data: Dataset, seed: int) -> tuple[Ints | None, list[str]]:
    """Labels to judge models by where trusted exemplars show that some of train are wrong, and a note; or nothing.

    A gap on wrong labels is another than on true ones: closing it opens the true one.
    """
    noise = noise_of(data)
    if noise is None or noise.count().low <= 0:
        return None, []
    wrong = noise.count()
    estimate = f"about {wrong.value:,.0f} of {wrong.n:,} training labels are wrong, 95 % interval {wrong.low:,.0f} to"
    note = (
        f"Beside the trusted exemplars {estimate} {wrong.high:,.0f}. Models were judged by labels drawn from the "
        "chance of each; `fairweight suspects` ranks them, `fairweight clean` mends. Test labels are as given: where "
        "they come from the same source, gap and accuracy on test rows are measured by wrong labels too."
    )
    return noise.likely_labels(seed), [note]


def gone_wrong(fitted: Fitted, data: Dataset, when_judged: Score, labels: Ints | None = None) -> bool:
    """True if a model trained on all rows is closer to constant than the same, judged on rows it had not seen.

    On rows that it has seen a sound training is more often right than on others, whatever trains it.
    """
    rows = Rows(data.train.labels.numpy() if labels is None else labels, None, len(data.label_names))
    outputs = shifted(logits(fitted.model, data.train), data.train.groups, fitted.shift)
    return near_constant(Score.of(rows, predicted(outputs).cpu().numpy(), ANY), when_judged)


def deliver(
    prepared: Prepared, request: TrainRequest, out: Path, *, device: str = "cpu", tell: Tell | None = None
) -> tuple[Result, Result | None, dict[str, Any]]:
    """Search, and write what was chosen: the run but for its numbers, plain training if that is another, the search."""
    spec = prepared.spec
    searched = search(prepared.dataset, request, prepared.goal, seed=spec.seed, device=device, tell=tell)
    about, plain = provenance(device), None
    if not searched.kept_plain:
        place = RunFolder(out / BASELINE)
        plain = _write_run(place, prepared, searched, searched.plain, searched.fitted_plain, about)
        plain = finish(plain, plain.metrics)
    about |= {"asked": spec.to_dict(), "fingerprint": spec.fingerprint}
    result = _write_run(RunFolder(out), prepared, searched, searched.chosen, searched.fitted, about, searched.seconds)
    return result, plain, searched.to_dict()


def chosen_spec(spec: Spec, searched: Search, candidate: Candidate, fitted: Fitted) -> Spec:
    """The Spec of a training on all rows with what was chosen."""
    options = dict(candidate.way.options)
    if candidate.way.cells is not None:
        options = {"online": False, "multipliers": multipliers(candidate.way.cells, by_label=searched.rows.by_label)}
    data_options, data = dict(spec.data), searched.dataset
    if not data_options.get("corruptions"):  # which would be others, drawn anew among more rows
        if data.exemplar is data.train:
            data_options["exemplar"] = {**(data_options.get("exemplar") or {}), "inside": True}
            data_options["exemplar"] |= {"source": "train"} if "source" in data_options["exemplar"] else {}
        if data.validation is None and "validation" in data.rows:  # drawn, or named by a column
            data_options["split"] = {**(data_options.get("split") or {}), "validation": 0.0}
    return spec.with_(
        method=candidate.way.method,
        method_options=options,
        network=dict(fitted.network),
        epochs=spec.epochs
        if candidate.learner == "linear"
        else fitted.epoch,  # it was solved for, which no epoch tells
        early_stopping={},
        judge={} if fitted.shift is None else {"shift": [list(row) for row in fitted.shift]},
        data=data_options,
    )


def multipliers(cells: Any, *, by_label: bool) -> list[list[float]]:
    """Label-bias's λ, by label and group, for weights σ(2 λ) in these proportions."""
    table = cells.T if by_label else np.concatenate([cells.mean(axis=0, keepdims=True), cells]).T  # [K, G + 1]
    share = table / (2 * table.max())
    lambdas: list[list[float]] = (0.5 * np.log(share / (1 - share))).tolist()
    return lambdas


def _held_out(candidate: Candidate, fitted: Fitted, labels: Tensor) -> dict[str, Tensor]:
    """Loss and margin of each training row by a model that was not trained on it."""
    chances = torch.from_numpy(np.clip(candidate.chances, 1e-7, 1.0)).log()  # [N, K]
    loss = -chances.gather(1, labels[:, None]).squeeze(1)
    margin = torch.where(loss.isnan(), loss, -loss - chances.scatter(1, labels[:, None], -torch.inf).amax(dim=1))
    return {"ema_loss": loss, "ema_weighted_loss": loss * fitted.weights, "margin": margin, "mean_margin": margin}


def _write_run(
    folder: RunFolder, prepared: Prepared, searched: Search, candidate: Candidate, fitted: Fitted,
    about: Mapping[str, Any], seconds: float = 0.0,
) -> Result:  # fmt: skip
    """Write all files of a run but its numbers, which the result holds."""
    folder.make()
    folder.drop(MANIFEST, METRICS)
    spec, dataset = chosen_spec(prepared.spec, searched, candidate, fitted), prepared.dataset
    folder.write_run(spec, dataset, about)
    folder.write(PREPROCESSING, dataset.preprocessing.to_dict())
    metrics = write_results(
        folder,
        dataset,
        fitted.model,
        fitted.reweighter,
        fitted.dynamics,
        RunRecord(fitted.epoch, 0, "finished", fitted.epoch, seconds=seconds),
        trained=searched.dataset,
        shift=fitted.shift,
        held_out=_held_out(candidate, fitted, searched.dataset.train.labels),
    )
    return Result(spec, folder, metrics, reused=False)
