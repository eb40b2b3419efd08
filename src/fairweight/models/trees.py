"""Boosted trees as a module: arrays of nodes, so that they are stored and read like any network."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class TreeEnsemble(nn.Module):
    """Sum of regression trees on a linear map of the inputs; made with sizes, filled by load_state_dict.

    mix: columns that the trees see are inputs @ mix, which puts the places of one category into one column.
    A node goes left where its feature is at most its threshold; a leaf is its own child.
    """

    def __init__(self, inputs: int, classes: int, *, features: int, trees: int, nodes: int, depth: int) -> None:
        super().__init__()
        outputs = 1 if classes == 2 else classes
        self.classes, self.depth = classes, depth
        whole = torch.int64
        self.register_buffer("mix", torch.zeros(inputs, features, dtype=torch.float64))
        self.register_buffer("start", torch.zeros(outputs, dtype=torch.float64))  # what all trees begin from
        self.register_buffer("roots", torch.zeros(trees, dtype=whole))  # [T] each tree's first node
        self.register_buffer("output", torch.zeros(trees, dtype=whole))  # [T] the class that a tree adds to
        self.register_buffer("feature", torch.zeros(nodes, dtype=whole))
        self.register_buffer("threshold", torch.zeros(nodes, dtype=torch.float64))
        self.register_buffer("left", torch.zeros(nodes, dtype=whole))
        self.register_buffer("right", torch.zeros(nodes, dtype=whole))
        self.value = nn.Parameter(torch.zeros(nodes, dtype=torch.float64), requires_grad=False)  # of leaves

    mix: Tensor
    start: Tensor
    roots: Tensor
    output: Tensor
    feature: Tensor
    threshold: Tensor
    left: Tensor
    right: Tensor

    def leaves(self, x: Tensor) -> Tensor:
        """Value of the leaf that each tree puts a sample into."""  # [B, T] from [B, F]
        columns = x.flatten(1).double() @ self.mix  # [B, C]
        at = self.roots.expand(len(x), -1)  # [B, T]
        for _ in range(self.depth):
            low = columns.gather(1, self.feature[at]) <= self.threshold[at]
            at = torch.where(low, self.left[at], self.right[at])
        return self.value[at]

    def logits_of(self, raw: Tensor) -> Tensor:
        """Logits; of two classes, 0 and that of the positive one."""  # [..., K]
        return torch.cat([torch.zeros_like(raw), raw], dim=-1) if self.classes == 2 else raw

    def forward(self, x: Tensor) -> Tensor:
        added = torch.zeros(len(x), len(self.start), dtype=torch.float64, device=x.device)
        return self.logits_of(self.start + added.index_add(1, self.output, self.leaves(x)))  # [B, K]

    def staged(self, x: Tensor) -> Tensor:
        """Logits after every iteration, each of which grew one tree per output."""  # [I, B, K]
        values = self.leaves(x).T.reshape(-1, len(set(self.output.tolist())), len(x))  # [I, O, B]
        raw = torch.zeros(len(values), len(self.start), len(x), dtype=torch.float64, device=x.device)
        raw[:, self.output[: values.shape[1]]] = values
        return self.logits_of(self.start + raw.cumsum(dim=0).transpose(1, 2))
