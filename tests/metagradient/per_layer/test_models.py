"""The gradient per layer is double backward's, and `.grad` autograd's, to 1e-10 in float64 on every kind of model."""

from __future__ import annotations

import copy

import pytest
import torch
from tests import networks as net
from tests import oracle
from tests.metagradient.per_layer import models
from torch import nn

import fairweight as fw
from fairweight.errors import FairweightError, NotDifferentiable
from fairweight.metagradient import score_gradient
from fairweight.types import Batch

BOUND = 1e-10
SIZE = 13  # more than a trial takes


def setting(name: str):
    make, draw = models.MODELS[name]
    torch.manual_seed(0)
    model = make().double()
    batch, exemplar = draw(SIZE, seed=2), draw(6, seed=3)
    return model, Batch(batch.inputs, batch.labels, None, torch.arange(SIZE)), exemplar


def stepped(model: nn.Module, batch: Batch, exemplar: Batch, gradient: str, steps: int = 2, **options):
    """Scores, parameters and the last record after a few steps on a copy."""
    twin = copy.deepcopy(model)
    optimizer = torch.optim.SGD([p for p in twin.parameters() if p.requires_grad], lr=0.1, momentum=0.9)
    forml = fw.FORML(twin, SIZE, gradient=gradient, **options)
    torch.manual_seed(4)
    for _ in range(steps):
        record = forml.step(batch, exemplar, optimizer)
    return forml, twin, record


def same(first, second) -> None:
    (a, net_a, record_a), (b, net_b, record_b) = first, second
    assert oracle.error(record_a.gradient, record_b.gradient) < BOUND
    assert oracle.error(a.scores, b.scores) < BOUND
    for (name, p), q in zip(net_a.named_parameters(), net_b.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None), name
        if q.grad is not None and float(q.grad.abs().max()) > 1e-14:
            assert oracle.error(p.grad, q.grad) < BOUND, name


@pytest.mark.parametrize("name", models.MODELS)
def test_scores_gradients_and_parameters_are_those_of_double_backward(name):
    model, batch, exemplar = setting(name)
    per_layer = stepped(model, batch, exemplar, "per-layer")
    assert per_layer[2].mode.startswith("per-layer")
    same(per_layer, stepped(model, batch, exemplar, "double-backward"))


@pytest.mark.parametrize("name", ["vit, dropout", "gpt, tied", "several uses"])
def test_the_score_gradient_alone_touches_nothing(name):
    model, batch, exemplar = setting(name)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    scores = torch.randn(SIZE).double()
    state = torch.get_rng_state()
    found = score_gradient(model, batch, exemplar, scores, fw.LossVariance(), 0.1, "per-layer")
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    known = score_gradient(model, batch, exemplar, scores, fw.LossVariance(), 0.1, "double-backward")
    assert oracle.error(found, known) < BOUND


OPTIONS = {
    "ties": {"tie": "label"},
    "every second step": {"every": 2, "steps": 4},
    "reverse": {"look_ahead": fw.LookAhead(reverse=True)},
    "at rest": {"look_ahead": None},
    "a scope": {"scope": "blocks,norm"},
    "a look at agreement": {"agreement_every": 1},
    "raw": {"form": "raw-mean"},
    "sigmoid": {"form": "sigmoid"},
    "inverse squares": {"form": "inverse-square"},
}


@pytest.mark.parametrize("option", OPTIONS)
def test_with_every_option_of_the_method(option):
    model, batch, exemplar = setting("vit")
    first, second = (
        stepped(model, batch, exemplar, gradient, **OPTIONS[option]) for gradient in ("per-layer", "double-backward")
    )
    if option == "every second step":
        assert oracle.error(first[0].scores, second[0].scores) < BOUND
        return
    same(first, second)
    if option == "a look at agreement":
        assert oracle.error(first[2].agreement, second[2].agreement) < BOUND


def test_gradients_are_scaled_and_added_to_what_is_there():
    model, batch, exemplar = setting("vit")
    grads = {}
    for gradient in ("per-layer", "forward"):
        twin = copy.deepcopy(model)
        optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
        for p in twin.parameters():
            p.grad = torch.ones_like(p)
        fw.FORML(twin, SIZE, gradient=gradient).backward(batch, exemplar, optimizer, scale=0.25)
        grads[gradient] = torch.cat([p.grad.flatten() for p in twin.parameters()])
    assert oracle.error(grads["per-layer"] - 1, grads["forward"] - 1) < BOUND


def test_a_sample_that_counts_for_nothing():
    model, batch, exemplar = setting("vit")
    scores = torch.zeros(SIZE).double()
    scores[3] = -2000.0  # its softmax is 0
    found = score_gradient(model, batch, exemplar, scores, fw.LossVariance(), 0.1, "per-layer")
    known = score_gradient(model, batch, exemplar, scores, fw.LossVariance(), 0.1, "double-backward")
    assert oracle.error(found, known) < BOUND
    assert found[3] == 0.0


