"""Samples that values send elsewhere, after batches in which they stayed: exact in every pass, not only at a look."""

from __future__ import annotations

import copy

import pytest
import torch
from tests import oracle
from tests.metagradient.per_layer import models
from torch import nn

import fairweight as fw
from fairweight.metagradient import score_gradient
from fairweight.metagradient.model import trainable
from fairweight.metagradient.per_layer._observer import Observer
from fairweight.types import Batch

BOUND = 1e-10
SIZE = 13


def cut_in_python(layer, x, n):
    rows = torch.tanh(layer(torch.cat([x[i, : int(n[i])] for i in range(len(x))])))
    return torch.stack([part.sum(0) for part in rows.split(n.tolist())])


def cut_by_tensors(layer, x, n):
    rows, ends = torch.tanh(layer(torch.cat([x[i, : n[i]] for i in range(len(x))]))), n.cumsum(0)
    return torch.stack([rows[ends[i] - n[i] : ends[i]].sum(0) for i in range(len(x))])


def cut_by_numpy(layer, x, n):
    lengths = n.numpy()
    rows = torch.tanh(layer(torch.cat([x[i, :k] for i, k in enumerate(lengths)])))
    return torch.stack([part.sum(0) for part in torch.split(rows, lengths.tolist())])


def cut_by_a_copy(layer, x, n):
    own = torch.zeros_like(n)
    own[:] = n
    return cut_in_python(layer, x, own)


def sorted_in_python(layer, x, n):
    order = sorted(range(len(x)), key=lambda i: -int(n[i]))
    return torch.tanh(layer(x[order].mean(1)))[[order.index(i) for i in range(len(x))]]


def counted(layer, x, n):
    """Positions by arithmetic, as attention over many sequences in one row takes them."""
    at = torch.arange(int(n.sum()))
    whose = torch.searchsorted(n.cumsum(0), at, right=True)
    rows = torch.tanh(layer(x.flatten(0, 1)[whose * x.shape[1] + at - (n.cumsum(0) - n)[whose]]))
    return rows.new_zeros(len(x), rows.shape[1]).index_add(0, whose, rows)


def order(x, n):
    return torch.argsort(x[:, 0, 0] * (n != 3), stable=True)


def by_brackets(layer, x, n):
    rows, at = torch.tanh(layer(x[order(x, n)].sum(1))), order(x, n)
    return torch.zeros_like(rows).index_put((at,), rows)


def by_gather(layer, x, n):
    rows, at = torch.tanh(layer(x.sum(1))), order(x, n)[:, None]
    return torch.take_along_dim(rows.gather(0, at.expand_as(rows)), at, 0)


def by_names(layer, x, n):
    rows, at = torch.tanh(layer(x.sum(1))), order(x, n)
    made = torch.matmul(input=torch.eye(len(x)).double(), other=torch.index_select(input=rows, dim=0, index=at))
    made = torch.take_along_dim(input=made, indices=at[:, None], dim=0)
    return torch.zeros_like(made).index_put(indices=(at,), values=made.roll(shifts=0, dims=0))


def by_scatter(layer, x, n):
    rows, at = torch.tanh(layer(x.sum(1))), order(x, n)[:, None]
    return torch.zeros_like(rows).scatter(0, at.expand_as(rows), rows)


def by_matrix(layer, x, n):
    return nn.functional.one_hot(order(x, n), len(x)).to(x.dtype) @ torch.tanh(layer(x.sum(1)))


def by_values(layer, x, n):
    rows = layer(x.sum(1)).sum(1, keepdim=True)
    return torch.tanh(torch.where((n == 3).all(), rows, rows.sort(0).values) + layer.bias)


def turned_round(layer, x, n):
    rows = torch.tanh(layer(x.sum(1)))
    return rows.flip(0) if int(n[0]) != 3 else rows


def rolled(layer, x, n):
    return torch.tanh(layer(x.sum(1))).roll(int((n == 5).sum()), 0)


def cut_in_two(layer, x, n):
    rows, some = torch.tanh(layer(x.sum(1))), int((n > 3).sum())
    return torch.cat([rows[some:], rows[:some]])


