"""Pixels to floats on the device, by statistics of the train rows."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Pixels: TypeAlias = NDArray[np.uint8]
Sums: TypeAlias = NDArray[np.int64]


class Normalize(nn.Module):
    """Brings uint8 images [B, C, H, W] to floats of mean 0 and deviation 1 per channel, as a model's first layer."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        # Not saved with the weights: they travel in the preprocessing, and a model has them from its first line.
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)  # [C, 1, 1]
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Scale and centre; floats are taken to be scaled to 0..1 already."""
        scaled = inputs.to(self.mean.dtype) / 255 if inputs.dtype == torch.uint8 else inputs
        return (scaled - self.mean) / self.std


def pixel_sums(pixels: Pixels, at_once: int = 256) -> Sums:
    """Sum each image and its squares per channel: whole numbers, so that any set of rows has exact statistics."""
    sums = np.empty((len(pixels), 2, pixels.shape[1]), dtype=np.int64)  # [N, 2, C]
    squares = (np.arange(256) ** 2).astype(np.uint16)  # looking a square up is quicker than making it
    for start in range(0, len(pixels), at_once):
        block = pixels[start : start + at_once]  # [b, C, H, W]
        sums[start : start + at_once, 0] = block.sum(axis=(2, 3), dtype=np.int64)
        sums[start : start + at_once, 1] = squares[block].sum(axis=(2, 3), dtype=np.int64)
    return sums


def statistics(sums: Sums, pixels_per_image: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Compute mean and deviation of each channel on the scale 0..1, from the sums of the images."""
    mean, square = sums.sum(axis=0) / (len(sums) * pixels_per_image)  # [C] each
    std = np.sqrt(np.maximum(square - mean**2, 0.0)) / 255
    return tuple((mean / 255).tolist()), tuple(np.where(std > 0, std, 1.0).tolist())
