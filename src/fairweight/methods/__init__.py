"""Who counts: each method gives every batch weights that sum to 1.

One file per method, one public class each. A method writes `weigh`, says what it `needs` and which `paper` it is
from, and names in `_kept` what it learns; `step` and `fit` do the rest. `fit` also calls the hooks `begin`,
`sampling_weights` and `on_epoch`, which do nothing unless a method wants them; in a loop of your own you do. `begin`
never resets what was learned, so it may come before `load_state_dict` or after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from fairweight import step as _step
from fairweight.constraints import Kind, constrained, either, one_of, whole
from fairweight.errors import BadInput, MissingExemplar, MissingGroups, RowsOutOfRange
from fairweight.fast.compiled import UsualShape
from fairweight.metagradient import MODES, ForwardPass, Mode, Scope, Softmax, WeightForm, choose, forward, layer_forward
from fairweight.metagradient.model import data_parallel
from fairweight.metagradient.passes import check_not_empty, classification_loss, extremes
from fairweight.methods._accumulation import Accumulation
from fairweight.methods._ranks import agreed_mode, check_alike, check_step, find_ranks
from fairweight.methods._saved_state import copied, device_of, put_back
from fairweight.objectives import check_comparable
from fairweight.objectives.mean import MeanLoss
from fairweight.ranks import Group, Ranks
from fairweight.types import Batch, Loss, ObjectiveFunction, Samples, StepRecord, Weighing

# "exemplar": a batch at every step; "exemplar set": all of it at `begin`; "weights": from elsewhere, else all alike.
Need = Literal["train groups", "exemplar", "exemplar set", "weights"]
# Hard predictions [N] of the current model on a set, in eval mode, touching nothing.
Predict = Callable[[Samples], Tensor]
# What FORML is made of, beside the methods.
PARTS = ("look_ahead", "score_step", "ties")


@constrained(num_samples=whole(1))
@dataclass(eq=False, repr=False)
class Reweighter:
    """A method: holds its state over the run and weighs one batch at a time; subclasses write `weigh`."""

    model: nn.Module
    num_samples: int
    loss: Loss = field(default=classification_loss, kw_only=True)

    paper: ClassVar[str] = ""
    search: ClassVar[Mapping[str, Any]] = {}  # one that needs many trainings: how they are found (runs/search)
    needs = frozenset[Need]()  # of the class: with its defaults; of an object: with its own options
    _kept: ClassVar[tuple[str, ...]] = ()  # attributes that a state holds beside the steps: tensors and plain values

    def __post_init__(self) -> None:
        self.steps = 0  # batches weighed
        self.process_group: Group = "auto"  # the ranks that train together; None: this process alone
        self.gathers_logits = False  # whether records hold the logits of all ranks: K numbers a sample
        self._ranks: Ranks | None = None
        self._accumulation: Accumulation | None = None
        self.sample_weight: Tensor | None = None  # [N], mean 1: the user's own weights, which multiply the method's

    def weigh(self, done: ForwardPass, exemplar: Batch | None, optimizer: torch.optim.Optimizer) -> Weighing:
        """The batch's weights, [B], summing to 1, or all 0 where no sample counts.

        It may move the method's own state, never the model.
        """
        raise NotImplementedError

    def begin(self, train: Samples, exemplar: Samples | None = None) -> None:
        """Count what the method counts in its data; called once before training."""

    def on_epoch(self, epoch: int, predict: Predict) -> None:
        """Called after each epoch, counted from 1; predict gives the current model's labels on a set."""

    def sampling_weights(self) -> Tensor | None:
        """Before each epoch: how likely each row is drawn, with replacement; None: every row once."""  # [N]
        return None

    def check(self, batch: Batch, exemplar: Batch | None, *, values: bool = True) -> None:
        """Refuse what the method cannot work with, before anything is run; values: also by reading tensors."""
        check_not_empty(batch, "train")
        name = type(self).__name__
        if "train groups" in self.needs and batch.groups is None:
            raise MissingGroups(f"{name} needs the group of each training sample; give Batch(groups=...).")
        if exemplar is None and "exemplar" in self.needs:
            raise MissingExemplar(
                f"{name} learns from an exemplar batch; pass one to step(batch, exemplar, optimizer)."
            )
        if values:
            self.check_values(batch, exemplar)

    def check_values(self, batch: Batch, exemplar: Batch | None) -> None:
        """Refuse values that the method has no place for; reads them, which waits for a GPU."""

    def forward(
        self, batch: Batch, exemplar: Batch | None, optimizer: torch.optim.Optimizer, *, check: bool = True
    ) -> ForwardPass:
        """The forward pass that `weigh` looks at."""
        return forward(self.model, batch, self.loss, check=check)

    @property
    def ranks(self) -> Ranks | None:
        """The processes whose batches make one step, if there are several; each must call it."""
        if self._ranks is None and torch.distributed.is_available() and torch.distributed.is_initialized():
            if (ranks := find_ranks(self.process_group, self.model)) is not None:
                with ranks.together():
                    check_alike(ranks, self.model, {**vars(self), "state": self._state_of_all_ranks()})
            self._ranks = ranks
        return self._ranks

    def _state_of_all_ranks(self) -> dict[str, Any]:
        """What every rank must start with alike."""
        return self.state_dict()

    @property
    def phase(self) -> str:
        """What kind of step comes next, where a method has several: each kind is captured as a graph of its own."""
        return "step"

    def compile(self) -> None:
        """Have the model's passes compiled for the batch shape that is usual; worth it for long runs on a GPU."""
        if not isinstance(self.model, UsualShape):
            self.model = UsualShape(self.model)

    def step(
        self, batch: Batch, exemplar: Batch | None, optimizer: torch.optim.Optimizer, *,
        clip_norm: float | None = None, check: bool | None = None,
    ) -> StepRecord:  # fmt: skip
        """One whole training step in anybody's loop: weights, then the optimizer on the weighted loss.

        check: refuse bad values with a sentence; by default always on a CPU, and on a GPU at the first step.
        """
        if self.steps == 0 or hasattr(optimizer, "gradient_state"):  # accelerate's
            check_step(self.model, optimizer, first=self.steps == 0)
        if self._accumulation is not None:
            raise BadInput("step() would move the model between micro-batches; call backward() inside accumulating().")
        check = self._checks(batch) if check is None else check
        record = _step.take_step(self, batch, exemplar, optimizer, clip_norm=clip_norm, check=check)
        self.steps += 1
        return record

    def backward(
        self, batch: Batch, exemplar: Batch | None, optimizer: torch.optim.Optimizer, *,
        scaler: Any = None, scale: float = 1.0, check: bool | None = None,
    ) -> StepRecord:  # fmt: skip
        """Add the weighted loss's gradient to `.grad`; clearing, clipping and stepping are the caller's.

        scaler: a GradScaler, whose factor the gradient gets. scale: a factor of one's own.
        """
        held = Accumulation(1) if self._accumulation is None else self._accumulation
        check = self._checks(batch) if check is None else check
        record = held.add(batch, exemplar, optimizer, scale=scale, scaler=scaler, check=check)
        return self._backward_held(held) if len(held.batches) >= held.count else record

    @contextmanager
    def accumulating(self, count: int) -> Iterator[None]:
        """Every so many calls of backward make one step, weighed as one batch; those left over make the last.

        Micro-batches wait until the last one comes; each is then run by itself, one more forward pass than in a step
        of its own. Exemplar batches that come with them count side by side, one that comes again counts once.
        """
        if self._accumulation is not None:
            raise BadInput("accumulating(...) is open already; leave it before you enter it again.")
        held = self._accumulation = Accumulation(count)
        try:
            yield
            if held.batches:
                self._backward_held(held)
        finally:
            self._accumulation = None

    def _backward_held(self, held: Accumulation) -> StepRecord:
        batches, exemplar = held.take()
        record = _step.backward(self, batches, exemplar, held.optimizer, **held.options)
        self.steps += 1
        return record

    def _checks(self, batch: Batch) -> bool:
        return batch.labels.device.type == "cpu" or self.steps == 0

    def rows(self, batch: Batch) -> Tensor:
        """The batch's rows, refused where they are missing."""  # [B]
        if batch.rows is not None:
            return batch.rows
        if len(batch) == self.num_samples:
            return torch.arange(self.num_samples, device=batch.labels.device)
        known = f"numbers from 0 to {self.num_samples - 1}"
        raise RowsOutOfRange(f"The batch does not say which samples it holds; give Batch(rows=...), {known}.")

    def check_rows(self, batch: Batch) -> None:
        """Refuse rows that have no score."""
        low, high = extremes(self.rows(batch))
        if low < 0 or high >= self.num_samples:
            raise RowsOutOfRange(
                f"The batch names rows {low} to {high}, and {type(self).__name__} was made for {self.num_samples} "
                f"samples; rows count from 0 to {self.num_samples - 1}, or raise num_samples."
            )

    def weights(self) -> Tensor | None:
        """One weight per training sample, mean 1, where the method keeps any."""  # [N]
        return None

    @property
    def scores(self) -> Tensor | None:
        """One learned score per training sample, where the method keeps any."""  # [N]
        return None

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain values: all that the method has learned."""
        return {"steps": self.steps, **copied(self, self._kept)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put the state back, bit for bit."""
        put_back(self, self._kept, state, device_of(self.model))
        self.steps = int(state["steps"])