def split_in_two(layer, x, n):
    rows, some = torch.tanh(layer(x.sum(1))), int((n > 3).sum())
    return torch.cat(rows.split([some, len(x) - some])[::-1])


def written_over(layer, x, n):
    at = torch.arange(len(x))
    at[:] = order(x, n)
    return torch.tanh(layer(x.sum(1)))[at]


def off(n):
    """0 in an even batch."""
    return (n != 3).double()[:, None]


def where_flipped(layer, x, n):
    rows = torch.tanh(layer(x.sum(1)))
    return torch.where(off(n) > 0, rows.flip(0), rows)


def blended_for_some(layer, x, n):
    """Behind a branch that a number of the whole batch opens."""
    rows = torch.tanh(layer(x.sum(1)))
    return rows + 0.1 * rows.roll(1, 0) if bool((n != 3).any()) else rows


WAYS = [
    cut_in_python, cut_by_tensors, cut_by_numpy, cut_by_a_copy, sorted_in_python, counted, by_brackets, by_gather,
    by_names, by_scatter, by_matrix, by_values, turned_round, rolled, cut_in_two, split_in_two, written_over,
    where_flipped, blended_for_some,
]  # fmt: skip


# What samples get of each other, of rows [B, 6]; added with a factor that is 0 in an even batch.
MIXES = {
    "flip": lambda h: h.flip(0),
    "flip, by name": lambda h: torch.flip(h, dims=(1, 0)),
    "flip, several": lambda h: h.flip(1, 0),
    "flipud": lambda h: h.flipud(),
    "rot90": lambda h: h.rot90(2),
    "reversed": lambda h: reversed(h),
    "roll": lambda h: h.roll(1, 0),
    "roll, by name": lambda h: torch.roll(h, shifts=(1,), dims=(0,)),
    "roll, flat": lambda h: h.roll(6),
    "slices": lambda h: torch.cat([h[1:], h[:1]]),
    "slices from the end": lambda h: torch.cat([h[-1:], h[:-1]]),
    "steps": lambda h: h[::2].sum(0),
    "one": lambda h: h[0],
    "one, with the ellipsis": lambda h: h[0, ...],
    "select": lambda h: h.select(0, -1),
    "narrow": lambda h: h.narrow(0, 1, 1),
    "chunk": lambda h: torch.cat(h.chunk(4)[::-1]),
    "split": lambda h: torch.cat(h.split(6)[::-1]),
    "split, by sizes": lambda h: torch.cat(h.split([3, SIZE - 3])[::-1]),
    "tensor_split": lambda h: torch.cat(h.tensor_split(3)[::-1]),
    "unbind": lambda h: torch.stack(h.unbind()[::-1]),
    "loop": lambda h: torch.stack([*h][::-1]),
    "unfold": lambda h: h.unfold(0, 2, 1)[0, :, 0].sum(),
    "mean": lambda h: h.mean(0),
    "mean of all": lambda h: h.mean(),
    "sum, by name": lambda h: torch.sum(h, dim=(0,)),
    "max": lambda h: h.max(dim=0).values,
    "amax": lambda h: h.abs().amax(0),
    "std": lambda h: h.std(0),
    "norm": lambda h: h.norm(dim=0),
    "norm of all": lambda h: torch.linalg.norm(h),
    "vector norm": lambda h: torch.linalg.vector_norm(h, dim=0),
    "logsumexp": lambda h: torch.logsumexp(h, 0),
    "cumsum": lambda h: h.cumsum(0),
    "softmax": lambda h: h.softmax(0),
    "softmax of nn": lambda h: nn.functional.softmax(h, dim=0),
    "normalize": lambda h: nn.functional.normalize(h, dim=0),
    "diff": lambda h: h.diff(dim=0).sum(),
    "batch norm": lambda h: nn.functional.batch_norm(h, None, None, training=True),
    "matmul": lambda h: (h @ h.T).sum(1, keepdim=True),
    "matmul, with a constant": lambda h: torch.ones(len(h), len(h)).double() @ h,
    "mm over samples": lambda h: torch.mm(h.T, h).sum(0),
    "einsum": lambda h: torch.einsum("id,jd->i", h, h)[:, None],
    "einsum, numbers": lambda h: torch.einsum(h, [0, 1], h, [2, 1], [0])[:, None],
    "einsum over samples": lambda h: torch.einsum("id->d", h),
    "cdist": lambda h: torch.cdist(h, 2 * h, compute_mode="use_mm_for_euclid_dist").sum(1, keepdim=True),
    "attention": lambda h: nn.functional.scaled_dot_product_attention(h, h, h),
    "attention, one row": lambda h: nn.functional.scaled_dot_product_attention(*3 * (h[None],))[0],
    "pairs": lambda h: (h[:, None] - h[None]).abs().sum(1),
    "pairs, written over": lambda h: (h[:, None] * h).sum(1),
    "cosine of pairs": lambda h: nn.functional.cosine_similarity(h[:, None], h[None], dim=-1).sum(1, keepdim=True),
    "turned in a view": lambda h: h.T.reshape(h.shape),
    "padding": lambda h: nn.functional.pad(h, (0, 0, 1, 0))[:-1],
    "pooled": lambda h: nn.functional.avg_pool1d(h.T[None], 3, 1, 1)[0].T,
    "layer norm over samples": lambda h: nn.functional.layer_norm(h.T, (len(h),)).T,
    "group norm of all": lambda h: nn.functional.group_norm(h.T[None], 1)[0].T,
    "convolved": lambda h: nn.functional.conv1d(h.T[:, None], torch.ones(1, 1, 3).double(), padding=1)[:, 0].T,
    "Fourier": lambda h: torch.fft.fft(torch.fft.fft(h, dim=0), None, 0).real,
    "bmm": lambda h: torch.bmm(torch.bmm(h[None], h[None].mT), h[None])[0],
    "batched matmul": lambda h: (h[None] @ h[None].mT @ h[None])[0],
    "addmm": lambda h: torch.addmm(h, torch.ones(len(h), len(h)).double(), h),
    "mv": lambda h: torch.mv(torch.ones(len(h), len(h)).double(), h[:, 0])[:, None],
    "tensordot": lambda h: torch.tensordot(torch.ones(len(h), len(h)).double(), h, dims=([1], [0])),
    "dot": lambda h: torch.dot(h[:, 0], h[:, 1]),
    "mean of a loss": lambda h: nn.functional.mse_loss(h, torch.zeros_like(h)),
    "cov": lambda h: torch.cov(h.T).sum(0),
    "svd": lambda h: torch.linalg.svdvals(h)[:1],
    "as_strided": lambda h: torch.as_strided(h, h.shape, (0, 1)),
    "msort": lambda h: h.msort(),
    "renorm": lambda h: h.clone().renorm_(2, 1, 0.1),
    "vmap": lambda h: torch.vmap(lambda row: (h * row).sum(0))(h),
}


