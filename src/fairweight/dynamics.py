"""What happened to each training sample: loss, weight, forgetting, margin, and the paths of its score and weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairweight.errors import BadInput, ScoresMismatch
from fairweight.types import StepRecord

PATH_NUMBERS = 2_000_000  # at most this many numbers are kept of score paths, and as many of weight paths
PENDING_SAMPLES = 65_536  # visits that are gathered before they are taken in, all at once
_LARGEST_HALF = 65_000.0

# What is kept of each sample: averages over visits, then sums over visits, then what was last.
_AVERAGES = (
    "gathered",  # weight that the averages have gathered
    "loss",
    "weighted_loss",  # of p_i B l_i
    "weight",  # of p_i B
    "push",  # of how much more weight the objective asked for than for the rest of the batch, in units of the batch
)
_SUMS = (
    "margin_sum",
    "visits",
    "judged",  # visits at which it was known whether the prediction was right
    "learned",  # visits at which it was
    "forgotten",  # visits at which it was not, after one at which it was
    "pushed_up",  # visits at which the objective asked for more weight
)
_LAST = (
    "margin",  # at the last visit
    "right",  # whether the prediction was right when that was last known
    "epoch_loss",  # at the last visit of this epoch, NaN before it
    "epoch_weighted_loss",
    "epoch_weight",
)
_COLUMNS = (*_AVERAGES, *_SUMS, *_LAST)
_AT = {name: place for place, name in enumerate(_COLUMNS)}
_THIS_EPOCH = slice(_AT["epoch_loss"], _AT["epoch_weight"] + 1)


class _Visit(NamedTuple):
    """What one step saw of its rows."""

    rows: Tensor  # [B]
    losses: Tensor  # [B]
    weights: Tensor  # [B] sum to 1
    push: Tensor | None  # [B]
    correct: Tensor | None  # [B]
    margin: Tensor | None  # [B]

    def copied(self) -> _Visit:
        """The same in memory of its own."""
        copies: list[Any] = [None if part is None else part.clone() for part in self]
        return _Visit(*copies)


class Dynamics:
    """Per-sample history on the device, for every method.

    A step only notes what it saw; visits are written down by the thousand and added to the history once an epoch, so
    that the cost is a small part of even a small network's step. A row drawn twice in one batch counts as one visit.
    decay: of the averages over visits, each divided by the weight that it has gathered, so that a sample seen once
    is not counted as almost 0.
    """

    def __init__(self, num_samples: int, device: torch.device | str = "cpu", *, decay: float = 0.9) -> None:
        if not 0 <= decay < 1:
            raise BadInput(f"decay={decay}: give one from 0 (the last visit alone) to below 1.")
        self.num_samples, self.decay = num_samples, decay
        self.device = torch.device(device)
        self._history = torch.zeros(len(_COLUMNS), num_samples, device=self.device)  # [C, N]
        self._history[_AT["margin"]] = torch.nan
        self._history[_THIS_EPOCH] = torch.nan
        # Averages over epochs: gathered weight, l / mean, p B l / mean, P N l with P the weight over the whole set.
        self._epochs = torch.zeros(4, num_samples, device=self.device)  # [4, N]
        # Visits that are not in the history yet, each row once: loss, weight, push, right, margin.
        self._noted = torch.zeros(num_samples, 5, device=self.device)  # [N, 5]
        self._seen = torch.zeros(num_samples, dtype=torch.bool, device=self.device)  # [N] whether a row is noted
        self._count = 0  # rows that are noted
        self._pending: list[_Visit] = []
        self._waiting = 0
        self.score_path: list[Tensor] = []  # one [P] per epoch
        self.weight_path: list[Tensor] = []  # one [P] per epoch, or [1] where all weights are alike
        self._path_rows: Tensor | None = None

    def on_step(self, rows: Tensor, record: StepRecord) -> None:
        """Take in one visit of these rows."""
        visit = _Visit(rows, record.losses, record.weights, _push(record), record.correct, record.margin)
        # A replayed step overwrites its record; only a GPU replays.
        self._pending.append(visit if self.device.type == "cpu" else visit.copied())
        self._waiting += rows.numel()
        if self._waiting >= PENDING_SAMPLES:
            self._write_down()

    def on_epoch(self, scores: Tensor | None, epochs: int, weights: Tensor | None = None) -> None:
        """Note where scores and weights stand; epochs: how many there will be, to keep all paths within bounds.

        weights: over the whole set, mean 1; None: what each sample was last given in a batch.
        """
        self._take_in()
        losses, weighted, given = self._history[_THIS_EPOCH]  # [N] each, NaN where not seen
        over_set = given if weights is None else weights.to(losses)
        seen = ~losses.isnan()
        if bool(seen.all()):
            _average(self._epochs, losses, weighted, over_set, self.decay)
        else:
            part = self._epochs[:, seen]
            _average(part, losses[seen], weighted[seen], over_set[seen], self.decay)
            self._epochs[:, seen] = part
        self._note_paths(scores, over_set, epochs)
        self._history[_THIS_EPOCH] = torch.nan

    def _note_paths(self, scores: Tensor | None, weights: Tensor, epochs: int) -> None:
        if self._path_rows is None:
            keep = max(1, min(self.num_samples, PATH_NUMBERS // max(1, epochs)))
            self._path_rows = torch.linspace(0, self.num_samples - 1, keep, device=self.device).long()
        if scores is not None:
            self.score_path.append(_half(scores[self._path_rows]))
        kept = weights[self._path_rows].nan_to_num(1.0)  # a sample that this epoch left out
        alike = bool((kept - 1).abs().max() < 1e-5) if len(kept) else True
        self.weight_path.append(_half(kept[:1] if alike else kept))

    def _take_in(self) -> None:
        """Everything that waits, into the history."""
        self._write_down()
        if self._count == 0:
            return
        if self._count == self.num_samples:
            _move(self._history, self._noted.t(), self.decay)
        else:
            rows = torch.nonzero(self._seen).flatten()
            self._move_rows(rows, self._noted[rows].t())
        self._seen.zero_()
        self._count = 0

    def _write_down(self) -> None:
        """The visits that wait, all at once; where a row is among them twice, each step goes into the history."""
        pending, self._pending, self._waiting = self._pending, [], 0
        if not pending:
            return
        rows = torch.cat([visit.rows for visit in pending])  # [M]
        seen = self._seen.clone()
        seen[rows] = True
        if int(seen.sum()) == self._count + len(rows):
            self._seen, self._count = seen, self._count + len(rows)
            self._noted.index_copy_(0, rows, _side_by_side(pending))
            return
        self._take_in()  # what was written down before
        for visit in pending:
            self._move_rows(visit.rows, _side_by_side([visit]).t())

    def _move_rows(self, rows: Tensor, noted: Tensor) -> None:
        part = self._history[:, rows]  # [C, M], a copy
        _move(part, noted, self.decay)
        self._history[:, rows] = part

    @property
    def visits(self) -> Tensor:
        """How often each sample was seen."""  # [N]
        self._take_in()
        return self._history[_AT["visits"]].int()

    @property
    def path_rows(self) -> Tensor | None:
        """The rows whose paths are kept: all, or an even selection where there are many."""  # [P]
        return self._path_rows

    def paths(self) -> dict[str, Tensor]:
        """rows [P], and scores and weights after each epoch [epochs, P]; those that say nothing are left out."""
        self._take_in()
        if self._path_rows is None:
            return {}
        found: dict[str, Tensor] = {}
        if self.score_path:
            found["scores"] = torch.stack(self.score_path)
        if any(len(part) > 1 for part in self.weight_path):
            found["weights"] = torch.stack([part.expand(len(self._path_rows)) for part in self.weight_path])
        return {"rows": self._path_rows.cpu(), **found} if found else {}

    def table(self) -> dict[str, Tensor]:
        """One column per measure, one entry per sample; NaN where a sample was never seen.

        ema_loss, ema_weighted_loss, ema_weight: averages over visits of l_i, p_i B l_i and p_i B.
        ema_relative_loss, ema_relative_weighted_loss: the same over epochs, each divided by the epoch's mean.
        ema_set_weighted_loss: over epochs, of the loss times the weight over the whole set.
        ema_push: how much more weight the objective asked for than for the rest of the batch, in units of the batch's
        spread, and pushed_up at how many visits; NaN and 0 for methods without an objective.
        forgetting_events: right at one visit and wrong at the next; a sample never right counts every visit.
        margin, mean_margin: true logit minus the best other, at the last visit and over all visits.
        """  # [N] each
        self._take_in()
        held = {name: self._history[place] for name, place in _AT.items()}
        gathered, visits = held["gathered"], held["visits"]
        pushed = bool((held["push"] != 0).any())
        return {
            "ema_loss": held["loss"] / gathered,  # 0 / 0 where never seen
            "ema_weighted_loss": held["weighted_loss"] / gathered,
            "ema_weight": held["weight"] / gathered,
            "ema_relative_loss": self._epochs[1] / self._epochs[0],
            "ema_relative_weighted_loss": self._epochs[2] / self._epochs[0],
            "ema_set_weighted_loss": self._epochs[3] / self._epochs[0],
            "ema_push": held["push"] / gathered if pushed else torch.full_like(gathered, torch.nan),
            "pushed_up": held["pushed_up"].int(),
            "forgetting_events": torch.where(held["learned"] > 0, held["forgotten"], held["judged"]).int(),
            "margin": held["margin"].clone(),
            "mean_margin": held["margin_sum"] / visits,
            "visits": visits.int(),
        }

    def state_dict(self) -> dict[str, Any]:
        """All that was gathered."""
        self._take_in()
        return {
            "history": self._history,
            "epochs": self._epochs,
            "score_path": list(self.score_path),
            "weight_path": list(self.weight_path),
            "path_rows": self._path_rows,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put it back."""
        if state["history"].shape != self._history.shape:
            raise ScoresMismatch(
                f"The saved history is of {state['history'].shape[1]} samples and this run has {self.num_samples}; "
                "resume with the training set of that run."
            )
        self._pending, self._waiting, self._count = [], 0, 0
        self._seen.zero_()
        self._history.copy_(state["history"])
        self._epochs.copy_(state["epochs"])
        self.score_path = [part.cpu() for part in state["score_path"]]
        self.weight_path = [part.cpu() for part in state["weight_path"]]
        self._path_rows = None if state["path_rows"] is None else state["path_rows"].to(self.device)


