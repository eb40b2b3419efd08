"""How a run is carried out at full speed on its device; what it learns does not depend on it beyond rounding."""

from __future__ import annotations

import os

import torch
from torch import nn

from fairweight.methods import Reweighter

# Steps from which compiling is won back, on an H200: FORML's takes a minute and saves 9 ms a step, a plain step's takes
# half a minute and saves half a millisecond.
LEARNED_FROM, PLAIN_FROM = 6_000, 50_000


def laid_out(model: nn.Module, device: str) -> nn.Module:
    """The model on its device; on a GPU convolutions hold their channels last, as its kernels want them."""
    model = model.to(device)
    if on_gpu(device) and convolves(model):
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def compiles(reweighter: Reweighter, device: str, steps: int) -> bool:
    """Whether to compile the step: a convolutional network on a GPU for many steps; FAIRWEIGHT_COMPILE=0 or 1 decides.

    A small MLP is bound by launches, which a captured graph does away with already.
    """
    told = os.environ.get("FAIRWEIGHT_COMPILE", "")
    if told in ("0", "1"):
        return told == "1"
    learns = bool(reweighter.needs & {"exemplar", "exemplar groups"})
    return on_gpu(device) and convolves(reweighter.model) and steps >= (LEARNED_FROM if learns else PLAIN_FROM)


def on_gpu(device: str) -> bool:
    """Whether the device is a GPU."""
    return device.startswith("cuda")


def convolves(model: nn.Module) -> bool:
    """Whether the network has two-dimensional convolutions."""
    return any(isinstance(part, nn.Conv2d) for part in model.modules())
