"""History of each training sample: loss, weight, forgetting, margin, and the paths of its score and weight."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fairweight.errors import BadInput, ScoresMismatch
from fairweight.training._step_buffer import StepBuffer
from fairweight.types import StepRecord, margin, sent

PATH_NUMBERS = 2_000_000  # at most this many numbers are kept of score paths, and as many of weight paths
_FIELDS = ("losses", "weights", "correct", "logits", "labels", "pull", "gradient")
_LARGEST_HALF = 65_000.0

# Columns of a visit and of the history, in such an order that three runs of the one go into three runs of the other.
VISIT = ("push", "loss", "weighted_loss", "weight", "margin", "lead", "right")
_COLUMNS = (
    "push",  # averages: of how much more weight the objective asked for than for the rest of the batch, in its units
    "loss",
    "weighted_loss",  # of p_i B l_i
    "weight",  # of p_i B
    "epoch_loss",  # at the last visit of this epoch, NaN before it
    "epoch_weighted_loss",
    "epoch_weight",
    "margin",  # at the last visit
    "margin_sum",
    "lead_sum",  # of the margin in probabilities
    "visits",
    "judged",  # visits at which it was known whether the prediction was right
    "learned",  # visits at which it was
    "forgotten",  # visits at which it was not, after one at which it was
    "pushed_up",  # visits at which the objective asked for more weight
    "right",  # whether the prediction was, when that was last known
)
_THIS_EPOCH = slice(4, 7)


class Dynamics:
    """Per-sample history on the device, for every method.

    Steps are held in a buffer, turned into visits by the thousand and added to the history once an epoch, so that the
    cost is a small part of even a small network's step. A row drawn twice in one batch is seen twice.
    decay: of the averages over visits, each divided by the weight that it has gathered, so that a sample seen once
    is not counted as almost 0.
    """

    def __init__(self, num_samples: int, device: torch.device | str = "cpu", *, decay: float = 0.9) -> None:
        if not 0 <= decay < 1:
            raise BadInput(f"decay={decay}: give one from 0 (the last visit alone) to below 1.")
        self.num_samples, self.decay = num_samples, decay
        self.device = torch.device(device)
        self._history = torch.zeros(len(_COLUMNS), num_samples, device=self.device)  # [C, N]
        self._history[4:8] = torch.nan
        self._position = torch.empty(num_samples, dtype=torch.int32, device=self.device)  # scratch
        # Averages over epochs: gathered weight, l / mean, p B l / mean, P N l with P the weight over the whole set.
        self._epochs = torch.zeros(4, num_samples, device=self.device)  # [4, N]
        self._steps = StepBuffer(self._keep_visits, _FIELDS)  # steps whose visits are not worked out yet
        self._new_visits: list[tuple[Tensor, Tensor]] = []  # rows [M] and their visits [7, M], not in the history yet
        self.score_path: list[Tensor] = []  # one [P] per epoch
        self.weight_path: list[Tensor] = []  # one [P] per epoch
        self.path_rows: Tensor | None = None  # [P] rows whose paths are kept: all, or an even selection of many

    def on_step(self, rows: Tensor, record: StepRecord) -> None:
        """Record one step on these rows."""
        self._steps.add(rows, record)

    def _keep_visits(self, indices: Sequence[Tensor], _: Sequence[int], records: Sequence[StepRecord]) -> None:
        self._new_visits.append((torch.cat(tuple(indices)), visits_of(records)))
        if sum(len(rows) for rows, _ in self._new_visits) >= self.num_samples:
            self._update_history()

    def _update_history(self) -> None:
        """Add all steps to the history, in one pass over memory if they cover the whole set once."""
        self._steps.flush()
        if not self._new_visits:
            return
        rows, visits = self._new_visits[0]  # [M], [7, M]
        if len(self._new_visits) > 1:  # new memory costs more than the sums
            rows, visits = (torch.cat(parts, dim=-1) for parts in zip(*self._new_visits, strict=True))
        self._new_visits = []
        positions = torch.arange(len(rows), dtype=torch.int32, device=rows.device)
        self._position[rows] = positions
        no_repeats = torch.equal(self._position[rows], positions)
        if no_repeats and len(rows) == self.num_samples:
            add_visits(self._history, visits.index_select(1, self._position), self.decay)
            return
        for part in (slice(None),) if no_repeats else _parts_without_repeats(rows):
            history = self._history[:, rows[part]]  # [C, M], a copy
            add_visits(history, visits[:, part], self.decay)
            self._history[:, rows[part]] = history

    def on_epoch(self, scores: Tensor | None, epochs: int, weights: Tensor | None = None) -> None:
        """End an epoch: note where scores and weights stand.

        epochs: how many there will be, to bound the paths. weights: over the whole set, mean 1; None: what each sample
        was last given in a batch.
        """
        self._update_history()
        losses, weighted, last_given = self._history[_THIS_EPOCH]  # [N] each, NaN where not seen
        over_set = last_given if weights is None else weights.to(losses)
        seen = ~losses.isnan() if math.isnan(losses.sum()) else slice(None)
        averages = self._epochs[:, seen].mul_(self.decay)
        columns = (
            torch.ones_like(averages[0]),
            _relative(losses[seen]),
            _relative(weighted[seen]),
            (over_set * losses)[seen],
        )
        self._epochs[:, seen] = averages.add_(torch.stack(columns), alpha=1 - self.decay)
        if self.path_rows is None:
            keep = max(1, min(self.num_samples, PATH_NUMBERS // max(1, epochs)))
            self.path_rows = torch.linspace(0, self.num_samples - 1, keep, device=self.device).long()
        if scores is not None:
            self.score_path.append(_half(scores[self.path_rows]))
        self.weight_path.append(_half(over_set[self.path_rows].nan_to_num(1.0)))  # 1: this epoch left it out
        self._history[_THIS_EPOCH] = torch.nan

    @property
    def visits(self) -> Tensor:
        """Visits of each sample."""  # [N]
        return self.table()["visits"]

    def paths(self) -> dict[str, Tensor]:
        """rows [P], and scores and weights after each epoch [epochs, P]; leaves out weights that are all 1."""
        if self.path_rows is None:
            return {}
        paths: dict[str, Tensor] = {}
        if self.score_path:
            paths["scores"] = torch.stack(self.score_path)
        if any(bool((part != 1).any()) for part in self.weight_path):
            paths["weights"] = torch.stack(self.weight_path)
        return {"rows": self.path_rows.cpu(), **paths} if paths else {}

    def table(self) -> dict[str, Tensor]:
        """One column per measure, one entry per sample; NaN if a sample was never seen.

        ema_loss, ema_weighted_loss, ema_weight: averages over visits of l_i, p_i B l_i and p_i B.
        ema_relative_loss, ema_relative_weighted_loss: the same over epochs, each divided by the epoch's mean.
        ema_set_weighted_loss: over epochs, of the loss times the weight over the whole set.
        ema_push: how much more weight the objective asked for than for the rest of the batch, in units of the batch's
        spread, and pushed_up at how many visits; NaN and 0 for methods without an objective.
        forgetting_events: right at one visit and wrong at the next; a sample never right counts every visit.
        mistakes: visits at which the prediction was wrong; of a sample never forgotten, all before it was learned.
        margin, mean_margin: true logit minus the best other, at the last visit and over all visits.
        mean_probability_margin: the same in probabilities, so that no visit of a sure network outweighs the others.
        """  # [N] each
        self._update_history()
        columns = dict(zip(_COLUMNS, self._history, strict=True))
        visits = columns["visits"]
        gathered = 1 - self.decay**visits  # weight that the averages have gathered
        pushed = bool((columns["push"] != 0).any())
        return {
            "ema_loss": columns["loss"] / gathered,  # 0 / 0 where never seen
            "ema_weighted_loss": columns["weighted_loss"] / gathered,
            "ema_weight": columns["weight"] / gathered,
            "ema_relative_loss": self._epochs[1] / self._epochs[0],
            "ema_relative_weighted_loss": self._epochs[2] / self._epochs[0],
            "ema_set_weighted_loss": self._epochs[3] / self._epochs[0],
            "ema_push": columns["push"] / gathered if pushed else torch.full_like(gathered, torch.nan),
            "pushed_up": columns["pushed_up"].int(),
            "forgetting_events": torch.where(columns["learned"] > 0, columns["forgotten"], columns["judged"]).int(),
            "mistakes": (columns["judged"] - columns["learned"]).int(),
            "margin": columns["margin"].clone(),
            "mean_margin": columns["margin_sum"] / visits,
            "mean_probability_margin": columns["lead_sum"] / visits,
            "visits": visits.int(),
        }

    def state_dict(self) -> dict[str, Any]:
        self._update_history()
        paths = {"score_path": list(self.score_path), "weight_path": list(self.weight_path)}
        return {"history": self._history, "epochs": self._epochs, **paths, "path_rows": self.path_rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if len(state["history"]) != len(self._history):
            raise ScoresMismatch("The saved history was written by another version; start the training afresh.")
        if state["history"].shape != self._history.shape:
            raise ScoresMismatch(
                f"The saved history is of {state['history'].shape[1]} samples and this run has {self.num_samples}; "
                "resume with the training set of that run."
            )
        self._steps.clear()
        self._new_visits = []
        self._history.copy_(state["history"])
        self._epochs.copy_(state["epochs"])
        self.score_path = [part.cpu() for part in state["score_path"]]
        self.weight_path = [part.cpu() for part in state["weight_path"]]
        self.path_rows = None if state["path_rows"] is None else state["path_rows"].to(self.device)


def visits_of(records: Sequence[StepRecord]) -> Tensor:
    """What these steps saw of each sample; what a step does not know is NaN, or 0 if it is the push."""  # [7, M]

    def joined(parts: Sequence[Tensor | None], unknown: float = torch.nan) -> Tensor:
        if all(part is None for part in parts):
            return torch.full_like(losses, unknown)
        pairs = zip(parts, records, strict=True)
        return torch.cat([torch.full_like(r.losses, unknown) if part is None else part for part, r in pairs]).float()

    losses = torch.cat([r.losses for r in records]).float()
    sizes = torch.tensor([len(r.losses) for r in records])
    weights = joined([r.weights for r in records]).mul_(sent(sizes.repeat_interleave(sizes), losses.device))
    push, right = joined([_push(r) for r in records], 0.0), joined([r.correct for r in records])
    return torch.stack([push, losses, losses * weights, weights, *_margins(records, joined), right])


def _margins(records: Sequence[StepRecord], joined: Callable[[list[Tensor | None]], Tensor]) -> Sequence[Tensor]:
    """Margins and leads of all samples, taken together where every step knows its logits."""  # [M] each
    logits = [r.logits for r in records if r.logits is not None]
    labels = [r.labels for r in records if r.labels is not None]
    if len(logits) == len(labels) == len(records):
        return _margin_and_lead(torch.cat(logits), torch.cat(labels))
    pairs = [(r.logits, r.labels) for r in records]
    each = [(None, None) if z is None or y is None else _margin_and_lead(z, y) for z, y in pairs]
    return [joined(list(column)) for column in zip(*each, strict=True)]


def _push(record: StepRecord) -> Tensor | None:
    """How much more weight the objective asks for each sample than for the batch, in units of the batch's spread."""
    if record.gradient is not None:
        push = -record.gradient  # a higher score lowers the objective
    elif record.pull is not None:
        push = record.pull - (record.weights * record.pull).sum()
    else:
        return None
    return push / push.square().mean().sqrt().clamp(min=torch.finfo(push.dtype).tiny)