@pytest.fixture(params=[*WAYS, *MIXES], ids=lambda way: way if isinstance(way, str) else way.__name__)
def way(request):
    if callable(request.param):
        return request.param

    def mixed(layer, x, n):
        rows = torch.tanh(layer(x.sum(1)))
        return rows + off(n) * MIXES[request.param](rows)

    return mixed


class Sent(nn.Module):
    def __init__(self, way) -> None:
        super().__init__()
        self.way, self.layer, self.head = way, nn.Linear(4, 6), nn.Sequential(nn.Linear(6, 40), nn.Linear(40, 3))

    def forward(self, x, n):
        return self.head(self.way(self.layer, x, n))


def ragged(seed: int, even: bool) -> Batch:
    """Samples of three entries each, or of another number each that come to as many."""
    g = torch.Generator().manual_seed(seed)
    lengths, rows = torch.full((SIZE,), 3), torch.arange(SIZE)
    if not even:
        lengths[:6] -= 1
        lengths[-6:] += 1
        lengths[[0, -1]] = torch.tensor([1, 5])
    return Batch((torch.randn(SIZE, 5, 4, generator=g).double(), lengths), rows % 3, None, rows)


def test_every_pass_is_exact_after_an_even_batch(way):
    torch.manual_seed(0)
    model = Sent(way).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    exemplar = Batch(ragged(9, even=True).inputs, torch.arange(SIZE) % 3)
    forml = fw.FORML(model, SIZE, gradient="per-layer", agreement_every=0)
    for step, even in enumerate((True, False)):  # nothing looks again before the third
        batch, twin = ragged(step, even), copy.deepcopy(model)
        expected = score_gradient(twin, batch, exemplar, forml.scores, forml.objective, 0.1, mode="double-backward")
        record = forml.step(batch, exemplar, optimizer)
        assert oracle.error(record.gradient, expected) < BOUND
        losses = nn.functional.cross_entropy(twin(*batch.inputs), batch.labels, reduction="none")
        (record.weights * losses).sum().backward()
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            assert oracle.error(p.grad, q.grad) < BOUND


