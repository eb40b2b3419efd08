"""The score gradient from first derivatives alone, one sample at a time; nothing here is taken from fairweight.

s_i = ⟨∇l_i, v⟩ with v the objective's gradient after the virtual step, every gradient one that autograd gives a copy.
"""

from __future__ import annotations

import copy

import torch
from tests import oracle
from torch import Tensor, nn


def slopes(value: Tensor, parameters: list[Tensor]) -> list[Tensor]:
    found = torch.autograd.grad(value, parameters, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(p) if s is None else s.to_dense() for p, s in zip(parameters, found, strict=True)]


def score_gradient(model: nn.Module, batch, exemplar, scores: Tensor, lr: float) -> Tensor:
    """Of the variance of group losses; touches nothing."""  # [B]
    state = torch.get_rng_state()
    first, moved = copy.deepcopy(model), copy.deepcopy(model)
    here, there = ([p for p in m.parameters() if p.requires_grad] for m in (first, moved))
    losses = oracle.cross_entropy(oracle.at_state(state, first, batch.inputs), batch.labels)
    each, p = [slopes(loss, here) for loss in losses], scores.softmax(0)
    with torch.no_grad():
        for k, own in enumerate(there):
            own -= lr * sum(weight * one[k] for weight, one in zip(p, each, strict=True))
    out = oracle.cross_entropy(oracle.at_state(state, moved, exemplar.inputs), exemplar.labels)
    v = slopes(oracle.variance(out, exemplar.labels), there)
    s = torch.stack([sum((a * b).sum() for a, b in zip(one, v, strict=True)) for one in each])
    return -lr * p * (s - (p * s).sum())
