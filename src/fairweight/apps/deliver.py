"""Choose among the candidates, train the chosen one on all rows, look at it again, and write it into a run folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fairweight.apps.candidates import Candidate, Candidates, Tell, reference, together
from fairweight.apps.judge import (
    NOTHING,
    SURE,
    Floats,
    Ints,
    Judgement,
    Rows,
    Score,
    Wanted,
    Wish,
    counted,
    judged_together,
    near_constant,
)
from fairweight.data import Dataset
from fairweight.errors import BadInput, option
from fairweight.metagradient.passes import predicted
from fairweight.metrics.criterion import FEWEST, criterion
from fairweight.runs.clock import Clock
from fairweight.runs.cross_fit import all_rows, folds_for, without_weightless
from fairweight.runs.folder import METRICS, PREPROCESSING, RunFolder
from fairweight.runs.held_out import noise_of
from fairweight.runs.learners import LEARNERS, WIDEST, Fitted, Learner, usable
from fairweight.runs.manifest import FILE as MANIFEST
from fairweight.runs.provenance import provenance
from fairweight.runs.run import Result, ended, write_results
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
    wish: Wish
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
        found = [
            {"name": c.name, "learner": c.learner, "epoch": c.epoch, "seconds": round(c.seconds, 2), **j.to_dict()}
            for c, j in zip(self.candidates, self.judgements, strict=True)
        ]
        about = {"reference": self.plain.title, "chosen": self.chosen.title, "rows": len(self.rows.labels)}
        about |= {"why": self.why} if self.kept_plain else {}
        return {**about, "candidates": found, "notes": list(self.notes), "seconds": round(self.seconds, 2)}


def search(
    dataset: Dataset, asked: Wanted, wish: Wish, *, seed: int = 0, device: str = "cpu", tell: Tell | None = None,
    weights: Tensor | None = None,
) -> Search:  # fmt: skip
    """Train and judge the candidates, choose one, train it on all rows and look at it again.

    weights: what each row of the source counts in training, times what a candidate gives it. Rows of weight 0 are left
    out; judging counts the others alike.
    """
    clock, whole = Clock(asked.seconds), all_rows(dataset)
    whole = whole if weights is None else without_weightless(whole, weights)
    names = [name for name in LEARNERS if asked.learner in (None, name) and usable(name, whole)]
    if not names:
        takes = f"two labels and at most {WIDEST} inputs" if asked.learner == "linear" else "tables"
        raise BadInput(f"{option('learner', asked.learner)} takes only {takes}; choose trees or mlp.")
    assert isinstance(whole.train, Batch)
    runs: list[Candidates] = []
    labels, notes = mended_labels(whole, seed)
    own = None if weights is None else weights[whole.rows["train"]]
    for turn in range(seed, seed + asked.seeds):
        learners = {name: Learner(name, whole, turn, device, asked.training, own) for name in names}
        made = Candidates(whole, folds_for(whole.train, turn), learners, asked, wish, clock, tell, labels)
        wish.criterion.check(groups=not made.rows.by_label)
        made.run()
        if not runs or not made.notes:  # a further seed that came to its end
            runs.append(made)
        if made.notes:
            break
    notes += [*runs[0].left_out, *made.notes]
    first = runs[0]
    found = together([made.found for made in runs])
    there = np.logical_or.reduce([made.folds.judged for made in runs])
    rows = first.rows.at(there)
    plain = reference([one for one in found if one.name == "plain"], there, first.rows.labels, wish)
    notes += too_few(rows, plain.said(there), wish, whole)
    judgements, place, why = judged_together(rows, plain.said(there), [one.said(there) for one in found], wish, seed)
    chosen = plain if place is None else found[place]
    fitted = fitted_plain = first.learners[plain.learner].whole(plain.way, plain.epoch)
    if why == NOTHING and all(one.name == "plain" for one in found):
        why = ONLY_PLAIN
    if place is None:
        told = closest(found, judgements, judgements[found.index(plain)].score, wish) if why == NOTHING else ""
    else:
        told = short_of_bound(found, judgements, judgements[place].score, wish)
        if chosen.way is not plain.way:  # a second stage of plain training needs no other
            fitted = first.learners[chosen.learner].whole(chosen.way, chosen.epoch)
        if chosen.shift is not None:
            fitted = replace(fitted, shift=chosen.shift.tolist())
        if gone_wrong(fitted, whole, judgements[place].score, labels):
            why = f"{chosen.title} won on the rows that models were judged on, but lost much in its last training"
            chosen, fitted, told = plain, fitted_plain, ""
    notes += [told] if told else []
    took = clock.now() - clock.start
    return Search(whole, rows, wish, plain, found, judgements, chosen, fitted, fitted_plain, tuple(notes), took, why)


def closest(found: Sequence[Candidate], judgements: Sequence[Judgement], before: Score, wish: Wish) -> str:
    """Say what came closest to beating plain training, and what it lacked; nothing where no gap was smaller."""
    near = [(c, j) for c, j in zip(found, judgements, strict=True) if j.change[0] < 0 and not j.constant]
    if not near:
        return ""
    one, best = min(near, key=lambda pair: (not pair[1].within, pair[1].score.gap))
    noun = wish.criterion.noun
    why = "that costs more accuracy than may be given up"
    if best.within:
        low, high = (100 * bound for bound in best.change[1:])
        why = (
            f"chance may explain the smaller {noun} ({100 * SURE:g} % interval of its change {low:+.1f} to {high:+.1f})"
        )
    moved = f"{100 * before.gap:.1f} → {100 * best.score.gap:.1f}"
    cost = f"{100 * (best.score.accuracy - before.accuracy):+.2f}"
    return f"Closest to beating it: {one.title}, {noun} {moved} points, accuracy {cost} points on those rows; {why}."


def too_few(rows: Rows, plain: Ints | Floats, wish: Wish, whole: Dataset) -> list[str]:
    """Say whose rates are measured on too few rows to choose by, if any."""
    names = whole.label_names if rows.by_label else whole.group_names
    few = [] if wish.criterion.views else wish.criterion.few(counted(rows, plain), by_label=rows.by_label)
    said = ", ".join(repr(names[row]) for row in few[:5]) + (f" and {len(few) - 5} more" if len(few) > 5 else "")
    have = "has a rate" if len(few) == 1 else "have rates"
    which = ("Label" if rows.by_label else "Group") + "s" * (len(few) > 1)
    return [f"{which} {said} {have} on fewer than {FEWEST} rows, which took no part in the choice."] if few else []


def short_of_bound(found: Sequence[Candidate], judgements: Sequence[Judgement], chosen: Score, wish: Wish) -> str:
    """Say that a bound is not kept where models were judged, and what would keep it and was refused."""
    if wish.bound is None or 100 * chosen.gap <= wish.bound:
        return ""
    keep = [c.title for c, j in zip(found, judgements, strict=True) if j.constant and 100 * j.score.gap <= wish.bound]
    refused = f" {keep[0]} does, and is refused: it is close to constant." if keep else ""
    return (
        f"The bound of {wish.bound:g} points is not kept on the rows that models were judged on: there the "
        f"{wish.criterion.noun} is {100 * chosen.gap:.1f} points, the smallest that was found.{refused}"
    )


def mended_labels(whole: Dataset, seed: int) -> tuple[Ints | None, list[str]]:
    """Labels to judge models by where trusted exemplars show that some of train are wrong, and a note; or nothing.

    A gap on wrong labels is another than on true ones: closing it opens the true one.
    """
    noise = noise_of(whole)
    if noise is None or noise.count().low <= 0:
        return None, []
    wrong = noise.count()
    said = f"about {wrong.value:,.0f} of {wrong.n:,} training labels are wrong, 95 % interval {wrong.low:,.0f} to"
    note = f"Beside the trusted exemplars {said} {wrong.high:,.0f}. Models were judged by labels drawn from the chance"
    note += " of each; `fairweight suspects` ranks them, `fairweight clean` mends. Test labels are as given: "
    tested = "where they come from the same source, gap and accuracy on test rows are measured by wrong labels too."
    return noise.likely_labels(seed), [note + tested]


def gone_wrong(fitted: Fitted, whole: Dataset, then: Score, labels: Ints | None = None) -> bool:
    """True if a model trained on all rows is closer to constant than the same, judged on rows it had not seen.

    On rows that it has seen a sound training is more often right than on others, whatever trains it.
    """
    rows = Rows(whole.train.labels.numpy() if labels is None else labels, None, len(whole.label_names))
    said = shifted(logits(fitted.model, whole.train), whole.train.groups, fitted.shift)
    return near_constant(Score.of(rows, predicted(said).cpu().numpy(), ANY), then)


def deliver(
    prepared: Prepared, asked: Wanted, out: Path, *, device: str = "cpu", tell: Tell | None = None
) -> tuple[Result, Result | None, dict[str, Any]]:
    """Search, and write what was chosen: the run but for its numbers, plain training if that is another, the search."""
    spec = prepared.spec
    found = search(prepared.dataset, asked, prepared.wish, seed=spec.seed, device=device, tell=tell)
    about, plain = provenance(device), None
    if not found.kept_plain:
        plain = _written(RunFolder(out / BASELINE), prepared, found, found.plain, found.fitted_plain, about)
        plain = ended(plain.spec, plain.folder, plain.metrics)
    about |= {"asked": spec.to_dict(), "fingerprint": spec.fingerprint}
    done = _written(RunFolder(out), prepared, found, found.chosen, found.fitted, about, found.seconds)
    return done, plain, found.to_dict()


def chosen_spec(spec: Spec, found: Search, one: Candidate, fitted: Fitted) -> Spec:
    """The Spec of a training on all rows with what was chosen."""
    options = dict(one.way.options)
    if one.way.cells is not None:
        options = {"online": False, "multipliers": multipliers(one.way.cells, by_label=found.rows.by_label)}
    data, whole = dict(spec.data), found.dataset
    if not data.get("corruptions"):  # which would be others, drawn anew among more rows
        if whole.exemplar is whole.train:
            data["exemplar"] = {**(data.get("exemplar") or {}), "inside": True}
            data["exemplar"] |= {"source": "train"} if "source" in data["exemplar"] else {}
        if whole.validation is None and "validation" in whole.rows:  # drawn, or named by a column
            data["split"] = {**(data.get("split") or {}), "validation": 0.0}
    return spec.with_(
        method=one.way.method,
        method_options=options,
        network=dict(fitted.network),
        epochs=spec.epochs if one.learner == "linear" else fitted.epoch,  # it was solved for, which no epoch tells
        early_stopping={},
        judge={} if fitted.shift is None else {"shift": [list(row) for row in fitted.shift]},
        data=data,
    )


def multipliers(cells: Any, *, by_label: bool) -> list[list[float]]:
    """Label-bias's λ, by label and group, for weights σ(2 λ) in these proportions."""
    table = cells.T if by_label else np.concatenate([cells.mean(axis=0, keepdims=True), cells]).T  # [K, G + 1]
    share = table / (2 * table.max())
    found: list[list[float]] = (0.5 * np.log(share / (1 - share))).tolist()
    return found


