"""Models and batches of every kind: a traced step gives what the passes give one by one, or leaves the step to them."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fairweight as fw
from fairweight.errors import LabelsBeyondLogits


@pytest.fixture(autouse=True)
def _double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


class Mlp(nn.Module):
    """With a layer that takes no part."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.unused = nn.Linear(6, 5), nn.Linear(5, 5), nn.Linear(5, 5)
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))


class NormTwice(Mlp):
    """One batch norm in two places."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x):
        return self.head(torch.tanh(self.norm(self.second(torch.tanh(self.norm(self.first(x)))))))


class OwnBuffer(Mlp):
    """A running mean of its own making."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(5))
        self.register_buffer("passes", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        z = torch.tanh(self.first(x))
        if self.training:
            self.mean.mul_(0.9).add_(z.detach().mean(0), alpha=0.1)
            self.passes += 1
        return self.head(z - self.mean)


class Mask(Mlp):
    """Buffers that are no real numbers, and stay."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.arange(5) > 1)
        self.register_buffer("phase", torch.ones(5, dtype=torch.complex128))

    def forward(self, x):
        return self.head(torch.tanh(self.first(x)) * self.mask)


class NewBuffer(OwnBuffer):
    """The same with a new tensor at each pass."""

    def forward(self, x):
        z = torch.tanh(self.first(x))
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * z.detach().mean(0)
        return self.head(z - self.mean)


class HeldConstant(Mlp):
    """Backward stops at the gate; forward mode would not."""

    def forward(self, x):
        z = torch.tanh(self.first(x))
        with torch.no_grad():
            gate = torch.sigmoid(self.second(z))
        return self.head(z * gate)


class HeldElsewhere(Mlp):
    """A tensor that is neither parameter nor buffer."""

    def __init__(self):
        super().__init__()
        self.scale = torch.linspace(0.5, 1, 5)

    def forward(self, x):
        return self.head(torch.tanh(self.first(x)) * self.scale)


def frozen():
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 3))
    for p in (model[0].weight, model[1].bias, model[5].bias):
        p.requires_grad_(False)
    return model


def tracked_instances():
    norm = nn.InstanceNorm1d(2, track_running_stats=True)
    return nn.Sequential(nn.Unflatten(1, (2, 3)), norm, nn.Flatten(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))


KINDS = {
    "unused": (Mlp, True),
    "frozen": (frozen, True),
    "mask": (Mask, True),
    "norm twice": (NormTwice, False),
    "own buffer": (OwnBuffer, False),
    "new buffer": (NewBuffer, False),
    "held constant": (HeldConstant, False),
    "held elsewhere": (HeldElsewhere, False),
    "tracked instances": (tracked_instances, False),
}


def batches(inputs=lambda size, step: torch.randn(size, 6)):
    return [
        (
            fw.Batch(inputs(10, k), torch.arange(10) % 3, rows=torch.randperm(30)[:10]),
            fw.Batch(inputs(12, k), torch.arange(12) % 3, groups=torch.arange(12) // 6),
        )
        for k in range(3)
    ]


def compare(make, drawn, **options):
    """Traced against one by one; the traced one."""
    runs = []
    model = make()
    for trace in (False, True):
        net = copy.deepcopy(model)
        moving = [p for p in net.parameters() if p.requires_grad]
        optimizer = torch.optim.SGD(moving, lr=0.3, momentum=0.9, weight_decay=0.1)
        forml = fw.FORML(net, 30, agreement_every=0, score_step=fw.PlainStep(30.0), **options)
        if trace:
            forml.compile("eager")
        records = [forml.step(batch, held, optimizer) for batch, held in drawn]
        runs.append((net, forml, records))
    (a, one_by_one, records_a), (b, traced, records_b) = runs
    for x, y in zip(records_a, records_b, strict=True):
        torch.testing.assert_close(x.gradient, y.gradient, rtol=1e-8, atol=1e-12)
        torch.testing.assert_close(x.losses, y.losses, rtol=1e-8, atol=1e-12)
    torch.testing.assert_close(one_by_one.scores, traced.scores, rtol=1e-8, atol=1e-12)
    for (key, x), y in zip(a.state_dict().items(), b.state_dict().values(), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-8, atol=1e-12, msg=key)
    assert [p.grad is None for p in a.parameters()] == [p.grad is None for p in b.parameters()]
    return traced


@pytest.mark.parametrize("kind", KINDS)
def test_models(kind):
    torch.manual_seed(0)
    make, as_graph = KINDS[kind]
    traced = compare(make, batches())
    assert (traced._traced.refusal is None) == as_graph, traced._traced.refusal


def test_what_backward_holds_constant_is_seen_by_the_graph_itself_too():
    """The mode was asked for, so nobody has compared forward mode with backward before."""
    torch.manual_seed(0)
    traced = compare(HeldConstant, batches(), gradient="double-backward")
    assert "no_grad" in traced._traced.refusal


def test_a_loss_that_holds_a_tensor():
    torch.manual_seed(0)
    costs = torch.tensor([1.0, 2.0, 0.5])
    compare(Mlp, batches(), loss=lambda z, y: F.cross_entropy(z, y, costs, reduction="none"))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.inner, self.head = nn.Embedding(9, 6), nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, tokens, scale=1.0, mask=None):
        z = torch.tanh(self.inner(self.embed(tokens)))
        return self.head(scale * (z if mask is None else z * mask[..., None]).sum(1))


def words(size, length=5):
    return torch.randint(0, 9, (size, length))


@pytest.mark.parametrize(
    "inputs",
    [
        lambda size, step: words(size, 5 + step),
        lambda size, step: words(size, 5 + step if size == 12 else 5),
        lambda size, step: {"tokens": words(size), "scale": 1.0 + step},
        lambda size, step: {"tokens": words(size)} | ({"mask": torch.rand(size, 5)} if step else {}),
    ],
    ids=["lengths", "lengths of exemplars", "a plain number", "a mask at times"],
)
def test_batches_that_differ_from_step_to_step(inputs):
    torch.manual_seed(0)
    traced = compare(Words, batches(inputs))
    assert traced._traced.traces == 1


def test_groups_at_times():
    torch.manual_seed(0)
    first, second, third = batches()
    marked = fw.Batch(second[0].inputs, second[0].labels, torch.arange(10) % 2, second[0].rows)
    compare(Mlp, [first, (marked, second[1]), third])


@pytest.mark.parametrize("which", [0, 1], ids=["train", "exemplar"])
def test_labels_beyond_the_logits_after_the_trace(which):
    torch.manual_seed(0)
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    forml = fw.FORML(model, 30, gradient="forward")
    forml.compile("eager")
    pair = batches()[0]
    forml.step(*pair, optimizer)
    pair[which].labels[2] = 3
    with pytest.raises(LabelsBeyondLogits, match=("train", "exemplar")[which]):
        forml.step(*pair, optimizer)
