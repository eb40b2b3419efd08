"""Passes of a model at chosen parameters that leave the model, its buffers and the random stream as they were."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairweight.errors import BadInput, LabelsBeyondLogits, NotDifferentiable
from fairweight.metagradient import _written, double_backward
from fairweight.metagradient import model as models
from fairweight.metagradient.model import Parameters, RandomState, exchanged, kernels, trainable, unwrap
from fairweight.types import Batch, Loss, map_tensors

T = TypeVar("T")


def run(
    model: nn.Module, parameters: Parameters, inputs: Any, size: int, then: Callable[[Tensor], T], *,
    buffers: Parameters | None = None, full: bool = False, around: AbstractContextManager[Any] | None = None,
) -> T:  # fmt: skip
    """A forward pass at these parameters, and then something with its logits [B, K], such as a backward pass.

    A backward pass belongs inside: checkpointed layers run again in it, and must do so at the same parameters.
    The model's buffers, or those given, are cloned, so they stay, and so are parameters that the model writes over.
    With full, whatever the model keeps in half precision is used in float32.
    """
    if model in _written.names:
        parameters = _written.spared(model, parameters, around)
    others = models.snapshot(model) if buffers is None else {name: b.clone() for name, b in buffers.items()}
    if full:
        frozen = {name: p.detach() for name, p in model.named_parameters() if name not in parameters}
        others = {name: in_full(t) for name, t in {**others, **frozen}.items()}
        inputs = map_tensors(inputs, in_full)
    with exchanged(model, {**others, **parameters}), models.uncompiled():
        return then(models.call(model, inputs, size, around))


def in_full(t: Tensor) -> Tensor:
    """At least float32."""
    return t.float() if t.dtype in (torch.bfloat16, torch.float16) else t


def classification_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of each sample; of the logistic kind where the model gives one logit."""  # [B]
    logits = in_full(logits)
    if logits.ndim == 1 or logits.shape[1] == 1:
        flat = logits.reshape(len(labels))
        return F.binary_cross_entropy_with_logits(flat, labels.to(flat.dtype), reduction="none")
    return F.cross_entropy(logits, labels, reduction="none")


def predicted(logits: Tensor) -> Tensor:
    """The label with the largest logit."""  # [B]
    if logits.ndim == 1 or logits.shape[1] == 1:
        return (logits.reshape(-1) > 0).long()
    return logits.argmax(dim=1)


def check_not_empty(batch: Batch, what: str) -> None:
    """Refuse a batch without samples."""
    if len(batch) == 0:
        raise BadInput(f"The {what} batch is empty; give at least one sample.")


def extremes(values: Tensor) -> tuple[int, int]:
    """The smallest and the largest of whole numbers, 0 where there are none (a wait on a GPU)."""
    low, high = torch.aminmax(values) if len(values) else (0, 0)
    return int(low), int(high)


def check_labels(logits: Tensor, labels: Tensor, what: str) -> None:
    """Refuse labels that the logits have no column for (reads the labels: a wait on a GPU)."""
    classes = 2 if logits.ndim == 1 else max(2, logits.shape[1])
    low, high = extremes(labels)
    if low < 0 or high >= classes:
        raise LabelsBeyondLogits(
            f"The {what} batch has labels from {low} to {high}, and the model gives {classes} classes: "
            f"number the labels 0 to {classes - 1}, or widen the model's last layer."
        )


@dataclass(frozen=True)
class Mode:
    """How the score gradient is computed, and why."""

    name: str
    plain_kernels: bool = False
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.name}, attention by elementary operations" if self.plain_kernels else self.name


@dataclass(frozen=True)
class Solution:
    """The score gradient, and what was seen on the way to it."""

    gradient: Tensor  # [B]
    objective: Tensor  # []
    exemplar_losses: Tensor  # [E]
    pull: Tensor | None = None  # [B]; the oracle does not see it