def _held_out(one: Candidate, fitted: Fitted, labels: Tensor) -> dict[str, Tensor]:
    """Loss and margin of each training row by a model that was not trained on it."""
    chances = torch.from_numpy(np.clip(one.chances, 1e-7, 1.0)).log()  # [N, K]
    loss = -chances.gather(1, labels[:, None]).squeeze(1)
    margin = torch.where(loss.isnan(), loss, -loss - chances.scatter(1, labels[:, None], -torch.inf).amax(dim=1))
    return {"ema_loss": loss, "ema_weighted_loss": loss * fitted.weights, "margin": margin, "mean_margin": margin}


def _written(
    folder: RunFolder, prepared: Prepared, found: Search, one: Candidate, fitted: Fitted, about: Mapping[str, Any],
    seconds: float = 0.0,
) -> Result:  # fmt: skip
    """Write all files of a run but its numbers, which the result holds."""
    folder.make()
    folder.drop(MANIFEST, METRICS)
    spec, dataset = chosen_spec(prepared.spec, found, one, fitted), prepared.dataset
    folder.write_run(spec, dataset, about)
    folder.write(PREPROCESSING, dataset.preprocessing.to_dict())
    metrics = write_results(
        folder,
        dataset,
        fitted.model,
        fitted.reweighter,
        fitted.dynamics,
        RunRecord(fitted.epoch, 0, "finished", fitted.epoch, seconds=seconds),
        trained=found.dataset,
        shift=fitted.shift,
        held_out=_held_out(one, fitted, found.dataset.train.labels),
    )
    return Result(spec, folder, metrics, reused=False)
