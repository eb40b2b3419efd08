"""The setting in which a pass runs: the random stream, the kernels, and how batch norm gets its statistics."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from fairweight.errors import FairweightError


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