@dataclass
class ForwardPass:
    """One forward pass over a train batch with its graph, and what it takes to run it again elsewhere."""

    model: nn.Module  # unwrapped
    parameters: Parameters  # the model's own, those that move
    batch: Batch
    loss: Loss
    logits: Tensor  # [B, K]
    losses: Tensor  # [B]
    random: RandomState  # as it was before the pass
    plain_kernels: bool = False
    buffers: Parameters | None = None  # as they were before the pass; None: as they are
    solution: Solution | None = None  # where the pass has found it already
    check: bool = True  # refuse bad values with a sentence; reads them, which waits for a GPU
    loss_scale: Tensor | None = None  # [] what losses are multiplied by on their way back, against float16's underflow
    ran_as: str | None = None  # how the pass was run, for the record; None: as the gradient mode says
    by_wrapper: bool = False  # the model was called through DistributedDataParallel, which sums gradients

    keeps_graph: ClassVar[bool] = True  # until `backward`; a look at agreement may need it
    whole: ClassVar[bool] = True  # all samples are in one graph, so that the look-ahead itself can be differentiated

    @property
    def device(self) -> torch.device:
        """Where the model lives."""
        return self.logits.device

    @property
    def correct(self) -> Tensor:
        """Whether each prediction equals its label."""  # [B]
        return predicted(self.logits.detach()) == self.batch.labels

    @property
    def root(self) -> Tensor:
        """Where totals are differentiated: at the losses if they are a leaf, else at the logits."""
        return self.losses if self.losses.is_leaf else self.logits

    def run(self, parameters: Parameters, batch: Batch, then: Callable[[Tensor], T], *, full: bool = False) -> T:
        """The model at these parameters, with this pass's masks and kernels, and then something with the logits."""
        with self.random.replayed(), kernels(self.plain_kernels):
            return run(self.model, parameters, batch.inputs, len(batch), then, buffers=self.buffers, full=full)

    def gradients(self, value: Tensor, by: Parameters, *, keep: bool = True, create_graph: bool = False) -> Parameters:
        """Gradient of a value, which goes backward times the loss scale; keep: the graph is needed again."""
        scale = self.loss_scale
        with kernels(self.plain_kernels):  # checkpointed layers run again
            found = torch.autograd.grad(
                value if scale is None else value * scale, list(by.values()), retain_graph=keep or create_graph,
                create_graph=create_graph, allow_unused=True, materialize_grads=True,
            )  # fmt: skip
        return {name: dense(s) if scale is None else dense(s) / scale for name, s in zip(by, found, strict=True)}

    # What the graph behind the losses is used for; a pass that keeps no graph overrides these.
    # A total is a scalar made of the losses, []; or weights [B], which stand for the weighted sum.

    def slopes(self, total: Tensor, moving: Parameters, *, create_graph: bool = False) -> Parameters:
        """Gradient of a total by the parameters; the graph is kept for the real step."""
        return self.gradients(self._summed(total), moving, create_graph=create_graph)

    def pull(self, direction: Parameters) -> Tensor | None:
        """Directional derivative of each loss, where the pass holds it; None: it takes a tangent."""  # [B]
        return None

    def backward(self, total: Tensor) -> None:
        """Add the gradient of a total to every parameter's `.grad`."""
        total = self._summed(total)
        if total.requires_grad:
            with kernels(self.plain_kernels):
                total.backward()  # type: ignore[no-untyped-call]

    def _summed(self, total: Tensor) -> Tensor:
        with torch.enable_grad():
            return total if total.ndim == 0 else (total * self.losses).sum()

    def _at_root(self, total: Tensor) -> Tensor:
        """Gradient of a total by the root."""
        if total.ndim and self.root is self.losses:
            return total.detach().to(self.losses.dtype)
        return torch.autograd.grad(self._summed(total), self.root, retain_graph=True)[0]

    # A pass of several parts or ranks overrides these.

    def each(self, find: Callable[[ForwardPass], Tensor], *, graph: bool = False) -> Tensor:
        """What `find` gives for every sample, part by part; graph: it needs the part's graph."""  # [B, ...]
        return find(self)

    def exemplars(self, exemplar: Batch) -> Batch:
        """The exemplar batch of all ranks (without inputs), of which this rank's part is given."""
        return exemplar

    def exemplar_losses(self, losses: Tensor) -> Tensor:
        """The losses of all ranks' exemplars, of which this rank's part is given, with its graph."""  # [E]
        return losses

    def summed(self, direction: Parameters) -> Parameters:
        """The gradient summed over all ranks, of which this rank's part is given."""
        return direction


