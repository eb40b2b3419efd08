"""A model for the time of a pass: what it holds and gives, and the setting in which it runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from fairweight.errors import BadInput, FairweightError, NoLogits

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


def data_parallel(model: nn.Module) -> nn.parallel.DistributedDataParallel | None:
    """The DistributedDataParallel around a module, inside torch.compile's wrapper or not."""
    while not isinstance(model, nn.parallel.DistributedDataParallel):
        inner = getattr(model, "_orig_mod", None)
        if not isinstance(inner, nn.Module):
            return None
        model = inner
    return model


def is_compiled(model: nn.Module) -> bool:
    """Whether torch.compile wraps the module; its graphs may not be gone back through twice."""
    while isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
        model = model.module
    return isinstance(getattr(model, "_orig_mod", None), nn.Module)


def holds_compiled(model: nn.Module) -> bool:
    """Whether torch.compile wraps the module or a submodule, or was called in place."""
    return any(
        isinstance(getattr(m, "_orig_mod", None), nn.Module) or getattr(m, "_compiled_call_impl", None) is not None
        for m in model.modules()
    )


def trainable(model: nn.Module) -> Parameters:
    """The parameters that move, each once, by its first name."""
    found: Parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not found:
        raise BadInput("The model has no parameter that requires a gradient; unfreeze at least one layer.")
    return found


def hooked(parameters: Parameters) -> str | None:
    """The first parameter with a hook that changes its gradient or acts on it: only a backward pass calls those."""
    hooks = ("_backward_hooks", "_post_accumulate_grad_hooks")
    return next((name for name, p in parameters.items() if any(getattr(p, h, None) for h in hooks)), None)


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


def call_arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a model is called with: a tensor or a tuple by position, a mapping by name."""
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    if isinstance(inputs, tuple | list):
        return tuple(inputs), {}
    return (inputs,), {}


def call(model: nn.Module, inputs: Any, size: int) -> Tensor:
    """The model's own forward pass."""  # [B, K]
    args, kwargs = call_arguments(inputs)
    return logits_of(model(*args, **kwargs), size)


def snapshot(model: nn.Module) -> Parameters:
    """Copies of the buffers, such as running statistics."""
    return {name: b.clone() for name, b in model.named_buffers()}


@contextmanager
def exchanged(model: nn.Module, tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Parameters and buffers by name, each wherever the model holds it; the model's own come back whatever happens.

    Every place is exchanged once, so a layer that is reachable under two names gets back what it had.
    """
    places: list[tuple[dict[str, Any], str, Tensor]] = []
    named: dict[str, Tensor] = {}
    for prefix, module in model.named_modules():  # each once, under its first name
        if not module._parameters and not module._buffers:
            continue
        both: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
        for held in both:
            for key, own in held.items():
                if own is not None:
                    named.setdefault(f"{prefix}.{key}" if prefix else key, own)
                    places.append((held, key, own))
    if not tensors.keys() <= named.keys():  # by another of its names
        named.update(model.named_parameters(remove_duplicate=False))
        named.update(model.named_buffers(remove_duplicate=False))
    instead = {id(named[name]): t for name, t in tensors.items()}
    places = [(held, key, own) for held, key, own in places if id(own) in instead]
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


@contextmanager
def casts_forgotten() -> Iterator[None]:
    """Without autocast's memory of what it has cast: copies of parameters would stay in it until autocast ends."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


def uncompiled() -> AbstractContextManager[Any]:
    """Leave torch.compile out, wherever a model has it: in place, in a submodule, in a function it calls.

    Its graphs can be gone back through once, and derivatives of another kind not be taken of them.
    """
    if "torch._dynamo" not in sys.modules:  # nothing is compiled; to load it takes a second
        return nullcontext()
    stance: Any = torch.compiler.set_stance
    found: AbstractContextManager[Any] = stance("force_eager")
    return found


@contextmanager
def restored_on_error(
    model: nn.Module, buffers: dict[str, Tensor] | None, random: RandomState | None
) -> Iterator[None]:
    """Put running statistics and the random stream back to these where something is refused inside."""
    try:
        yield
    except FairweightError:
        with torch.no_grad():
            for name, value in (buffers or {}).items():
                model.get_buffer(name).copy_(value)
        if random is not None:
            random.restore()
        raise


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
