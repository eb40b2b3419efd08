"""Wrong labels among classes that are easy to tell apart."""

from __future__ import annotations

import torch

from fairweight.data.draw import stream
from fairweight.data.options import Split
from fairweight.data.rows import Rows
from fairweight.data.source import Found, Request


class SyntheticNoise:
    """Synthetic noise: three classes with a gap between them; under wrong labels the best weights are 0 and 1.

    Points lie within 0.5 of the three corners of a triangle of side 3, so that straight lines part the classes without
    error. Give it a corruption, such as one-class:label=2,fraction=0.2: the best weights are 0 where the label is
    wrong and equal elsewhere, and the best test accuracy is 1.
    """

    label = "label"
    group: tuple[str, ...] = ()
    needs = ("nothing",)
    count = 3000
    best_accuracy = 1.0

    def find(self, request: Request) -> Found:
        import pandas as pd

        draw = stream(request.seed, "synthetic", "noise")
        classes = torch.arange(self.count) % 3
        corners = torch.tensor([[0.0, 0.0], [3.0, 0.0], [1.5, 2.598]], dtype=torch.float64)
        angle = 2 * torch.pi * torch.rand(self.count, generator=draw, dtype=torch.float64)
        radius = 0.5 * torch.rand(self.count, generator=draw, dtype=torch.float64).sqrt()
        points = corners[classes] + radius[:, None] * torch.stack([angle.cos(), angle.sin()], dim=1)  # [N, 2]
        frame = pd.DataFrame({"x1": points[:, 0].numpy(), "x2": points[:, 1].numpy(), "label": classes.numpy()})
        return Found("synthetic-noise", {"train": Rows(frame)}, self.label, split=Split(test=0.4))