def _margin_and_lead(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:  # [M] each
    if logits.ndim == 1 or logits.shape[1] <= 2:
        margins = margin(logits, labels).float()
        return margins, margins.sigmoid().mul_(2).sub_(1)  # of two, σ(m) − σ(−m)
    values = logits.float()
    true, total = values.gather(1, labels[:, None]).squeeze(1), values.logsumexp(dim=1)
    other = values.scatter(1, labels[:, None], -torch.inf).amax(dim=1)
    return true - other, (true - total).exp_().sub_((other - total).exp_())


def add_visits(history: Tensor, visit: Tensor, decay: float) -> None:
    """Add one more visit of each sample [7, M] to its history [C, M], in place."""
    push, right = visit[0], visit[6]
    column = dict(zip(_COLUMNS, history, strict=True))
    column["pushed_up"].add_(push > 0)
    push.nan_to_num_(0.0)
    history[:4].lerp_(visit[:4], 1 - decay)
    history[4:8].copy_(visit[1:5])
    history[8:10].add_(visit[4:6])
    column["visits"].add_(1)
    known = ~right.isnan()
    column["judged"].add_(known)
    column["learned"].add_(right.nan_to_num(0.0))
    right = torch.where(known, right, column["right"])
    column["forgotten"].add_((column["right"] - right).clamp_(min=0))  # 1 where it was right and is no more
    column["right"].copy_(right)


def _relative(values: Tensor) -> Tensor:
    """Values over their mean; where all are 0, each is as large as the mean and counts 0."""  # [M]
    mean = values.mean()
    return values / torch.where(mean == 0, torch.ones_like(mean), mean)


def _parts_without_repeats(rows: Tensor) -> list[Tensor]:
    """Places in rows, all of them, in as many parts as it takes for no row to be in a part twice; in their order."""
    order = torch.argsort(rows, stable=True)
    _, counts = torch.unique_consecutive(rows[order], return_counts=True)
    begins = (counts.cumsum(0) - counts).repeat_interleave(counts)  # where the run of equal rows begins
    turn = torch.arange(len(rows), device=rows.device) - begins
    return [order[turn == k] for k in range(int(counts.max()))]


def _half(values: Tensor) -> Tensor:
    return values.clamp(-_LARGEST_HALF, _LARGEST_HALF).to(torch.float16).cpu()
