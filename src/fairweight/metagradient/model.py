"""A model for the time of a pass: what it holds and gives, and the setting in which it runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from fairweight.errors import BadInput, FairweightError, NoLogits
from fairweight.metagradient import _python_random
from fairweight.ranks import Unseen

Parameters = dict[str, Tensor]


def wrapped(model: nn.Module) -> Iterator[nn.Module]:
    """The model, and what is inside its wrappers (torch.compile's, data-parallel ones), from outside in."""
    inner: Any = model
    while isinstance(inner, nn.Module):
        yield inner
        parallel = isinstance(inner, nn.parallel.DistributedDataParallel | nn.DataParallel)
        inner = inner.module if parallel else getattr(inner, "_orig_mod", None)


def unwrap(model: nn.Module) -> nn.Module:
    """The module inside torch.compile's or a data-parallel wrapper."""
    return list(wrapped(model))[-1]


def data_parallel(model: nn.Module) -> nn.parallel.DistributedDataParallel | None:
    """The DistributedDataParallel around a module, inside torch.compile's wrapper or not."""
    return next((m for m in wrapped(model) if isinstance(m, nn.parallel.DistributedDataParallel)), None)


def trainable(model: nn.Module) -> Parameters:
    """The parameters that move, each once, by its first name."""
    parameters: Parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not parameters:
        raise BadInput("The model has no parameter that requires a gradient; unfreeze at least one layer.")
    return parameters


def logits_of(output: Any, size: int) -> Tensor:
    """The logits in a model's output: a tensor, an object or dict with logits, or the first item of a tuple."""
    logits = output
    if isinstance(output, Mapping):
        logits = output.get("logits")
    elif not isinstance(output, Tensor) and hasattr(output, "logits"):
        logits = output.logits
    elif isinstance(output, tuple | list) and output:
        logits = output[0]
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        raise NoLogits(
            f"The model returned {type(output).__name__}, in which no logits were found; return a tensor [B, K], "
            "an object or dict with 'logits', or pass a small wrapper module that does."
        )
    if logits.ndim not in (1, 2) or logits.shape[0] != size:
        raise NoLogits(
            f"The model returned logits of shape {tuple(logits.shape)} for {size} samples; "
            f"return [{size}, classes], or [{size}] for a binary task."
        )
    return logits


def call(model: nn.Module, inputs: Any, size: int, around: AbstractContextManager[Any] | None = None) -> Tensor:
    """The model's own forward pass: a tensor or a tuple is given by position, a mapping by name."""  # [B, K]
    if isinstance(inputs, Unseen):
        return call(model, inputs.inputs, inputs.size, around)[:0]
    with around or nullcontext():
        if isinstance(inputs, Mapping):
            output = model(**inputs)
        else:
            output = model(*inputs) if isinstance(inputs, tuple | list) else model(inputs)
    return logits_of(output, size)


def snapshot(model: nn.Module) -> Parameters:
    """Copies of the buffers, such as running statistics."""
    return {name: b.clone() for name, b in model.named_buffers()}


@contextmanager
def exchanged(model: nn.Module, tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Parameters and buffers by name, each wherever the model holds it; the model's own come back whatever happens.

    Every place is exchanged once, so a layer that is reachable under two names gets back what it had.
    """
    named: dict[str, tuple[dict[str, Any], str, Tensor]] = {}  # every place, under its first name
    for prefix, module in model.named_modules():
        for held in (module._parameters, module._buffers):
            for key, own in held.items():
                if own is not None:
                    named[f"{prefix}.{key}" if prefix else key] = held, key, own
    instead = {id(named[name][2]): t for name, t in tensors.items()}
    places = [place for place in named.values() if id(place[2]) in instead]
    try:
        for place, key, own in places:
            place[key] = instead[id(own)]
        yield
    finally:
        for place, key, own in places:
            place[key] = own


@dataclass(frozen=True)
class RandomState:
    """The random stream at one moment, on the CPU and on one GPU."""

    cpu: Tensor  # empty inside a CUDA graph, which only models without randomness are captured in
    cuda: Tensor | None
    device: torch.device
    python: Any = None  # Python's and numpy's, where a model draws from them

    @classmethod
    def now(cls, device: torch.device) -> RandomState:
        """Remember the stream."""
        python = _python_random.streams() if _python_random.drawing else None
        if device.type != "cuda":
            return cls(torch.get_rng_state(), None, device, python)
        if torch.cuda.is_current_stream_capturing():
            return cls.none(device)
        return cls(torch.get_rng_state(), torch.cuda.get_rng_state(device), device, python)

    @classmethod
    def none(cls, device: torch.device) -> RandomState:
        """No state: restoring it does nothing."""
        return cls(torch.empty(0, dtype=torch.uint8), None, device)

    def restore(self) -> None:
        """Put the stream back to this moment."""
        if len(self.cpu):
            torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda, self.device)
        if self.python is not None:
            _python_random.restore(self.python)

    @contextmanager
    def replayed(self) -> Iterator[None]:
        """Run from this moment on, then give the caller's stream back: every pass of a step sees the same masks."""
        after = RandomState.now(self.device) if len(self.cpu) else self
        self.restore()
        try:
            yield
        finally:
            after.restore()

    def unchanged(self) -> bool:
        """Whether nothing was drawn since."""
        now = RandomState.now(self.device)
        same = torch.equal(self.cpu, now.cpu) and (self.python is None or repr(self.python) == repr(now.python))
        return same and (self.cuda is None or now.cuda is None or torch.equal(self.cuda, now.cuda))


@contextmanager
def kernels(plain: bool) -> Iterator[None]:
    """With plain: attention by elementary operations, which have forward-mode and second derivatives."""
    if not plain:
        yield
        return
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def uncompiled() -> AbstractContextManager[Any]:
    """Leave torch.compile out, wherever a model has it: in place, in a submodule, in a function it calls.

    Its graphs can be gone back through once, and derivatives of another kind not be taken of them.
    """
    if "torch._dynamo" not in sys.modules:  # nothing is compiled; to load it takes a second
        return nullcontext()
    return torch.compiler.set_stance("force_eager")  # type: ignore[no-any-return]


@contextmanager
def restored_on_error(model: nn.Module, buffers: Parameters | None, random: RandomState) -> Iterator[None]:
    """Put running statistics and the random stream back to these where something is refused inside."""
    try:
        yield
    except FairweightError:
        with torch.no_grad():
            for name, value in (buffers or {}).items():
                model.get_buffer(name).copy_(value)
        random.restore()
        raise
