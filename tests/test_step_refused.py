"""A step that is refused moves nothing, and says in one sentence what to do."""

from __future__ import annotations

import copy

import pytest
import torch
from tests import networks as net
from tests.test_step import ROWS, setting

from fairweight.errors import BadInput, FairweightError, LossNotFinite
from fairweight.methods.forml import FORML
from fairweight.methods.score_step import PlainStep
from fairweight.methods.uniform import Uniform
from fairweight.objectives.mean import MeanLoss
from fairweight.step import take_step
from fairweight.types import Batch


def everything(model, forml, optimizer):
    """All state, as one list of values."""
    values = [t.clone() for t in model.state_dict().values()] + [forml.scores, torch.get_rng_state()]
    values += [v.clone() for s in optimizer.state.values() for v in s.values() if isinstance(v, torch.Tensor)]
    return values


def assert_nothing_moved(before, after):
    assert len(before) == len(after)
    for b, a in zip(before, after, strict=True):
        assert torch.equal(b, a)


def poisoned(batch):
    x = batch.inputs.clone()
    x[2] = torch.nan
    return Batch(x, batch.labels, batch.groups, batch.rows)


def broken(how, batch, exemplar):
    """A step's arguments, with one thing wrong."""
    bad = {
        "nan input": (poisoned(batch), exemplar),
        "nan exemplar": (batch, poisoned(exemplar)),
        "labels": (Batch(batch.inputs, batch.labels + 2, batch.groups, batch.rows), exemplar),
        "exemplar labels": (batch, Batch(exemplar.inputs, exemplar.labels + 2)),
        "rows": (Batch(batch.inputs, batch.labels, batch.groups, batch.rows + 3), exemplar),
        "one group": (batch, Batch(exemplar.inputs, exemplar.labels * 0)),
        "no exemplar": (batch, None),
    }
    return bad[how]


@pytest.mark.parametrize("mode", ["forward", "difference", "double-backward"])
@pytest.mark.parametrize(
    "how", ["nan input", "nan exemplar", "labels", "exemplar labels", "rows", "one group", "no exemplar"]
)
def test_a_refused_step_moves_nothing(how, mode):
    model, forml, optimizer, batch, exemplar = setting(mode)
    forml.step(batch, exemplar, optimizer)
    before = everything(model, forml, optimizer)
    memory = copy.deepcopy(forml.state_dict())
    with pytest.raises(FairweightError):
        forml.step(*broken(how, batch, exemplar), optimizer)
    assert_nothing_moved(before, everything(model, forml, optimizer))
    again = forml.state_dict()
    assert again["steps"] == memory["steps"]
    assert torch.equal(again["score_step"]["running"], memory["score_step"]["running"])


def test_a_loss_that_is_not_finite_names_the_rows():
    _, forml, optimizer, batch, exemplar = setting()
    with pytest.raises(LossNotFinite, match=r"The loss of \d of 5 samples is not finite .*clip the gradient"):
        forml.step(poisoned(batch), exemplar, optimizer)
    model = net.mlp().double()
    drawn = net.vectors(5)
    named = poisoned(Batch(drawn.inputs, drawn.labels, rows=ROWS))
    with pytest.raises(LossNotFinite, match=r"1 of 5 samples is not finite \(rows \[0\]\)"):
        Uniform(model, 10).step(named, None, torch.optim.SGD(model.parameters(), 0.1))


def test_an_objective_without_a_finite_slope_moves_nothing():
    model, forml, optimizer, batch, exemplar = setting()
    forml.objective = lambda losses, groups: (losses - losses.detach()).square().sum().sqrt()
    before = everything(model, forml, optimizer)
    with pytest.raises(LossNotFinite, match="its gradient is not"):
        forml.step(batch, exemplar, optimizer)
    assert_nothing_moved(before, everything(model, forml, optimizer))


def test_lbfgs_is_refused_before_anything_moves():
    model, forml, _, batch, exemplar = setting()
    optimizer = torch.optim.LBFGS(model.parameters())
    before = everything(model, forml, optimizer)
    with pytest.raises(BadInput, match="LBFGS evaluates the loss many times a step; choose another optimizer"):
        take_step(forml, batch, exemplar, optimizer)
    assert_nothing_moved(before, everything(model, forml, optimizer))


def test_flags_are_given_back_when_a_step_fails():
    model = net.DirectAttention()
    forml = FORML(model, 5, MeanLoss(), score_step=PlainStep())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    batch, exemplar = net.sentences(5, dtype=torch.float32), net.sentences(6, 3, torch.float32)
    forml.step(batch, exemplar, optimizer)
    assert forml.mode.plain_kernels

    def seen():
        return torch.backends.cuda.flash_sdp_enabled(), torch.backends.mha.get_fastpath_enabled()

    before = seen()
    with pytest.raises(FairweightError):
        forml.step(poisoned(batch), exemplar, optimizer)
    model.register_forward_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        forml.step(batch, exemplar, optimizer)
    assert seen() == before
