"""A step moves what one plain step of training moves, once, and nothing else."""

from __future__ import annotations

import copy

import pytest
import torch
from tests import networks as net
from tests import oracle
from torch import nn

from fairweight.methods.forml import FORML
from fairweight.methods.look_ahead import LookAhead
from fairweight.methods.uniform import Uniform
from fairweight.objectives.variance import LossVariance
from fairweight.step import update
from fairweight.types import Batch

MODES = ["forward", "difference", "double-backward", "auto"]
ROWS = torch.tensor([4, 9, 0, 7, 2])


class Net(nn.Module):
    """Convolution, batch norm, dropout, and a part in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.body = net.conv_batch_norm()[:6]
        self.still = nn.BatchNorm2d(4).eval()
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(36, net.CLASSES)

    def forward(self, x):
        return self.head(self.drop(self.still(self.body(x)).flatten(1)))


def setting(mode="forward", **options):
    """A model, FORML for ten samples with scores of its own, an optimizer and two batches."""
    model = Net().double()
    forml = FORML(model, 10, LossVariance(), gradient=mode, **options)
    forml._own.copy_(torch.randn(10))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    batch = Batch(net.pictures(5, seed=2).inputs, torch.tensor([0, 1, 2, 0, 1]), torch.tensor([0, 1, 0, 1, -1]), ROWS)
    return model, forml, optimizer, batch, net.pictures(6, seed=3)


def weighted_backward(model, scores, batch):
    """One plain forward and backward of Σ softmax(scores)_i l_i."""
    loss = (torch.softmax(scores, 0) * oracle.cross_entropy(model(batch.inputs), batch.labels)).sum()
    loss.backward()
    return loss


@pytest.mark.parametrize("mode", MODES)
def test_running_statistics_move_once_as_by_one_plain_forward(mode):
    model, forml, optimizer, batch, exemplar = setting(mode)
    twin = copy.deepcopy(model)
    forml.backward(batch, exemplar, optimizer)
    torch.manual_seed(99)  # the statistics do not depend on dropout, which comes after
    twin(batch.inputs)
    for (name, b), (_, expected) in zip(model.named_buffers(), twin.named_buffers(), strict=True):
        assert torch.equal(b, expected), name
    assert int(model.body[1].num_batches_tracked) == 1
    assert int(model.still.num_batches_tracked) == 0


@pytest.mark.parametrize("mode", MODES)
def test_parameters_move_once_by_the_optimizer_on_the_loss_at_the_new_scores(mode):
    model, forml, optimizer, batch, exemplar = setting(mode)
    twin = copy.deepcopy(model)
    other = torch.optim.SGD(twin.parameters(), 0.1, momentum=0.9)
    for _ in range(3):
        state = torch.get_rng_state()
        record = forml.step(batch, exemplar, optimizer)
        torch.set_rng_state(state)
        other.zero_grad()
        loss = weighted_backward(twin, forml.scores[ROWS], batch)
        other.step()
        assert float(record.loss) == pytest.approx(float(loss.detach()), rel=1e-12)
    for p, expected in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("mode", MODES)
def test_grad_is_that_of_one_backward_of_the_weighted_loss(mode):
    model, forml, optimizer, batch, exemplar = setting(mode)
    twin = copy.deepcopy(model)
    state = torch.get_rng_state()
    forml.step(batch, exemplar, optimizer)
    torch.set_rng_state(state)
    weighted_backward(twin, forml.scores[ROWS], batch)
    for p, expected in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p.grad, expected.grad, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("mode", MODES)
def test_the_random_stream_is_that_after_one_plain_forward(mode):
    model, forml, optimizer, batch, exemplar = setting(mode)
    state = torch.get_rng_state()
    forml.step(batch, exemplar, optimizer)
    after = torch.get_rng_state()
    torch.set_rng_state(state)
    model(batch.inputs)
    assert torch.equal(torch.get_rng_state(), after)
    assert not torch.equal(state, after)


@pytest.mark.parametrize("mode", MODES)
def test_every_pass_of_a_step_sees_the_same_mask(mode):
    """The real forward draws a mask; the look-ahead, the exemplars and the tangent start from the same random state."""
    model = net.dropout().double()
    forml = FORML(model, 5, LossVariance(), gradient=mode)
    batch, exemplar = net.vectors(5, seed=2), net.vectors(6, seed=3)
    state = torch.get_rng_state()
    expected = oracle.gradient(
        lambda w: oracle.whole_map(model, batch, exemplar, w, oracle.variance, 0.1, state=state),
        torch.zeros(5).double(),
    )
    record = forml.backward(batch, exemplar, torch.optim.SGD(model.parameters(), 0.1))
    assert oracle.error(record.gradient, expected) < (1e-6 if mode == "difference" else 1e-10)


@pytest.mark.parametrize("mode", MODES)
def test_modes_flags_and_objects_stay(mode):
    model, forml, optimizer, batch, exemplar = setting(mode, look_ahead=LookAhead(statistics="running"))
    model.head.bias.requires_grad_(False)
    before = [m.training for m in model.modules()], [p.requires_grad for p in model.parameters()]
    objects = [id(p) for p in (*model.parameters(), *model.buffers())]
    frozen = model.head.bias.clone()
    forml.step(batch, exemplar, optimizer)
    assert ([m.training for m in model.modules()], [p.requires_grad for p in model.parameters()]) == before
    assert [id(p) for p in (*model.parameters(), *model.buffers())] == objects
    assert torch.equal(model.head.bias, frozen)
    assert model.head.bias.grad is None


def test_batches_stay():
    _, forml, optimizer, batch, exemplar = setting()
    kept = copy.deepcopy((batch, exemplar))
    forml.step(batch, exemplar, optimizer)
    for now, then in zip((batch, exemplar), kept, strict=True):
        for name in ("inputs", "labels", "groups", "rows", "shares"):
            old = getattr(then, name)
            assert (getattr(now, name) is None) if old is None else torch.equal(getattr(now, name), old)
        assert now.inputs.grad is None


def test_scores_of_other_rows_stay():
    _, forml, optimizer, batch, exemplar = setting()
    before = forml.scores
    forml.step(batch, exemplar, optimizer)
    moved = torch.nonzero(forml.scores != before).flatten()
    assert set(moved.tolist()) == set(ROWS.tolist())


def test_the_record_says_what_was_done():
    model, forml, optimizer, batch, exemplar = setting()
    model.drop.p = 0.0
    twin = copy.deepcopy(model)
    record = forml.step(batch, exemplar, optimizer)
    with torch.no_grad():
        z = twin(batch.inputs)
    torch.testing.assert_close(record.losses, oracle.cross_entropy(z, batch.labels))
    torch.testing.assert_close(record.weights, torch.softmax(forml.scores[ROWS], 0))
    assert float(record.weights.sum()) == pytest.approx(1.0)
    assert torch.equal(record.correct, z.argmax(1) == batch.labels)
    others = z.clone()
    others[range(5), batch.labels] = -torch.inf
    torch.testing.assert_close(record.margin, z[range(5), batch.labels] - others.amax(1))
    assert torch.equal(record.margin > 0, record.correct)
    assert torch.equal(record.exemplar_groups, exemplar.labels)
    assert record.exemplar_losses.shape == (6,)
    assert float(record.objective) == pytest.approx(float(oracle.variance(record.exemplar_losses, exemplar.labels)))
    assert not any(t.requires_grad for t in (record.loss, record.losses, record.weights, record.margin))


def test_the_margin_of_one_logit():
    model = net.OneLogit(False).double()
    batch = net.binary(4)
    record = Uniform(model, 4).step(batch, None, torch.optim.SGD(model.parameters(), 1e-9))
    z = model(batch.inputs).detach().flatten()
    torch.testing.assert_close(record.margin, torch.where(batch.labels == 1, z, -z), rtol=1e-6, atol=1e-8)
    assert torch.equal(record.correct, record.margin > 0)


def test_uniform_is_plain_training():
    model, _, _, batch, _ = setting()
    twin = copy.deepcopy(model)
    optimizer, other = (torch.optim.Adam(m.parameters(), 0.01) for m in (model, twin))
    uniform = Uniform(model, 10)
    for _ in range(3):
        state = torch.get_rng_state()
        uniform.step(batch, None, optimizer)
        torch.set_rng_state(state)
        other.zero_grad()
        nn.functional.cross_entropy(twin(batch.inputs), batch.labels).backward()
        other.step()
    for p, expected in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, expected, rtol=1e-10, atol=1e-12)
    assert uniform.steps == 3


def test_under_no_grad_a_step_trains_all_the_same():
    model, forml, optimizer, batch, exemplar = setting()
    twin = copy.deepcopy((model, forml, optimizer))
    twin_model, twin_forml = twin[0], twin[1]
    twin_forml.model = twin_model
    other = torch.optim.SGD(twin_model.parameters(), 0.1, momentum=0.9)
    state = torch.get_rng_state()
    with torch.no_grad():
        forml.step(batch, exemplar, optimizer)
    torch.set_rng_state(state)
    twin_forml.step(batch, exemplar, other)
    for p, expected in zip(model.parameters(), twin_model.parameters(), strict=True):
        assert torch.equal(p, expected)


# -- clipping, accumulation -------------------------------------------------------------------------


@pytest.mark.parametrize("clip", [1e-3, 1e3])
def test_clip_norm(clip):
    model, forml, optimizer, batch, exemplar = setting()
    twin = copy.deepcopy(model)
    other = torch.optim.SGD(twin.parameters(), 0.1, momentum=0.9)
    state = torch.get_rng_state()
    forml.step(batch, exemplar, optimizer, clip_norm=clip)
    torch.set_rng_state(state)
    weighted_backward(twin, forml.scores[ROWS], batch)
    nn.utils.clip_grad_norm_(twin.parameters(), clip)
    other.step()
    for p, expected in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, expected, rtol=1e-10, atol=1e-13)


def test_accumulation_sums_the_scaled_gradients_of_the_parts():
    model, forml, optimizer, _, exemplar = setting()
    model.drop.p = 0.0
    parts = [
        Batch(net.pictures(4, seed=s).inputs, torch.tensor([0, 1, 2, 0]), rows=torch.arange(4) + r)
        for s, r in ((5, 0), (6, 4), (7, 6))
    ]
    twin = copy.deepcopy(model)
    optimizer.zero_grad()
    for part in parts:
        forml.backward(part, exemplar, optimizer, scale=1 / 3)
        (
            torch.softmax(forml.scores[part.rows], 0) * oracle.cross_entropy(twin(part.inputs), part.labels) / 3
        ).sum().backward()
    for p, expected in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p.grad, expected.grad, rtol=1e-10, atol=1e-13)
    before = [p.clone() for p in model.parameters()]
    update(optimizer)
    assert all(not torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))
    assert forml.steps == 3
