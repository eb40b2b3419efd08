"""What went through one linear layer during a pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from fairweight.errors import NotDifferentiable


class Watched:
    """A linear layer, with its input and output in the pass that ran while it was watched."""

    def __init__(self, layer: nn.Linear) -> None:
        self.layer = layer
        self.calls = 0
        self.input: Tensor | None = None  # [B, D]
        self._output: Tensor | None = None  # [B, K]

    @contextmanager
    def during(self) -> Iterator[None]:
        """Watch the pass that is made inside."""
        handle = self.layer.register_forward_hook(self._see, with_kwargs=True)
        try:
            yield
        finally:
            handle.remove()

    def _see(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> None:
        self.calls += 1
        self.input = (args[0] if args else kwargs["input"]).detach()
        self._output = output.detach()  # the same memory

    def ends(self, logits: Tensor) -> Watched:
        """Itself, where the logits are what the layer gave in its one call; otherwise refuse."""
        z = self._output
        if (
            self.calls != 1
            or z is None
            or self.input is None
            or self.input.ndim != 2
            or z.numel() != logits.numel()
            or z.data_ptr() != logits.data_ptr()
        ):
            raise NotDifferentiable(
                "The model's logits are not the output of its last linear layer in this pass, so its closed form "
                "does not support them; use gradient='forward' or 'double-backward'."
            )
        self._output = None
        return self

    def tangent(self, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """How the layer's output moves with its own parameters: h Vᵀ + c, in at least float32."""  # [B, K]
        assert self.input is not None
        h = _full(self.input)
        with torch.autocast(h.device.type, enabled=False):
            moved = h.new_zeros(len(h), self.layer.out_features)
            if weight is not None:
                moved = h @ _full(weight).T
            return moved if bias is None else moved + _full(bias)

    def slopes(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient by the layer's weight and bias, where that by its output is g."""  # [K, D], [K]
        assert self.input is not None
        with torch.autocast(g.device.type, enabled=False):
            return g.T @ _full(self.input).to(g.dtype), g.sum(dim=0)


def _full(t: Tensor) -> Tensor:
    return t.float() if t.dtype in (torch.bfloat16, torch.float16) else t


def hooks_are_seen(model: nn.Module) -> bool:
    """Whether a hook put on a layer now fires when this model is called, once, in this thread."""
    while isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
        if isinstance(model, nn.DataParallel) and len(model.device_ids) > 1:
            return False
        model = model.module
    return not isinstance(getattr(model, "_orig_mod", None), nn.Module) and not _compiled_inside(model)


@contextmanager
def uncompiled(model: nn.Module) -> Iterator[None]:
    """Run what torch.compile made of parts of the model as plain Python, where hooks fire."""
    with torch.compiler.set_stance("force_eager") if _compiled_inside(model) else nullcontext():
        yield


def _compiled_inside(model: nn.Module) -> bool:
    return any(m._compiled_call_impl is not None or hasattr(m, "_orig_mod") for m in model.modules())
