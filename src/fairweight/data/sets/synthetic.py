"""Two groups that one line cannot serve alike."""

from __future__ import annotations

import torch

from fairweight.data.draw import stream
from fairweight.data.options import Split
from fairweight.data.rows import Rows
from fairweight.data.source import Found, Request


class Synthetic:
    """Synthetic: two groups of 9 to 1 in the plane, whose labels lie along different axes; the best weights are known.

    x ~ N(0, I) in the plane; in group A the label is x1 > 0, in group B it is x2 > 0, and the group is not an input.
    A line through 0 at angle a from the x2 axis is right on A with probability 1 - a/pi and on B with 1/2 + a/pi.
    Uniform weights put it near a = 0 (A right nearly always, B every second time). With equal total weight per group
    the problem is unchanged when the axes are swapped, so the best line lies at 45 degrees, and both groups are right
    three times in four: the most that the worse group can have.
    """

    label = "label"
    group = ("group",)
    needs = ("nothing",)
    count = 4000
    minority = 0.1
    best_worst_accuracy = 0.75

    def find(self, request: Request) -> Found:
        import pandas as pd

        draw = stream(request.seed, "synthetic", "two groups")
        points = torch.randn(self.count, 2, generator=draw, dtype=torch.float64)  # [N, 2]
        rare = torch.arange(self.count) < self.minority * self.count
        rare = rare[torch.randperm(self.count, generator=draw)]
        axis = torch.where(rare, points[:, 1], points[:, 0])
        frame = pd.DataFrame(
            {
                "x1": points[:, 0].numpy(),
                "x2": points[:, 1].numpy(),
                "group": ["B" if flag else "A" for flag in rare.tolist()],
                "label": (axis > 0).long().numpy(),
            }
        )
        return Found("synthetic", {"train": Rows(frame)}, self.label, self.group, split=Split(test=0.4))
