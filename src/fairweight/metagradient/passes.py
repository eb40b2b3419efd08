"""Passes of a model at chosen parameters that leave the model, its buffers and the random stream as they were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from fairweight.errors import BadInput, LabelsBeyondLogits, NoLogits
from fairweight.types import Batch, Loss, map_tensors

Parameters = dict[str, Tensor]


def unwrap(model: nn.Module) -> nn.Module:
    """The module inside torch.compile's or a data-parallel wrapper."""
    while True:
        if isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):
            model = inner
        else:
            return model


def trainable(model: nn.Module) -> Parameters:
    """The parameters that move, each once, by its first name."""
    found: Parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not found:
        raise BadInput("The model has no parameter that requires a gradient; unfreeze at least one layer.")
    return found


def logits_of(output: Any, size: int) -> Tensor:
    """The logits in a model's output: a tensor, an object or dict with logits, or the first item of a tuple."""
    found = output
    if isinstance(output, Mapping):
        found = output.get("logits")
    elif not isinstance(output, Tensor) and hasattr(output, "logits"):
        found = output.logits
    elif isinstance(output, tuple | list) and output:
        found = output[0]
    if not isinstance(found, Tensor) or not found.is_floating_point():
        raise NoLogits(
            f"The model returned {type(output).__name__}, in which no logits were found; return a tensor [B, K], "
            "an object or dict with 'logits', or pass a small wrapper module that does."
        )
    if found.ndim not in (1, 2) or found.shape[0] != size:
        raise NoLogits(
            f"The model returned logits of shape {tuple(found.shape)} for {size} samples; "
            f"return [{size}, classes], or [{size}] for a binary task."
        )
    return found


def _arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    if isinstance(inputs, tuple | list):
        return tuple(inputs), {}
    return (inputs,), {}


def call(model: nn.Module, inputs: Any, size: int) -> Tensor:
    """The model's own forward pass."""  # [B, K]
    args, kwargs = _arguments(inputs)
    return logits_of(model(*args, **kwargs), size)


def run(model: nn.Module, parameters: Parameters, inputs: Any, size: int, *, full: bool = False) -> Tensor:
    """A forward pass at these parameters; buffers are cloned, so running statistics stay.

    With full, whatever the model keeps in half precision is used in float32.
    """  # [B, K]
    others = {name: b.clone() for name, b in model.named_buffers()}
    if full:
        frozen = {name: p.detach() for name, p in model.named_parameters() if name not in parameters}
        others = {name: in_full(t) for name, t in {**others, **frozen}.items()}
        inputs = map_tensors(inputs, in_full)
    args, kwargs = _arguments(inputs)
    return logits_of(functional_call(model, (parameters, others), args, kwargs), size)


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


def check_labels(logits: Tensor, labels: Tensor, what: str) -> None:
    """Refuse labels that the logits have no column for (reads the labels: a wait on a GPU)."""
    classes = 2 if logits.ndim == 1 else max(2, logits.shape[1])
    if len(labels) == 0:
        raise BadInput(f"The {what} batch is empty; give at least one sample.")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise LabelsBeyondLogits(
            f"The {what} batch has labels from {low} to {high}, and the model gives {classes} classes: "
            f"number the labels 0 to {classes - 1}, or widen the model's last layer."
        )


@dataclass(frozen=True)
class RandomState:
    """The random stream at one moment, on the CPU and on one GPU."""

    cpu: Tensor
    cuda: Tensor | None
    device: torch.device

    @classmethod
    def now(cls, device: torch.device) -> RandomState | None:
        """Remember the stream; None inside a CUDA graph, which only models without randomness are captured in."""
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return None
        cuda = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
        return cls(torch.get_rng_state(), cuda, device)

    def restore(self) -> None:
        """Put the stream back to this moment."""
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda, self.device)

    @contextmanager
    def replayed(self) -> Iterator[None]:
        """Run from this moment on, then give the caller's stream back: every pass of a step sees the same masks."""
        after = RandomState.now(self.device)
        self.restore()
        try:
            yield
        finally:
            if after is not None:
                after.restore()

    def unchanged(self) -> bool:
        """Whether nothing was drawn since."""
        now = RandomState.now(self.device)
        if now is None or not torch.equal(self.cpu, now.cpu):
            return False
        return self.cuda is None or now.cuda is None or torch.equal(self.cuda, now.cuda)


@contextmanager
def kernels(plain: bool) -> Iterator[None]:
    """With plain: attention by elementary operations, which have forward-mode and second derivatives."""
    if not plain:
        yield
        return
    fast = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)


@dataclass
class ForwardPass:
    """One forward pass over a train batch with its graph, and what it takes to run it again elsewhere."""

    model: nn.Module  # unwrapped
    parameters: Parameters  # the model's own, those that move
    batch: Batch
    loss: Loss
    logits: Tensor  # [B, K]
    losses: Tensor  # [B]
    random: RandomState | None  # as it was before the pass
    plain_kernels: bool = False

    @property
    def device(self) -> torch.device:
        """Where the model lives."""
        return self.logits.device

    @contextmanager
    def again(self) -> Iterator[None]:
        """The setting of this pass: same masks, same attention kernels."""
        with nullcontext() if self.random is None else self.random.replayed(), kernels(self.plain_kernels):
            yield


def forward(
    model: nn.Module, batch: Batch, loss: Loss = classification_loss, *, plain_kernels: bool = False, check: bool = True
) -> ForwardPass:
    """The real forward pass: running statistics and the random stream move, as in any training step."""
    inner = unwrap(model)
    parameters = trainable(inner)
    random = RandomState.now(next(iter(parameters.values())).device)
    with torch.enable_grad(), kernels(plain_kernels):
        logits = call(model, batch.inputs, len(batch))
        if check:
            check_labels(logits, batch.labels, "train")
        losses = per_sample(loss, logits, batch.labels)
    return ForwardPass(inner, parameters, batch, loss, logits, losses, random, plain_kernels)


def virtual_forward(
    model: nn.Module, batch: Batch, loss: Loss = classification_loss, *, plain_kernels: bool = False
) -> ForwardPass:
    """A forward pass with its graph that moves nothing: neither running statistics nor the random stream."""
    inner = unwrap(model)
    parameters = trainable(inner)
    random = RandomState.now(next(iter(parameters.values())).device)
    replay = nullcontext() if random is None else random.replayed()
    with torch.enable_grad(), replay, kernels(plain_kernels):
        logits = run(inner, parameters, batch.inputs, len(batch))
        check_labels(logits, batch.labels, "train")
        losses = per_sample(loss, logits, batch.labels)
    return ForwardPass(inner, parameters, batch, loss, logits, losses, random, plain_kernels)


def per_sample(loss: Loss, logits: Tensor, labels: Tensor) -> Tensor:
    """Losses [B], refused when the loss function reduces them."""
    losses = loss(logits, labels)
    if losses.shape != labels.shape:
        raise BadInput(
            f"The loss function returned shape {tuple(losses.shape)} for {len(labels)} samples; "
            "return one loss per sample (reduction='none')."
        )
    return losses


@contextmanager
def norms_frozen(model: nn.Module, frozen: bool) -> Iterator[None]:
    """With frozen: batch norm uses its running statistics for the time being."""
    changed = []
    if frozen:
        for module in model.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.training:
                module.training = False
                changed.append(module)
    try:
        yield
    finally:
        for module in changed:
            module.training = True