def write_slopes(parameters: Parameters, slopes: Parameters) -> None:
    """Add to `.grad`, as a backward pass would; a parameter that was not used gets none."""
    for name, slope in slopes.items():
        p = parameters[name]
        p.grad = slope if p.grad is None else p.grad + slope


def pull_by_tangent(done: ForwardPass, moved: Tensor) -> Tensor:
    """Directional derivative of each loss, from how the logits move."""  # [B]
    with torch.enable_grad():
        z = in_full(done.logits.detach()).requires_grad_()
        losses = done.loss(z, done.batch.labels)
        if done.loss is not classification_loss:  # one of the caller's may see other samples' rows, too
            with suppress(RuntimeError):  # where it has a first derivative alone, the trial has compared what follows
                return double_backward.moved([losses], [z], [moved])[0]
        (slope,) = torch.autograd.grad(losses.sum(), z)  # a loss sees its own row alone
    along = slope * moved
    return (along if along.ndim == 1 else along.flatten(1).sum(dim=1)).to(losses.dtype)


def dense(slope: Tensor) -> Tensor:
    """A gradient as a plain tensor: embeddings may give sparse ones."""
    return slope.to_dense() if slope.is_sparse else slope


def forward(
    model: nn.Module, batch: Batch, loss: Loss = classification_loss, *, plain_kernels: bool = False,
    twice: bool = False, check: bool = True, around: AbstractContextManager[Any] | None = None,
    parameters: Parameters | None = None,
) -> ForwardPass:  # fmt: skip
    """The real forward pass: running statistics and the random stream move, as in any training step.

    twice: several backward passes will go through the graph, which torch.compile does not allow (on a GPU its backward
    pass frees what was saved), so its wrapper is left out. around: entered for the model's own pass.
    parameters: those that move, where they are at hand.
    """
    inner = unwrap(model)
    model = getattr(model, "_orig_mod", model) if twice else model
    parameters, buffers = parameters or trainable(inner), models.snapshot(inner)
    random = RandomState.now(next(iter(parameters.values())).device)
    with torch.enable_grad(), kernels(plain_kernels), models.restored_on_error(inner, buffers, random):
        with models.uncompiled() if twice else nullcontext():
            logits = models.call(model, batch.inputs, len(batch), around)
        losses = losses_with_graph(loss, logits, batch.labels, check=check)
    wrapped = model is not inner and models.data_parallel(model) is not None
    return ForwardPass(
        inner, parameters, batch, loss, logits, losses, random, plain_kernels, buffers, check=check, by_wrapper=wrapped
    )


def virtual_forward(
    model: nn.Module, batch: Batch, loss: Loss = classification_loss, *, plain_kernels: bool = False,
    around: AbstractContextManager[Any] | None = None, parameters: Parameters | None = None,
) -> ForwardPass:  # fmt: skip
    """A forward pass with its graph that moves nothing: neither running statistics nor the random stream."""
    inner = unwrap(model)
    parameters = parameters or trainable(inner)
    random = RandomState.now(next(iter(parameters.values())).device)
    with torch.enable_grad(), random.replayed(), kernels(plain_kernels):
        logits = run(inner, parameters, batch.inputs, len(batch), lambda logits: logits, around=around)
        losses = losses_with_graph(loss, logits, batch.labels)
    return ForwardPass(inner, parameters, batch, loss, logits, losses, random, plain_kernels)


def losses_with_graph(loss: Loss, logits: Tensor, labels: Tensor, *, check: bool = True) -> Tensor:
    """Losses [B], refused where no parameter has a part in them; check: also where the labels do not fit."""
    if check:
        check_labels(logits, labels, "train")
    losses = per_sample(loss, logits, labels)
    if not losses.requires_grad:
        raise NotDifferentiable(
            "The losses do not depend on the model's parameters; remove detach() or no_grad from its forward pass."
        )
    return losses


def per_sample(loss: Loss, logits: Tensor, labels: Tensor) -> Tensor:
    """Losses [B], refused when the loss function reduces them."""
    losses = loss(logits, labels)
    if not isinstance(losses, Tensor) or losses.shape != labels.shape:
        what = f"shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else type(losses).__name__
        raise BadInput(
            f"The loss function returned {what} for {len(labels)} samples; "
            "return one loss per sample (reduction='none')."
        )
    return losses
