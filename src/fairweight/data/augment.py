"""Random flips and shifts of image tensors, where the tensors are: (inputs, generator) -> inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, cast

import torch
from torch import Tensor
from torch.nn import functional

from fairweight.errors import BadInput
from fairweight.types import sent

Augment: TypeAlias = Callable[[Tensor, torch.Generator], Tensor]


class Places(NamedTuple):
    """Where each row and column of the moved images comes from; an image's height or width stands for zeros."""

    rows: Tensor  # [B, H]
    columns: Tensor  # [B, W]


class Flip:
    """Mirrors each image left to right with the given probability."""

    def __init__(self, probability: float = 0.5) -> None:
        if not 0.0 <= probability <= 1.0:
            raise BadInput(f"Flip's probability is {probability}; give a number from 0 to 1.")
        self.probability = probability

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        return _moved(inputs, (self,), generator)

    def move(self, places: Places, size: tuple[int, int], generator: torch.Generator) -> Places:
        drawn = torch.rand(len(places.columns), generator=generator, device=generator.device)
        mirrored = (drawn < self.probability)[:, None]
        return places._replace(columns=torch.where(mirrored, places.columns.flip(1), places.columns))


class Shift:
    """Moves each image by up to `pixels` in both directions: zeros around it, then a crop at a random place."""

    def __init__(self, pixels: int = 4) -> None:
        if pixels < 0:
            raise BadInput(f"Shift's pixels is {pixels}; give 0 or more.")
        self.pixels = pixels

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        return _moved(inputs, (self,), generator)

    def move(self, places: Places, size: tuple[int, int], generator: torch.Generator) -> Places:
        count, device = len(places.rows), generator.device
        starts = torch.randint(0, 2 * self.pixels + 1, (2, count), generator=generator, device=device)

        def cropped(axis: Tensor, start: Tensor, length: int) -> Tensor:
            around = functional.pad(axis, [self.pixels] * 2, value=length)  # [B, length + 2p]
            return around.gather(1, start[:, None] + torch.arange(length, device=device))

        return Places(cropped(places.rows, starts[0], size[0]), cropped(places.columns, starts[1], size[1]))


class Chain:
    """One augmentation after the other."""

    def __init__(self, *steps: Augment) -> None:
        self.steps = steps

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        moving = [step for step in self.steps if type(step) in (Flip, Shift)]
        if len(moving) == len(self.steps):
            return _moved(inputs, cast(list[Flip | Shift], moving), generator)
        for step in self.steps:
            inputs = step(inputs, generator)
        return inputs


def _moved(inputs: Tensor, steps: Sequence[Flip | Shift], generator: torch.Generator) -> Tensor:
    """Apply these steps: work out where pixels come from first, then move the pixels once.

    On a GPU that is one copy of the places and four kernels, however many the steps; drawing and composing the places,
    which are small, is the host's work.
    """
    if inputs.ndim != 4:
        raise BadInput(f"augmentation takes images [B, C, H, W] and was given {tuple(inputs.shape)}.")
    count, channels, height, width = inputs.shape
    device = generator.device
    places = Places(
        torch.arange(height, device=device).expand(count, height),
        torch.arange(width, device=device).expand(count, width),
    )
    for step in steps:
        places = step.move(places, (height, width), generator)
    sources = sent(torch.cat(places, dim=1), inputs.device)  # [B, H + W], one copy
    rows, columns = sources[:, :height], sources[:, height:]
    if not any(isinstance(step, Shift) for step in steps):  # columns as they were, or all the other way round
        return torch.where((columns[:, 0] > 0)[:, None, None, None], inputs.flip(3), inputs)
    across = columns[:, None, None, :].expand(-1, channels, height, -1)  # [B, C, H, W]
    zeros_after = functional.pad(inputs, [0, 1, 0, 1])  # [B, C, H + 1, W + 1]
    return zeros_after.gather(2, rows[:, None, :, None].expand(-1, channels, -1, width + 1)).gather(3, across)
