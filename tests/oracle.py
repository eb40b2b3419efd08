"""The map from scores to the objective, written again by plain loops over copies of the model.

Nothing here is taken from fairweight: a copy of the model takes the step of gradient descent on the weighted loss
by hand, and the exemplars are passed through it. Derivatives are central differences, extrapolated to step 0.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

Rate = float | Mapping[str, float | Tensor]


def logits(model: nn.Module, inputs) -> Tensor:
    if isinstance(inputs, Mapping):
        output = model(**inputs)
    elif isinstance(inputs, tuple | list):
        output = model(*inputs)
    else:
        output = model(inputs)
    if isinstance(output, Mapping):
        return output["logits"]
    if isinstance(output, tuple):
        return output[0]
    return output if isinstance(output, Tensor) else output.logits


def cross_entropy(z: Tensor, labels: Tensor) -> Tensor:
    """Of each sample; one logit means a binary task."""  # [B]
    if z.ndim == 1 or z.shape[1] == 1:
        flat = z.reshape(-1)
        return nn.functional.softplus(torch.where(labels == 1, -flat, flat))
    return torch.logsumexp(z, dim=1) - torch.stack([z[i, int(y)] for i, y in enumerate(labels)])


def softmax_total(w: Tensor, z: Tensor, labels: Tensor) -> Tensor:
    return (w.exp() / w.exp().sum() * cross_entropy(z, labels)).sum()


def logit_scale_total(w: Tensor, z: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(w[:, None] * z, labels).mean()


def inverse_square_total(w: Tensor, z: Tensor, labels: Tensor) -> Tensor:
    return ((w**-2) / (w**-2).sum() * cross_entropy(z, labels)).sum()


def raw_mean_total(w: Tensor, z: Tensor, labels: Tensor) -> Tensor:
    return (w * cross_entropy(z, labels)).sum() / len(w)


def sigmoid_total(w: Tensor, z: Tensor, labels: Tensor) -> Tensor:
    return (2 / (1 + (-w).exp()) * cross_entropy(z, labels)).sum() / len(w)


def group_means(losses: Tensor, groups: Tensor) -> list[Tensor]:
    return [losses[groups == g].mean() for g in sorted({int(g) for g in groups if g >= 0})]


def variance(losses: Tensor, groups: Tensor) -> Tensor:
    """Variance of the group losses."""  # []
    means = group_means(losses, groups)
    middle = sum(means) / len(means)
    return sum((m - middle) ** 2 for m in means) / len(means)


def spread(losses: Tensor, groups: Tensor) -> Tensor:
    """Max minus min of the group losses."""  # []
    means = group_means(losses, groups)
    return max(means) - min(means)


def at_state(state: Tensor, model: nn.Module, inputs) -> Tensor:
    """A pass from a given random state; the caller's is given back."""
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(state)
        return logits(model, inputs)


def stepped(
    model: nn.Module, batch, scores: Tensor, lr: Rate, *, sign: float = 1.0, total=softmax_total, state: Tensor
) -> nn.Module:
    """A copy of the model after one step of gradient descent on the weighted loss."""
    first = copy.deepcopy(model)
    for p in first.parameters():
        p.grad = None
    total(scores, at_state(state, first, batch.inputs), batch.labels).backward()
    slope = {name: p.grad for name, p in first.named_parameters() if p.requires_grad}
    moved = copy.deepcopy(model)
    with torch.no_grad():
        for name, p in moved.named_parameters():
            rate = lr.get(name) if isinstance(lr, Mapping) else lr
            if p.requires_grad and rate is not None and slope[name] is not None:
                p -= sign * rate * slope[name]
    return moved


def whole_map(
    model, batch, exemplar, scores, objective, lr, *, reverse=False, total=softmax_total, state=None
) -> float:
    """objective(θ̃(scores))."""
    state = torch.get_rng_state() if state is None else state
    there = stepped(model, batch, scores, lr, sign=-1.0 if reverse else 1.0, total=total, state=state)
    with torch.no_grad():
        losses = cross_entropy(at_state(state, there, exemplar.inputs), exemplar.labels)
        groups = exemplar.labels if exemplar.groups is None else exemplar.groups
        return float(objective(losses, groups))


def derivative(f: Callable[[float], float], widest: float = 0.1, levels: int = 4) -> float:
    """f'(0) by central differences at halved widths, extrapolated (Richardson)."""
    row: list[float] = []
    for level in range(levels):
        h = widest / 2**level
        new = [(f(h) - f(-h)) / (2 * h)]
        for k, old in enumerate(row):
            new.append(new[k] + (new[k] - old) / (4 ** (k + 1) - 1))
        row = new
    return row[-1]


def gradient(f: Callable[[Tensor], float], scores: Tensor) -> Tensor:
    """Derivative of f by each score."""  # [B]
    found = []
    for i in range(len(scores)):
        unit = torch.zeros_like(scores)
        unit[i] = 1.0
        found.append(derivative(lambda h, unit=unit: f(scores + h * unit)))
    return torch.tensor(found, dtype=scores.dtype)


def error(found: Tensor, expected: Tensor) -> float:
    """Relative error in the Euclidean norm."""
    found, expected = (torch.view_as_real(t) if t.is_complex() else t for t in (found, expected))
    assert float(expected.norm()) > 0, "the expected value is 0: the comparison would say nothing"
    return float((found.double() - expected.double()).norm() / expected.double().norm())