def test_a_parameter_out_of_use_has_no_gradient():
    model, batch, exemplar = setting("several uses")
    model.register_parameter("idle", nn.Parameter(torch.ones(2).double()))
    _, twin, _ = stepped(model, batch, exemplar, "per-layer")
    assert twin.idle.grad is None


@pytest.mark.parametrize("name", ["batch norm", "contrast"])
def test_samples_that_see_each_other_are_refused_and_auto_keeps_forward_mode(name):
    draw = net.pictures if name == "batch norm" else net.vectors
    model = (net.conv_batch_norm() if name == "batch norm" else models.Contrast()).double()
    drawn = draw(SIZE, seed=2)
    batch, exemplar = Batch(drawn.inputs, drawn.labels, None, torch.arange(SIZE)), draw(6, seed=3)
    with pytest.raises(NotDifferentiable, match="see each other"):
        stepped(model, batch, exemplar, "per-layer")
    forml, _, record = stepped(model, batch, exemplar, "auto")
    assert forml.mode.name in ("forward", "double-backward")
    assert record.mode.startswith(forml.mode.name)


def test_auto_takes_it():
    model, batch, exemplar = setting("vit")
    assert stepped(model, batch, exemplar, "auto")[0].mode.name == "per-layer"


def test_logits_that_scores_scale_are_left_to_forward_mode():
    model, batch, exemplar = setting("vit")
    assert stepped(model, batch, exemplar, "auto", form="logit-scale")[0].mode.name != "per-layer"


def test_reentrant_checkpoints_are_refused():
    drawn = net.vectors(SIZE, seed=2)
    batch = Batch(drawn.inputs, drawn.labels, None, torch.arange(SIZE))
    with pytest.raises(FairweightError):
        stepped(models.Checkpointed(True).double(), batch, net.vectors(6, seed=3), "per-layer")


def test_batches_of_other_sizes_follow():
    model, batch, exemplar = setting("torch's layer, sequence first")
    found = {}
    for gradient in ("per-layer", "double-backward"):
        twin = copy.deepcopy(model)
        optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
        forml = fw.FORML(twin, SIZE, gradient=gradient)
        for size in (SIZE, 4, 1, 11):
            forml.step(batch.take(torch.arange(size)), exemplar, optimizer)
        found[gradient] = forml.scores
    assert oracle.error(found["per-layer"], found["double-backward"]) < BOUND


def test_sentences_of_other_lengths_follow():
    model, batch, exemplar = setting("gpt, tied")
    shorter = Batch(batch.inputs[:, :4], batch.labels, None, batch.rows)
    found = {}
    for gradient in ("per-layer", "double-backward"):
        twin = copy.deepcopy(model)
        optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
        forml = fw.FORML(twin, SIZE, gradient=gradient)
        for given in (batch, shorter):
            forml.step(given, exemplar, optimizer)
        found[gradient] = forml.scores
    assert oracle.error(found["per-layer"], found["double-backward"]) < BOUND


@pytest.mark.parametrize("name", ["vit", "gpt, tied", "convolutions"])
def test_in_bfloat16_it_errs_like_forward_mode(name):
    model, batch, exemplar = setting(name)
    model = model.float()
    if batch.inputs.is_floating_point():
        batch = Batch(batch.inputs.float(), batch.labels, None, batch.rows)
        exemplar = Batch(exemplar.inputs.float(), exemplar.labels)
    true = stepped(model, batch, exemplar, "double-backward", steps=1)
    with torch.autocast("cpu", torch.bfloat16):
        low = stepped(model, batch, exemplar, "per-layer", steps=1)
    assert low[2].mode == "per-layer"
    assert oracle.error(low[2].gradient, true[2].gradient) < 0.1  # 8 bits, through a dozen layers
    slopes = [torch.cat([p.grad.flatten() for p in one[1].parameters()]) for one in (low, true)]
    assert oracle.error(*slopes) < 0.1


class Experts(nn.Module):
    """Sorts its samples by their first value before a layer, and puts them back after it."""

    def __init__(self) -> None:
        super().__init__()
        self.expert, self.head = nn.Linear(5, 4), nn.Linear(4, 3)

    def forward(self, x):
        order = (x[:, 0] > 0).long().argsort(stable=True)
        made = torch.tanh(self.expert(x[order]))
        return self.head(torch.zeros_like(made).index_add(0, order, made))


def test_samples_that_are_sent_elsewhere_by_their_values():
    """In the first batch all stay where they are, in the second they do not: no plan of the first may be used."""
    torch.manual_seed(0)
    model = Experts().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    labels, rows = torch.arange(SIZE) % 3, torch.arange(SIZE)
    inputs = torch.randn(SIZE, 5).double()
    first, second = (Batch(x, labels, None, rows) for x in (inputs.abs(), inputs))
    exemplar = Batch(torch.randn(6, 5).double(), labels[:6])
    forml = fw.FORML(model, SIZE, gradient="per-layer")
    for batch in (first, second):
        expected = score_gradient(model, batch, exemplar, forml.scores, forml.objective, 0.1, mode="double-backward")
        assert oracle.error(forml.step(batch, exemplar, optimizer).gradient, expected) < BOUND


