"""Pixels to floats on the device, by statistics of the train rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    import numpy as np


class Normalize(nn.Module):
    """Takes uint8 images [B, C, H, W] to floats of mean 0 and deviation 1 per channel, as a model's first layer."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        # Not saved with the weights: they travel in the preprocessing, and a model has them from its first line.
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)  # [C, 1, 1]
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Floats are taken to be scaled to 0..1 already."""
        scaled = inputs.to(self.mean.dtype) / 255 if inputs.dtype == torch.uint8 else inputs
        return (scaled - self.mean) / self.std


def pixel_statistics(
    pixels: np.ndarray[Any, Any], rows: Tensor, at_once: int = 2048
) -> tuple[list[float], list[float]]:
    """Mean and deviation of each channel over these rows, on the scale 0..1; whole-number sums, so exact."""
    import numpy as np

    channels = pixels.shape[1]
    total = np.zeros(channels, dtype=np.int64)
    squares = np.zeros(channels, dtype=np.int64)
    for start in range(0, len(rows), at_once):
        block = pixels[rows[start : start + at_once].numpy()]  # [b, C, H, W]
        for channel in range(channels):
            # 256 counts hold every sum that is needed, and counting is quicker than squaring.
            counts = np.bincount(block[:, channel].ravel(), minlength=256)
            total[channel] += int(counts @ np.arange(256))
            squares[channel] += int(counts @ np.arange(256) ** 2)
    size = len(rows) * pixels.shape[2] * pixels.shape[3]
    mean = total / size
    variance = squares / size - mean**2
    std = np.sqrt(np.maximum(variance, 0.0)) / 255
    return (mean / 255).tolist(), np.where(std > 0, std, 1.0).tolist()