def _move(history: Tensor, noted: Tensor, decay: float) -> None:
    """Add one more visit of each sample to the history [C, M]: loss, weight, push, right, margin [5, M].

    In place and column by column, because memory that is asked for anew costs more than the sums.
    """
    losses, weights, push, right, margin = noted.contiguous()
    weighted = losses * weights
    known = ~right.isnan()
    judged, holds = known.float(), right.nan_to_num(0.0)
    column = {name: history[place] for name, place in _AT.items()}
    history[: len(_AVERAGES)].mul_(decay)
    column["gathered"].add_(1 - decay)
    averaged = {"loss": losses, "weighted_loss": weighted, "weight": weights, "push": push.nan_to_num(0.0)}
    for name, now in averaged.items():
        column[name].add_(now, alpha=1 - decay)
    column["forgotten"].addcmul_(column["right"], judged - holds)  # before what was right is overwritten
    summed = {"margin_sum": margin, "visits": 1, "judged": judged, "learned": holds, "pushed_up": push > 0}
    for name, more in summed.items():
        column[name].add_(more)
    column["right"].copy_(torch.where(known, holds, column["right"]))
    last = {"margin": margin, "epoch_loss": losses, "epoch_weighted_loss": weighted, "epoch_weight": weights}
    for name, value in last.items():
        column[name].copy_(value)


