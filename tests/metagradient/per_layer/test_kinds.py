"""Each kind of layer against autograd, over drawn shapes: slopes at drawn weights, and the pull along a direction."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from tests import oracle
from torch import Tensor

from fairweight import catalog
from fairweight.metagradient.per_layer._kind import Layout
from fairweight.metagradient.per_layer._observer import Observer
from fairweight.metagradient.per_layer._record import Choice, Record

B = 5
DRAWN = torch.Generator().manual_seed(0)  # cases are drawn on import, before any test is seeded


def r(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=DRAWN)


def numbers(high: int, *shape: int) -> Tensor:
    return torch.randint(0, high, shape, generator=DRAWN)


# name: function of (data, parameters), data, parameters, axis of the samples
CASES = {
    "linear": [
        (lambda x, w, b: F.linear(x, w, b), r(B, 3), (r(4, 3), r(4)), 0),
        (lambda x, w: F.linear(x, w), r(B, 2, 6, 3), (r(2, 3),), 0),
        (lambda x, w, b: F.linear(x, w, b), r(7, B, 3), (r(4, 3), r(4)), 1),
        (lambda x, w: x @ w, r(B, 6, 3), (r(3, 4),), 0),
        (lambda x, w: torch.matmul(x, w.T), r(B, 6, 3), (r(4, 3),), 0),
        (lambda x, w, b: torch.addmm(b, x, w), r(B, 3), (r(3, 4), r(4)), 0),
        (lambda x, b: F.linear(x, x[0, :3, :3], b), r(B, 3, 3), (r(3),), 0),
    ],
    "convolution": [
        (lambda x, w, b: F.conv2d(x, w, b), r(B, 2, 6, 7), (r(4, 2, 3, 3), r(4)), 0),
        (lambda x, w: F.conv2d(x, w, None, (2, 1), 1, 2), r(B, 2, 8, 7), (r(4, 2, 3, 3),), 0),
        (lambda x, w, b: F.conv2d(x, w, b, groups=2, padding="same"), r(B, 4, 5, 5), (r(6, 2, 3, 3), r(6)), 0),
        (lambda x, w, b: F.conv1d(x, w, b, stride=3), r(B, 2, 9), (r(3, 2, 4), r(3)), 0),
        (lambda x, w: F.conv3d(x, w, padding=1), r(B, 2, 4, 3, 4), (r(3, 2, 3, 3, 3),), 0),
        (lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1), r(B, 2, 4, 4), (r(2, 3, 3, 3), r(3)), 0),
        (lambda x, w: F.conv_transpose1d(x, w, dilation=2), r(B, 2, 5), (r(2, 3, 3),), 0),
    ],
    "embedding": [
        (lambda x, w: F.embedding(x, w), numbers(7, B, 4), (r(7, 3),), 0),
        (lambda x, w: F.embedding(x, w, padding_idx=2), numbers(4, B, 6), (r(7, 3),), 0),
        (lambda x, w: F.embedding(x, w), numbers(7, 4, B), (r(7, 3),), 1),
    ],
    "bag": [
        (lambda x, w: F.embedding_bag(x, w, mode="sum"), numbers(7, B, 4), (r(7, 3),), 0),
        (lambda x, w: F.embedding_bag(x, w, padding_idx=2), numbers(7, B, 4), (r(7, 3),), 0),
        (lambda x, w: F.embedding_bag(x, w, mode="max"), numbers(7, B, 4), (r(7, 3),), 0),
    ],
    "norm": [
        (lambda x, w, b: F.layer_norm(x, (4,), w, b), r(B, 3, 4), (r(4), r(4)), 0),
        (lambda x, w: F.layer_norm(x, (3, 4), w), r(B, 2, 3, 4), (r(3, 4),), 0),
        (lambda x, w, b: F.group_norm(x, 2, w, b), r(B, 4, 3, 3), (r(4), r(4)), 0),
        (lambda x, w: F.rms_norm(x, (4,), w), r(6, B, 4), (r(4),), 1),
        (
            lambda x, w, b: F.batch_norm(x, r(4), r(4).abs(), w, b),
            r(B, 4, 3),
            (r(4), r(4)),
            0,
        ),
    ],
    "elementwise": [
        (lambda x, w: x + w, r(B, 3, 4), (r(3, 4),), 0),
        (lambda x, w: w - x, r(B, 3, 4), (r(4),), 0),
        (lambda x, w: torch.sub(x, w, alpha=3), r(B, 3, 4), (r(1, 3, 1),), 0),
        (lambda x, w: x + w.expand(B, 3, 4), r(B, 3, 4), (r(1, 4),), 0),
        (lambda x, w: x.clone().add_(w), r(B, 3, 4), (r(4),), 0),
        (lambda x, w: x * w, r(B, 3, 4), (r(4),), 0),
        (lambda x, w: w * x, r(3, B, 1), (r(4),), 1),
        (lambda x, w: torch.mul(x, w), r(B, 3), (r(1),), 0),
        (lambda x, w: x.clone().mul_(w), r(B, 3), (r(3),), 0),
    ],
    "given": [
        (lambda x, w: torch.cat([w.expand(B, -1, -1), x], dim=1), r(B, 3, 4), (r(1, 1, 4),), 0),
        (lambda x, w: torch.bmm(w.repeat(B, 1, 1), x), r(B, 3, 4), (r(2, 3),), 0),
    ],
    "other": [
        (lambda x, w: F.prelu(x, w), r(B, 3, 4), (r(3),), 0),
        (lambda x, w: torch.einsum("bni,oi->bno", x, w), r(B, 3, 4), (r(2, 4),), 0),
        (lambda x, w: x / w, r(B, 3, 4), (r(4),), 0),
        (lambda x, v, w: F.bilinear(x, x, v, w), r(B, 3), (r(2, 3, 3), r(2)), 0),
        (lambda x, w: x.cosh().pow(w), r(B, 3), (r(3),), 0),
    ],
}


def flat() -> list:
    return [pytest.param(name, k, id=f"{name}-{k}") for name, cases in CASES.items() for k in range(len(cases))]


def test_every_kind_has_its_cases():
    assert sorted(CASES) == sorted(
        [*catalog.names("metagradient.per_layer.kinds"), "given"]
    )  # which is of any function


@pytest.mark.parametrize(("kind", "case"), flat())
def test_a_kind_is_what_autograd_gives(kind, case):
    function, data, weights, axis = CASES[kind][case]
    parameters = {str(k): w.clone().requires_grad_() for k, w in enumerate(weights)}
    x = data if not data.is_floating_point() else data.clone().requires_grad_(case % 2 == 0)
    seen = Observer(parameters, data if x is data else x, B)
    with seen:
        y = function(x, *parameters.values())
    (use,) = seen.uses
    names = [type(way.kind).__name__.lower() for way in use.ways]
    assert kind in names
    way = names.index(kind)
    layouts = tuple(Layout(axis if len(shape) > axis and shape[axis] == B else 0) for shape in use.ways[way].shapes)
    mixed = torch.randn(y.movedim(axis, 0).shape, dtype=torch.float64)
    losses = (y.movedim(axis, 0) * mixed).flatten(1).sum(1)
    sent, asked = torch.rand(B).double() + 0.1, torch.rand(B).double()
    asked[0] = 0.0
    each = [
        torch.autograd.grad(losses[i], list(parameters.values()), retain_graph=True, materialize_grads=True)
        for i in range(B)
    ]
    record = Record(seen, losses, sent, [Choice(way, layouts)])
    direction = {name: torch.randn_like(p) for name, p in parameters.items()}
    pulled = torch.stack([sum((g * v).sum() for g, v in zip(row, direction.values(), strict=True)) for row in each])
    assert oracle.error(record.pull(direction), pulled) < 1e-12
    for weights_, last in ((sent, False), (asked, True)):
        found = record.slopes(None if weights_ is sent else asked, last=last)
        for k, name in enumerate(parameters):
            assert oracle.error(found[name], sum(w * row[k] for w, row in zip(weights_, each, strict=True))) < 1e-12
