"""forward = double-backward = central differences of the whole map, to 1e-10 in float64, on every kind of model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from tests import networks as net
from tests import oracle
from torch import nn

from fairweight.metagradient import score_gradient
from fairweight.metagradient.solve import Softmax, WeightForm
from fairweight.objectives.max_discrepancy import MaxLossDiscrepancy
from fairweight.objectives.variance import LossVariance
from fairweight.paper.weight_forms.inverse_square import InverseSquare
from fairweight.paper.weight_forms.logit_scale import LogitScale
from fairweight.paper.weight_forms.raw_mean import RawMean
from fairweight.paper.weight_forms.sigmoid import Sigmoid
from fairweight.types import Batch

BOUND = 1e-10
LR = 0.1


@dataclass(frozen=True)
class Case:
    model: Callable[[], nn.Module]
    draw: Callable[..., Batch]
    train: bool = True


CASES = {
    "mlp": Case(net.mlp, net.vectors),
    "groups": Case(net.mlp, partial(net.vectors, groups=True)),
    "batch norm, train": Case(net.conv_batch_norm, net.pictures),
    "batch norm, eval": Case(net.conv_batch_norm, net.pictures, train=False),
    "group and layer norm": Case(net.group_layer_norm, net.pictures),
    "encoder, train": Case(net.Encoder, net.sentences),
    "encoder, eval": Case(net.Encoder, net.sentences, train=False),
    "encoder with dropout": Case(partial(net.Encoder, 0.2), net.sentences),
    "attention called directly": Case(net.DirectAttention, net.sentences),
    "dropout": Case(net.dropout, net.vectors),
    "tuple": Case(net.TwoInputs, partial(net.two_inputs, kind="tuple")),
    "list": Case(net.TwoInputs, partial(net.two_inputs, kind="list")),
    "dict": Case(net.TwoInputs, partial(net.two_inputs, kind="dict")),
    "frozen parameters": Case(net.frozen, net.vectors),
    "tied weights": Case(net.Tied, net.vectors),
    "object with logits": Case(partial(net.Wrapped, "object"), net.vectors),
    "dict with logits": Case(partial(net.Wrapped, "dict"), net.vectors),
    "tuple with logits": Case(partial(net.Wrapped, "tuple"), net.vectors),
    "one logit [B, 1]": Case(partial(net.OneLogit, False), net.binary),
    "one logit [B]": Case(partial(net.OneLogit, True), net.binary),
    "checkpointed": Case(net.Checkpointed, net.vectors),
    "embedding": Case(net.Words, net.words),
    "lstm": Case(net.Recurrent, net.sentences),
    "gru": Case(partial(net.Recurrent, nn.GRU), net.sentences),
}


def setting(name: str):
    """Model, train batch, exemplar batch and scores of a case."""
    case = CASES[name]
    model = case.model().double().train(case.train)
    if name == "batch norm, eval":  # running statistics that are not those of the start
        model.train()(case.draw(9, seed=5).inputs)
        model.eval()
    return model, case.draw(5, seed=2), case.draw(6, seed=3), torch.tensor([0.3, -0.7, 0.1, 0.9, -0.2]).double()


@pytest.mark.parametrize("name", CASES)
def test_modes_equal_central_differences_of_the_whole_map(name):
    model, batch, exemplar, scores = setting(name)
    state = torch.get_rng_state()
    expected = oracle.gradient(
        lambda w: oracle.whole_map(model, batch, exemplar, w, oracle.variance, LR, state=state), scores
    )
    forward = score_gradient(model, batch, exemplar, scores, LossVariance(), LR, "forward")
    double = score_gradient(model, batch, exemplar, scores, LossVariance(), LR, "double-backward")
    assert oracle.error(forward, expected) < BOUND
    assert oracle.error(double, expected) < BOUND
    assert oracle.error(forward, double) < 1e-13


@pytest.mark.parametrize("name", ["mlp", "batch norm, train", "encoder, train", "dropout", "tied weights"])
def test_reverse_look_ahead(name):
    model, batch, exemplar, scores = setting(name)
    state = torch.get_rng_state()
    expected = oracle.gradient(
        lambda w: oracle.whole_map(model, batch, exemplar, w, oracle.spread, LR, reverse=True, state=state), scores
    )
    for mode in ("forward", "double-backward"):
        found = score_gradient(model, batch, exemplar, scores, MaxLossDiscrepancy(), LR, mode, reverse=True)
        assert oracle.error(found, expected) < BOUND
    plain = score_gradient(model, batch, exemplar, scores, MaxLossDiscrepancy(), LR)
    assert oracle.error(plain, expected) > 0.1


@pytest.mark.parametrize("rates", ["numbers", "tensors", "some"])
def test_a_rate_for_each_parameter(rates):
    model, batch, exemplar, scores = setting("mlp")
    lr: dict[str, float | torch.Tensor] = {name: 0.1 * (k + 1) for k, (name, _) in enumerate(model.named_parameters())}
    if rates == "tensors":
        lr = {name: torch.rand_like(p) for name, p in model.named_parameters()}
    if rates == "some":  # the others stay where they are
        lr = {"2.weight": 0.5, "4.bias": 0.2}
    expected = oracle.gradient(lambda w: oracle.whole_map(model, batch, exemplar, w, oracle.variance, lr), scores)
    for mode in ("forward", "double-backward"):
        assert oracle.error(score_gradient(model, batch, exemplar, scores, LossVariance(), lr, mode), expected) < BOUND


FORMS: dict[str, tuple[WeightForm, Callable]] = {
    "softmax": (Softmax(), oracle.softmax_total),
    "logit-scale": (LogitScale(), oracle.logit_scale_total),
    "inverse-square": (InverseSquare(penalty=0.01), oracle.inverse_square_total),
    "raw-mean": (RawMean(), oracle.raw_mean_total),
    "sigmoid": (Sigmoid(), oracle.sigmoid_total),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", FORMS)
def test_weight_forms(name, reverse):
    form, total = FORMS[name]
    model, batch, exemplar, _ = setting("batch norm, train")
    scores = torch.tensor([0.9, 1.6, 1.1, 0.8, 1.3]).double()

    def value(w):
        found = oracle.whole_map(model, batch, exemplar, w, oracle.variance, LR, reverse=reverse, total=total)
        return found + (0.01 * float(w.abs().sum()) if name == "inverse-square" else 0.0)

    expected = oracle.gradient(value, scores)
    for mode in ("forward", "double-backward"):
        found = score_gradient(model, batch, exemplar, scores, LossVariance(), LR, mode, reverse=reverse, form=form)
        assert oracle.error(found, expected) < BOUND


def test_a_loss_of_the_users_own():
    model, batch, exemplar, scores = setting("mlp")

    def focal(z, labels):
        log_p = torch.log_softmax(z, dim=1).gather(1, labels[:, None]).squeeze(1)
        return -((1 - log_p.exp()) ** 2) * log_p

    def value(w):
        def total(w, z, labels):
            return (torch.softmax(w, 0) * focal(z, labels)).sum()

        there = oracle.stepped(model, batch, w, LR, total=total, state=torch.get_rng_state())
        with torch.no_grad():
            return float(oracle.variance(focal(there(exemplar.inputs), exemplar.labels), exemplar.labels))

    expected = oracle.gradient(value, scores)
    for mode in ("forward", "double-backward"):
        found = score_gradient(model, batch, exemplar, scores, LossVariance(), LR, mode, loss=focal)
        assert oracle.error(found, expected) < BOUND


def test_an_objective_of_the_users_own_sees_known_groups_alone():
    model, batch, exemplar, scores = setting("mlp")
    exemplar = Batch(exemplar.inputs, exemplar.labels, torch.tensor([0, 1, -1, 0, 1, -1]))

    def gap(losses, groups):
        assert set(groups.tolist()) == {0, 1}
        return (losses[groups == 0].mean() - losses[groups == 1].mean()) ** 2

    def by_hand(losses, groups):
        return gap(losses[groups >= 0], groups[groups >= 0])

    expected = oracle.gradient(lambda w: oracle.whole_map(model, batch, exemplar, w, by_hand, LR), scores)
    assert oracle.error(score_gradient(model, batch, exemplar, scores, gap, LR), expected) < BOUND


def test_scores_are_read_at_the_rows():
    model, batch, exemplar, scores = setting("mlp")
    everybody = torch.randn(20).double()
    rows = torch.tensor([3, 19, 0, 7, 11])
    everybody[rows] = scores
    named = Batch(batch.inputs, batch.labels, rows=rows)
    there = score_gradient(model, named, exemplar, everybody, LossVariance(), LR)
    assert torch.equal(there, score_gradient(model, batch, exemplar, scores, LossVariance(), LR))


def test_scores_of_lower_precision_are_taken_at_the_precision_of_the_model():
    model, batch, exemplar, _ = setting("mlp")
    scores = torch.tensor([0.5, -0.25, 0.0, 1.0, 2.0])  # exact in float32, their softmax is not
    found = score_gradient(model, batch, exemplar, scores, LossVariance(), LR)
    assert found.dtype == torch.float64
    assert oracle.error(found, score_gradient(model, batch, exemplar, scores.double(), LossVariance(), LR)) < 1e-14


def test_the_gradient_sums_to_zero_for_softmax():
    model, batch, exemplar, scores = setting("batch norm, train")
    found = score_gradient(model, batch, exemplar, scores, LossVariance(), LR)
    assert abs(float(found.sum())) < 1e-15 < float(found.abs().max())


def test_the_oracle_itself():
    """Extrapolated differences of a known function."""
    found = oracle.derivative(lambda h: math.exp(math.sin(1.3 + h)))
    assert abs(found - math.cos(1.3) * math.exp(math.sin(1.3))) < 1e-13
