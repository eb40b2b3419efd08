"""Random flips and shifts of image tensors, where the tensors are: (inputs, generator) -> inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from fairweight.errors import BadInput
from fairweight.types import sent

Augment: TypeAlias = Callable[[Tensor, torch.Generator], Tensor]


class Flip:
    """Mirrors each image left to right with the given probability."""

    def __init__(self, probability: float = 0.5) -> None:
        if not 0.0 <= probability <= 1.0:
            raise BadInput(f"Flip's probability is {probability}; give a number from 0 to 1.")
        self.probability = probability

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        """The images, some mirrored."""
        _check(inputs)
        drawn = sent(torch.rand(len(inputs), generator=generator, device=generator.device), inputs.device)
        mirrored = (drawn < self.probability).view(-1, 1, 1, 1)
        return torch.where(mirrored, inputs.flip(-1), inputs)


class Shift:
    """Moves each image by up to `pixels` in both directions: zeros around it, then a crop at a random place."""

    def __init__(self, pixels: int = 4) -> None:
        if pixels < 0:
            raise BadInput(f"Shift's pixels is {pixels}; give 0 or more.")
        self.pixels = pixels

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        """The images, each moved."""
        _check(inputs)
        count, channels, height, width = inputs.shape
        drawn = torch.randint(0, 2 * self.pixels + 1, (2, count), generator=generator, device=generator.device)
        top, left = sent(drawn, inputs.device)  # [B] each
        padded = functional.pad(inputs, [self.pixels] * 4)  # [B, C, H + 2p, W + 2p]
        rows = top[:, None] + torch.arange(height, device=inputs.device)  # [B, H]
        columns = left[:, None] + torch.arange(width, device=inputs.device)  # [B, W]
        # Two gathers move whole rows and columns: no loop over images, and no float copy of the batch.
        tall = padded.gather(2, rows[:, None, :, None].expand(-1, channels, -1, padded.shape[3]))
        return tall.gather(3, columns[:, None, None, :].expand(-1, channels, height, -1))


class Chain:
    """One augmentation after the other."""

    def __init__(self, *steps: Augment) -> None:
        self.steps = steps

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        """The images after all steps."""
        for step in self.steps:
            inputs = step(inputs, generator)
        return inputs


def _check(inputs: Tensor) -> None:
    if inputs.ndim != 4:
        raise BadInput(f"augmentation takes images [B, C, H, W] and was given {tuple(inputs.shape)}.")
