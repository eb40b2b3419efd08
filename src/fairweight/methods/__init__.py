"""Who counts: each method gives every batch weights that sum to 1.

One file per method, one public class each. A method writes `weigh`, says what it `needs` and which `paper` it is
from; `step` and `fit` do the rest. Three hooks surround the steps; each does nothing unless a method wants it:

    method.begin(train, exemplar)        once, before the first step
    method.sampling_weights()            before every epoch: None, or how often to draw each row
    method.on_epoch(epoch, predict)      after every epoch, counted from 1

`fit` calls them; in a loop of your own you do. `begin` reads and never resets what was learned, so it may come
before `load_state_dict` or after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from fairweight import step as _step
from fairweight.errors import BadInput, MissingExemplar, MissingGroups, RowsOutOfRange
from fairweight.fast.compiled import UsualShape
from fairweight.metagradient.choose import Mode
from fairweight.metagradient.passes import ForwardPass, classification_loss
from fairweight.types import Batch, Loss, Samples, StepRecord, Weighing

# "exemplar": a batch of it at every step; "exemplar set": the whole of it at `begin`, and no batch; "weights": from
# elsewhere, or every sample counts alike.
Need = Literal["train groups", "exemplar", "exemplar groups", "exemplar set", "weights"]
# Hard predictions [N] of the current model on a set, in eval mode, touching nothing.
Predict = Callable[[Samples], Tensor]

# What FORML is made of, beside the methods.
PARTS = ("look_ahead", "score_step", "ties")


class Reweighter:
    """A method: holds its state over the run and weighs one batch at a time; subclasses write `weigh`."""

    paper: ClassVar[str] = ""
    search: ClassVar[Mapping[str, Any]] = {}  # one that needs many trainings: how they are found (runs/search)
    needs: frozenset[Need] = frozenset()  # of the class: with its defaults; of an object: with its own options

    def __init__(self, model: nn.Module, num_samples: int, *, loss: Loss = classification_loss) -> None:
        if num_samples < 1:
            raise BadInput(f"num_samples={num_samples}; give the number of training samples.")
        self.model = model
        self.num_samples = num_samples
        self.loss = loss
        self.steps = 0  # batches weighed
        self.sample_weight: Tensor | None = None  # [N], mean 1: the user's own weights, which multiply the method's

    # -- what a method writes -------------------------------------------------------------------

    def weigh(
        self, done: ForwardPass, exemplar: Batch | None, optimizer: torch.optim.Optimizer, check: bool
    ) -> Weighing:
        """The batch's weights, [B], summing to 1, or all 0 where nobody in it counts.

        It may move the method's own state, never the model.
        """
        raise NotImplementedError

    def begin(self, train: Samples, exemplar: Samples | None = None) -> None:
        """Called once before training: whatever the method counts in its data."""

    def on_epoch(self, epoch: int, predict: Predict) -> None:
        """Called after each epoch, counted from 1; predict gives the current model's labels on a set."""

    def sampling_weights(self) -> Tensor | None:
        """How likely each row is drawn in the next epoch, with replacement; None: every row once."""  # [N]
        return None

    # -- what everybody gets --------------------------------------------------------------------

    def prepare(self, batch: Batch, exemplar: Batch | None, optimizer: torch.optim.Optimizer, check: bool) -> Mode:
        """Refuse what the method cannot work with, and say how the forward pass is to be run."""
        name = type(self).__name__
        if "train groups" in self.needs and batch.groups is None:
            raise MissingGroups(f"{name} needs the group of each training sample; give Batch(groups=...).")
        if exemplar is None and self.needs & {"exemplar", "exemplar groups"}:
            raise MissingExemplar(
                f"{name} learns from an exemplar batch; pass one to step(batch, exemplar, optimizer)."
            )
        if "exemplar groups" in self.needs and exemplar is not None and exemplar.groups is None:
            raise MissingGroups(f"{name} needs the group of each exemplar; give the exemplar Batch(groups=...).")
        return Mode("none")

    @property
    def phase(self) -> str:
        """What kind of step comes next, where a method has several: each kind is captured as a graph of its own."""
        return "step"

    def whole(
        self, batch: Batch, exemplar: Batch | None, optimizer: torch.optim.Optimizer, scale: float, check: bool
    ) -> StepRecord | None:
        """The whole of `backward` in the method's own way, or None to have it done step by step."""
        return None

    def compile(self) -> None:
        """Have the model's passes compiled for the batch shape that is usual; worth it for long runs on a GPU."""
        if not isinstance(self.model, UsualShape):
            self.model = UsualShape(self.model)

    def step(
        self,
        batch: Batch,
        exemplar: Batch | None,
        optimizer: torch.optim.Optimizer,
        *,
        clip_norm: float | None = None,
        check: bool | None = None,
    ) -> StepRecord:
        """One whole training step in anybody's loop: weights, then the optimizer on the weighted loss.

        check: refuse bad values with a sentence; by default always on a CPU, and on a GPU at the first step.
        """
        check = self._checks(batch) if check is None else check
        record = _step.take_step(self, batch, exemplar, optimizer, clip_norm=clip_norm, check=check)
        self.steps += 1
        return record

    def backward(
        self,
        batch: Batch,
        exemplar: Batch | None,
        optimizer: torch.optim.Optimizer,
        *,
        scale: float = 1.0,
        check: bool | None = None,
    ) -> StepRecord:
        """Add the weighted loss's gradient to `.grad`, for accumulation or clipping by the caller."""
        check = self._checks(batch) if check is None else check
        record = _step.backward(self, batch, exemplar, optimizer, scale=scale, check=check)
        self.steps += 1
        return record

    def _checks(self, batch: Batch) -> bool:
        return batch.labels.device.type == "cpu" or self.steps == 0

    def rows(self, batch: Batch, check: bool = True) -> Tensor:
        """The batch's rows, refused where they are missing or have no score."""  # [B]
        if batch.rows is None:
            if len(batch) == self.num_samples:
                return torch.arange(self.num_samples, device=batch.labels.device)
            raise RowsOutOfRange(
                f"The batch does not say which samples it holds; give Batch(rows=...), numbers from 0 to "
                f"{self.num_samples - 1}."
            )
        if check and len(batch):
            low, high = int(batch.rows.min()), int(batch.rows.max())
            if low < 0 or high >= self.num_samples:
                raise RowsOutOfRange(
                    f"The batch names rows {low} to {high}, and {type(self).__name__} was made for {self.num_samples} "
                    f"samples; rows count from 0 to {self.num_samples - 1}, or raise num_samples."
                )
        return batch.rows

    def weights(self) -> Tensor | None:
        """One weight per training sample, mean 1, where the method keeps any."""  # [N]
        return None

    @property
    def scores(self) -> Tensor | None:
        """One learned score per training sample, where the method keeps any."""  # [N]
        return None

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain values: all that the method has learned."""
        return {"steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put the state back, bit for bit."""
        self.steps = int(state["steps"])


def even_weights(losses: Tensor) -> Tensor:
    """1 / B for each."""  # [B]
    return torch.full_like(losses, 1.0 / len(losses), requires_grad=False)


def shares(relative: Tensor) -> Tensor:
    """Weights as shares of their sum; all 0 where that is 0."""  # [B]
    total = relative.sum()
    return relative / torch.where(total > 0, total, torch.ones_like(total))


def current_lr(optimizer: torch.optim.Optimizer) -> float:
    """The optimizer's largest learning rate now."""
    return max(float(group["lr"]) for group in optimizer.param_groups)
