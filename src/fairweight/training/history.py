"""History of each training sample: loss, weight, forgetting, margin, and the paths of its score and weight."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from fairweight.errors import BadInput, ScoresMismatch
from fairweight.training._step_buffer import StepBuffer, Steps
from fairweight.training._visits import AT, COLUMNS, THIS_EPOCH, VISIT, average, move, note
from fairweight.types import StepRecord

PATH_NUMBERS = 2_000_000  # at most this many numbers are kept of score paths, and as many of weight paths
_FIELDS = ("losses", "weights", "correct", "logits", "labels", "pull", "gradient")
_LARGEST_HALF = 65_000.0


class Dynamics:
    """Per-sample history on the device, for every method.

    Steps are held in a buffer, noted by the thousand and added to the history once an epoch, so that the cost is a
    small part of even a small network's step. A row drawn twice in one batch is seen twice.
    decay: of the averages over visits, each divided by the weight that it has gathered, so that a sample seen once
    is not counted as almost 0.
    """

    def __init__(self, num_samples: int, device: torch.device | str = "cpu", *, decay: float = 0.9) -> None:
        if not 0 <= decay < 1:
            raise BadInput(f"decay={decay}: give one from 0 (the last visit alone) to below 1.")
        self.num_samples, self.decay = num_samples, decay
        self.device = torch.device(device)
        self._history = torch.zeros(len(COLUMNS), num_samples, device=self.device)  # [C, N]
        self._history[AT["margin"]] = torch.nan
        self._history[THIS_EPOCH] = torch.nan
        # Averages over epochs: gathered weight, l / mean, p B l / mean, P N l with P the weight over the whole set.
        self._epochs = torch.zeros(4, num_samples, device=self.device)  # [4, N]
        # Visits that are not in the history yet, each row once.
        self._noted = torch.zeros(len(VISIT), num_samples, device=self.device)  # [7, N]
        self._seen = torch.zeros(num_samples, dtype=torch.bool, device=self.device)  # [N] whether a row is noted
        self._count = 0  # rows that are noted
        self._steps = StepBuffer(self._note, _FIELDS)  # steps that are not noted yet
        self.score_path: list[Tensor] = []  # one [P] per epoch
        self.weight_path: list[Tensor] = []  # one [P] per epoch
        self._path_rows: Tensor | None = None

    def on_step(self, rows: Tensor, record: StepRecord) -> None:
        """Take in one visit of these rows."""
        self._steps.add(rows if rows.device.type == "cpu" else rows.clone(), record)

    def on_epoch(self, scores: Tensor | None, epochs: int, weights: Tensor | None = None) -> None:
        """End an epoch: note where scores and weights stand.

        epochs: how many there will be, to bound the paths. weights: over the whole set, mean 1; None: what each sample
        was last given in a batch.
        """
        self._take_in()
        losses, weighted, given = self._history[THIS_EPOCH]  # [N] each, NaN where not seen
        over_set = given if weights is None else weights.to(losses)
        if not math.isnan(losses.sum()):
            average(self._epochs, losses, weighted, over_set, self.decay)
        else:
            seen = ~losses.isnan()
            part = self._epochs[:, seen]
            average(part, losses[seen], weighted[seen], over_set[seen], self.decay)
            self._epochs[:, seen] = part
        self._note_paths(scores, over_set, epochs)
        self._history[THIS_EPOCH] = torch.nan

    def _note_paths(self, scores: Tensor | None, weights: Tensor, epochs: int) -> None:
        if self._path_rows is None:
            keep = max(1, min(self.num_samples, PATH_NUMBERS // max(1, epochs)))
            self._path_rows = torch.linspace(0, self.num_samples - 1, keep, device=self.device).long()
        if scores is not None:
            self.score_path.append(_half(scores[self._path_rows]))
        self.weight_path.append(_half(weights[self._path_rows].nan_to_num(1.0)))  # 1: this epoch left it out

    def _take_in(self) -> None:
        """Add everything that waits to the history."""
        self._steps.flush()
        if self._count == self.num_samples:
            move(self._history, self._noted, self.decay)
        elif self._count:
            rows = torch.nonzero(self._seen).flatten()
            self._move_rows(rows, self._noted[:, rows])
        self._forget_notes()

    def _forget_notes(self) -> None:
        self._count = 0
        self._seen.zero_()
        self._noted[VISIT.index("push")].zero_()

    def _note(self, steps: Steps) -> None:
        rows = torch.cat(steps.indices)  # [M]
        seen = self._seen.scatter(0, rows, torch.ones_like(rows, dtype=torch.bool))
        if int(seen.sum()) == self._count + len(rows):
            self._seen, self._count = seen, self._count + len(rows)
            note(self._noted, rows, steps)
            return
        self._take_in()  # what was noted before
        noted = torch.zeros(len(VISIT), len(rows), device=self.device)
        note(noted, torch.arange(len(rows), device=self.device), steps)
        for places in _each_once(rows):
            self._move_rows(rows[places], noted[:, places])

    def _move_rows(self, rows: Tensor, noted: Tensor) -> None:
        part = self._history[:, rows]  # [C, M], a copy
        move(part, noted, self.decay)
        self._history[:, rows] = part

    @property
    def visits(self) -> Tensor:
        """Visits of each sample."""  # [N]
        self._take_in()
        return self._history[AT["visits"]].int()

    @property
    def path_rows(self) -> Tensor | None:
        """Rows whose paths are kept: all, or an even selection where there are many."""  # [P]
        return self._path_rows

    def paths(self) -> dict[str, Tensor]:
        """rows [P], and scores and weights after each epoch [epochs, P]; leaves out weights that are all 1."""
        self._take_in()
        if self._path_rows is None:
            return {}
        found: dict[str, Tensor] = {}
        if self.score_path:
            found["scores"] = torch.stack(self.score_path)
        if any(bool((part != 1).any()) for part in self.weight_path):
            found["weights"] = torch.stack(self.weight_path)
        return {"rows": self._path_rows.cpu(), **found} if found else {}

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
        self._take_in()
        held = {name: self._history[place] for name, place in AT.items()}
        visits = held["visits"]
        gathered = 1 - self.decay**visits  # weight that the averages have gathered
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
            "mistakes": (held["judged"] - held["learned"]).int(),
            "margin": held["margin"].clone(),
            "mean_margin": held["margin_sum"] / visits,
            "mean_probability_margin": held["lead_sum"] / visits,
            "visits": visits.int(),
        }

    def state_dict(self) -> dict[str, Any]:
        self._take_in()
        return {
            "history": self._history,
            "epochs": self._epochs,
            "score_path": list(self.score_path),
            "weight_path": list(self.weight_path),
            "path_rows": self._path_rows,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if len(state["history"]) != len(self._history):
            raise ScoresMismatch("The saved history was written by another version; start the training afresh.")
        if state["history"].shape != self._history.shape:
            raise ScoresMismatch(
                f"The saved history is of {state['history'].shape[1]} samples and this run has {self.num_samples}; "
                "resume with the training set of that run."
            )
        self._steps.clear()
        self._forget_notes()
        self._history.copy_(state["history"])
        self._epochs.copy_(state["epochs"])
        self.score_path = [part.cpu() for part in state["score_path"]]
        self.weight_path = [part.cpu() for part in state["weight_path"]]
        self._path_rows = None if state["path_rows"] is None else state["path_rows"].to(self.device)


def _each_once(rows: Tensor) -> list[Tensor]:
    """Places in rows, all of them, in as many parts as it takes for no row to be in a part twice; in their order."""
    order = torch.argsort(rows, stable=True)
    _, counts = torch.unique_consecutive(rows[order], return_counts=True)
    begins = (counts.cumsum(0) - counts).repeat_interleave(counts)  # where the run of equal rows begins
    turn = torch.arange(len(rows), device=rows.device) - begins
    return [order[turn == k] for k in range(int(counts.max()))]


def _half(values: Tensor) -> Tensor:
    return values.clamp(-_LARGEST_HALF, _LARGEST_HALF).to(torch.float16).cpu()