@constrained(gradient=one_of(*MODES), objective=either(Kind((Callable,), "one such as MeanLoss(), or a function")))  # type: ignore[arg-type]
class ExemplarMethod(Reweighter):
    """A method that learns from the exemplar batch: holds the objective and the gradient mode, found at step 1."""

    needs = frozenset({"exemplar"})
    form: WeightForm = Softmax()  # from scores to weights

    def __init__(
        self, model: nn.Module, num_samples: int, objective: ObjectiveFunction | None = None, gradient: str = "auto", *,
        loss: Loss = classification_loss,
    ) -> None:  # fmt: skip
        super().__init__(model, num_samples, loss=loss)
        self.objective = MeanLoss() if objective is None else objective
        self.gradient = gradient
        self._scope: Scope | None = None  # what the virtual step moves; None: everything
        self.mode: Mode | None = None  # how the gradient is computed; None before the first step
        self._training: bool | None = None  # whether the model was in train mode when its mode was chosen

    def check_values(self, batch: Batch, exemplar: Batch | None) -> None:
        assert exemplar is not None
        check_comparable(self.objective, exemplar)

    def forward(
        self, batch: Batch, exemplar: Batch | None, optimizer: torch.optim.Optimizer, *, check: bool = True
    ) -> ForwardPass:
        mode = self.settled(batch)
        layers = mode.name in ("per-layer", "per-layer-frozen")
        if layers and len(batch):  # a rank may have no part in a small batch
            return layer_forward(self._tried, batch, self.loss, mode, check=check)
        model = self._tried if layers else self.model
        return forward(model, batch, self.loss, plain_kernels=mode.plain_kernels, twice=True, check=check)

    def settled(self, batch: Batch) -> Mode:
        """The gradient mode, tried on this batch if it is the first."""
        if self._scope is not None:
            self._scope.settle(self.model, batch, self.loss)
        if self.mode is None or self._training not in (None, self.model.training) or self._looks_again(batch):
            # eval mode takes other kernels than train mode, some without a forward-mode derivative
            mode, layers = None, not self.form.sees_logits
            if len(batch) or self.ranks is None:
                mode = choose(self._tried, batch, self.loss, self.gradient, self._scope, layers=layers)
            self.mode = agreed_mode(self.ranks, mode)
        self._training = self.model.training
        return self.mode

    def _looks_again(self, batch: Batch) -> bool:
        """At steps 2, 4, 8, …: whether samples see each other may depend on their values."""
        due = self.mode is not None and self.mode.name == "per-layer" and self.steps > 1 == self.steps.bit_count()
        if not due or len(batch) < 2 or self.ranks is not None:  # ranks must all look, or none
            return False
        return batch.labels.device.type != "cuda" or not torch.cuda.is_current_stream_capturing()

    @property
    def _tried(self) -> nn.Module:
        """The model without the wrapper that sums gradients over ranks, where the step does that itself."""
        wrapper = None if self.ranks is None else data_parallel(self.model)
        return self.model if wrapper is None else cast(nn.Module, wrapper.module)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "mode": None if self.mode is None else list(astuple(self.mode))}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.mode = None if state["mode"] is None else Mode(*state["mode"])


def shares(relative: Tensor) -> Tensor:
    """Weights as shares of their sum; all 0 where that is 0."""  # [B]
    total = relative.sum()
    return relative / torch.where(total > 0, total, torch.ones_like(total))


def current_lr(optimizer: torch.optim.Optimizer) -> float:
    """The optimizer's largest learning rate now."""
    return max(float(group["lr"]) for group in optimizer.param_groups)