def by_mask(layer, x, lengths):
    there = torch.arange(x.shape[1]) < lengths[:, None]
    made = layer(nn.functional.linear(x, layer.weight[:3]).masked_select(there[..., None]).view(-1, x.shape[2]))
    return x.new_zeros(*x.shape[:2], made.shape[1]).masked_scatter(there[..., None], made).sum(1)


def by_repeats(layer, x, lengths):
    whose = torch.repeat_interleave(torch.arange(len(x)), lengths)
    return x.new_zeros(len(x), layer.out_features).index_add(0, whose, layer(x[whose, 0]))


def packed(layer, x, lengths):
    found = nn.utils.rnn.pack_padded_sequence(torch.tanh(x), lengths.tolist(), batch_first=True)
    found = nn.utils.rnn.PackedSequence(layer(found.data), found.batch_sizes)
    return nn.utils.rnn.pad_packed_sequence(found, batch_first=True, total_length=x.shape[1])[0].sum(1)


def twice_packed(layer, x, lengths):
    return packed(layer, nn.functional.linear(x, layer.weight[:3]), lengths)


class Ragged(nn.Module):
    """A layer over as many entries of each sample as it has."""

    def __init__(self, pooled) -> None:
        super().__init__()
        self.pooled, self.layer, self.head = pooled, nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 40), nn.Linear(40, 3))

    def forward(self, x, lengths):
        return self.head(torch.tanh(self.pooled(self.layer, x, lengths)))


@pytest.mark.parametrize("pooled", [by_mask, by_repeats, packed, twice_packed])
def test_samples_of_other_lengths_and_the_same_sum(pooled):
    """In the first batch all are alike, in the second not, and together as long: only the lengths tell them apart."""
    torch.manual_seed(0)
    model = Ragged(pooled).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows, alike = torch.arange(SIZE), torch.full((SIZE,), 2)
    other = alike + (rows < SIZE // 2).long() - (rows >= SIZE - SIZE // 2).long()
    batches = [Batch((torch.randn(SIZE, 4, 3).double(), lengths), rows % 3, None, rows) for lengths in (alike, other)]
    exemplar = Batch((torch.randn(6, 4, 3).double(), alike[:6]), rows[:6] % 3)
    forml = fw.FORML(model, SIZE, gradient="per-layer")
    for batch in batches:
        expected = score_gradient(model, batch, exemplar, forml.scores, forml.objective, 0.1, mode="double-backward")
        assert oracle.error(forml.step(batch, exemplar, optimizer).gradient, expected) < BOUND


class Two(nn.Module):
    """Sends samples to one layer or the other, by a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(5, 4), nn.Linear(5, 4), nn.Linear(4, 30)

    def forward(self, x):
        made, mask = x.new_zeros(len(x), 4), x[:, 0] > 0
        for layer, there in ((self.first, mask), (self.second, ~mask)):
            made[there] = layer(x[there])
        return self.head(torch.tanh(made))


def test_a_layer_that_nobody_is_sent_to_is_left_out():
    torch.manual_seed(0)
    model, rows = Two().double(), torch.arange(SIZE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    exemplar = Batch(torch.randn(6, 5).double(), rows[:6] % 3)
    inputs, forml = torch.randn(SIZE, 5).double(), fw.FORML(model, SIZE, gradient="per-layer")
    for x in (inputs.abs(), inputs, -inputs.abs()):
        batch = Batch(x, rows % 3, None, rows)
        expected = score_gradient(model, batch, exemplar, forml.scores, forml.objective, 0.1, mode="double-backward")
        assert oracle.error(forml.step(batch, exemplar, optimizer).gradient, expected) < BOUND


def test_running_statistics_of_a_layer_that_is_run_again_move_once():
    """Instance norm with running statistics is read by running it again, which must not move them again."""
    torch.manual_seed(0)
    layers = (nn.Conv1d(2, 4, 3), nn.InstanceNorm1d(4, affine=True, track_running_stats=True), nn.Flatten())
    model = nn.Sequential(*layers, nn.Linear(4 * 5, 3)).double()
    rows = torch.arange(SIZE)
    batch = Batch(torch.randn(SIZE, 2, 7).double(), rows % 3, None, rows)
    exemplar = Batch(torch.randn(6, 2, 7).double(), rows[:6] % 3)
    after = {}
    for gradient in ("per-layer", "forward"):
        _, twin, record = stepped(model, batch, exemplar, gradient)
        assert record.mode == gradient
        after[gradient] = {name: b.clone() for name, b in twin.named_buffers()}
    assert all(torch.allclose(b, after["forward"][name], rtol=1e-12) for name, b in after["per-layer"].items())