def _average(epochs: Tensor, losses: Tensor, weighted: Tensor, over_set: Tensor, decay: float) -> None:
    """Add one more epoch, in which every sample was seen, to the averages over epochs [4, M], in place."""
    epochs.mul_(decay)
    epochs[0].add_(1 - decay)
    epochs[1].add_(losses / losses.mean(), alpha=1 - decay)
    epochs[2].add_(weighted / weighted.mean(), alpha=1 - decay)
    epochs[3].addcmul_(over_set, losses, value=1 - decay)


def _side_by_side(visits: Sequence[_Visit]) -> Tensor:
    """Loss, weight times batch size, push, right and margin of each sample; NaN where not known."""  # [M, 5]
    sizes = torch.tensor([len(visit.rows) for visit in visits], device=visits[0].rows.device)
    losses = torch.cat([visit.losses for visit in visits]).float()
    weights = torch.cat([visit.weights for visit in visits]).float() * sizes.repeat_interleave(sizes)
    others = [_joined([visit[place] for visit in visits], visits, losses) for place in (3, 4, 5)]
    return torch.stack([losses, weights, *others], dim=1)


def _joined(parts: Sequence[Tensor | None], visits: Sequence[_Visit], losses: Tensor) -> Tensor:
    """The parts one after the other, NaN where a step had none."""  # [M]
    if all(part is None for part in parts):
        return torch.full_like(losses, torch.nan)
    pairs = zip(parts, visits, strict=True)
    return torch.cat([torch.full_like(v.losses, torch.nan) if part is None else part for part, v in pairs]).float()


def _push(record: StepRecord) -> Tensor | None:
    """How much more weight the objective asks for each sample than for the batch, in units of the batch's spread."""
    if record.gradient is not None:
        asked = -record.gradient  # a lower objective by a higher score
    elif record.pull is not None:
        asked = record.pull - (record.weights * record.pull).sum()
    else:
        return None
    return asked / asked.square().mean().sqrt().clamp(min=torch.finfo(asked.dtype).tiny)


def _half(values: Tensor) -> Tensor:
    return values.clamp(-_LARGEST_HALF, _LARGEST_HALF).to(torch.float16).cpu()