def sends(model: nn.Module, batch: Batch) -> bool:
    seen = Observer(trainable(model), batch.inputs, len(batch))
    with seen:
        model(*batch.inputs) if isinstance(batch.inputs, tuple) else model(batch.inputs)
    return seen.sends


@pytest.mark.parametrize("name", models.MODELS)
def test_usual_models_are_not_looked_at_twice(name):
    make, draw = models.MODELS[name]
    assert not sends(make().double(), draw(SIZE, seed=2))


class Last(nn.Module):
    """The last entry of each sample, as language models pool; numbers of the whole batch are read."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x, n):
        h = torch.tanh(self.layer(x[:, : int(n.max())]))
        if bool((n > 0).all()):
            h = h[torch.arange(len(x)), n - 1]
        return self.head(h)


def test_the_last_entry_of_each_sample_is_its_own():
    batch = ragged(0, even=False)
    batch = Batch((batch.inputs[0].repeat(1, SIZE, 1), batch.inputs[1]), batch.labels)  # as many entries as may be
    assert not sends(Last().double(), batch)
    assert sends(Sent(cut_in_python).double(), batch)


class ByLength(nn.Module):
    """Long sequences are laid out in another way than short ones."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        x = x if x.shape[1] < 6 else x.transpose(0, 1)
        h = torch.tanh(self.layer(x.reshape(-1, 4))).view(*x.shape[:2], 6)
        return self.head(h.mean(1 if x.shape[0] == SIZE else 0))


def test_samples_of_another_shape_are_looked_at_once():
    torch.manual_seed(0)
    model = ByLength().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    short, exemplar = (Batch(ragged(k, even=True).inputs[0], torch.arange(SIZE) % 3) for k in range(2))
    forml = fw.FORML(model, SIZE, gradient="per-layer", agreement_every=0)
    for length in (1, 2):
        batch = Batch(short.inputs.repeat(1, length, 1), short.labels)
        expected = score_gradient(model, batch, exemplar, forml.scores, forml.objective, 0.1, mode="double-backward")
        assert oracle.error(forml.step(batch, exemplar, optimizer).gradient, expected) < BOUND


class Gate(nn.Module):
    """A branch over merged rows, the sequence first, behind a gate that is closed at the beginning."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("open", torch.zeros(()))
        self.first, self.branch, self.head = nn.Linear(4, 6), nn.Linear(6, 3), nn.Linear(6, 3)

    def forward(self, x):
        rows = torch.tanh(self.first(x.transpose(0, 1).reshape(-1, 4)))
        made = torch.tanh(self.branch(rows)).view(x.shape[1], len(x), 3).mean(0)
        return self.open * made + self.head(rows.view(x.shape[1], len(x), 6).mean(0))


def test_a_branch_that_no_gradient_has_gone_through_is_not_guessed():
    torch.manual_seed(0)
    model = Gate().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch, exemplar = (Batch(ragged(k, even=True).inputs[0], torch.arange(SIZE) % 3) for k in range(2))
    forml = fw.FORML(model, SIZE, gradient="per-layer")
    for gate in (0.0, 1.0):
        model.open.fill_(gate)
        expected = score_gradient(model, batch, exemplar, forml.scores, forml.objective, 0.1, mode="double-backward")
        assert oracle.error(forml.step(batch, exemplar, optimizer).gradient, expected) < BOUND
