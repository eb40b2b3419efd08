"""Functions that bring a derivative of their own: what they say of it is followed, by every mode."""

from __future__ import annotations

import pytest
import torch
from tests import networks as net
from tests import oracle
from torch import nn
from torch.autograd.function import once_differentiable

from fairweight.errors import NotDifferentiable
from fairweight.metagradient import choose, classification_loss, score_gradient
from fairweight.objectives.mean import MeanLoss
from fairweight.objectives.variance import LossVariance

SCORES = torch.tensor([0.3, -0.7, 0.1, 0.9, -0.2])


def pick(model, batch, asked="auto"):
    return choose(model, batch, classification_loss, asked)


class _Cube(torch.autograd.Function):
    """Without jvp, and differentiable once alone."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @once_differentiable
    def backward(ctx, slope):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * slope


class Custom(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.second(_Cube.apply(self.first(x)))


def test_a_function_that_can_be_differentiated_once_alone():
    model, batch, exemplar = Custom().double(), net.vectors(5), net.vectors(6, seed=3)
    twin = nn.Sequential(model.first, _Power(), model.second)
    assert pick(model, batch).name == "difference"
    found = score_gradient(model, batch, exemplar, SCORES.double(), LossVariance(), 0.1, "auto")
    exact = score_gradient(twin, batch, exemplar, SCORES.double(), LossVariance(), 0.1, "forward")
    assert oracle.error(found, exact) < 1e-7
    for asked in ("forward", "double-backward"):
        with pytest.raises(NotDifferentiable, match="use gradient='auto'"):
            pick(model, batch, asked)


class _Power(nn.Module):
    def forward(self, x):
        return x**3


class _Clipped(torch.autograd.Function):
    """Straight through: backward is not the derivative of forward."""

    @staticmethod
    def forward(ctx, x):
        return x.clamp(-0.3, 0.3)

    @staticmethod
    def backward(ctx, slope):
        return slope * 0.5


class StraightThrough(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.second(_Clipped.apply(self.first(x)))


def test_a_backward_pass_of_its_own_is_followed_and_not_differenced():
    model, batch, exemplar = StraightThrough().double(), net.vectors(5), net.vectors(6, seed=3)
    assert pick(model, batch).name == "double-backward"
    found, exact = (
        score_gradient(model, batch, exemplar, SCORES.double(), LossVariance(), 0.1, mode)
        for mode in ("auto", "double-backward")
    )
    assert oracle.error(found, exact) < 1e-13


class _Bounded(torch.autograd.Function):
    """A root whose derivative is bounded: near 0 backward gives another one than the function has."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.abs().sqrt()

    @staticmethod
    def backward(ctx, slope):
        (x,) = ctx.saved_tensors
        return slope / (4 * x).clamp_min(0.1).sqrt()


class Bounded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        gate = torch.ones(600)
        gate[:3] = 0.01
        self.gate, self.head = nn.Parameter(gate), nn.Linear(600, 3)

    def forward(self, x):
        return self.head(x.repeat(1, 100) * _Bounded.apply(self.gate))


def test_a_derivative_that_differs_in_few_entries_is_followed():
    """One random direction may not show it, so an exact mode goes before a difference."""
    model, batch, exemplar = Bounded().double(), net.vectors(5), net.vectors(6, seed=3)
    assert pick(model, batch).name == "double-backward"
    found, exact = (
        score_gradient(model, batch, exemplar, SCORES.double(), LossVariance(), 0.1, mode)
        for mode in ("auto", "double-backward")
    )
    assert oracle.error(found, exact) < 1e-12


class Standardised(nn.Module):
    """Divides its weight by a norm that it holds constant by no_grad, or by detach."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.weight, self.head, self.how = nn.Parameter(torch.randn(5, 6)), nn.Linear(5, 3), how

    def forward(self, x):
        if self.how == "detach":
            size = self.weight.norm().detach()
        else:
            with torch.no_grad():
                size = self.weight.norm()
        return self.head(torch.tanh(x @ (self.weight / size).T))


def test_forward_mode_is_refused_where_backward_does_not_see_all_that_it_sees():
    """no_grad holds a value constant for backward and not for forward mode: the two would differ in silence."""
    model, batch, exemplar = Standardised("no_grad").double(), net.vectors(5), net.vectors(6, seed=3)
    with pytest.raises(NotDifferentiable, match="no_grad"):
        pick(model, batch, "forward")
    assert pick(model, batch).name == "double-backward"
    twin = Standardised("detach").double()
    twin.load_state_dict(model.state_dict())
    assert pick(twin, batch, "forward").name == "forward"
    found = score_gradient(model, batch, exemplar, SCORES.double(), LossVariance(), 0.1, "auto")
    exact = score_gradient(twin, batch, exemplar, SCORES.double(), LossVariance(), 0.1, "forward")
    assert oracle.error(found, exact) < 1e-13


def test_a_straight_through_estimator_is_followed():
    class Rounded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)

        def forward(self, x):
            h = torch.tanh(self.first(x))
            return self.second(h + ((h * 4).round() / 4 - h).detach())

    model, batch, exemplar = Rounded().double(), net.vectors(5), net.vectors(6, seed=3)
    forward = score_gradient(model, batch, exemplar, SCORES.double(), LossVariance(), 0.1, "forward")
    double = score_gradient(model, batch, exemplar, SCORES.double(), LossVariance(), 0.1, "double-backward")
    assert oracle.error(forward, double) < 1e-13


def test_differences_are_refused_where_they_do_not_follow_backward():
    model, batch = StraightThrough().double(), net.vectors(5)
    with pytest.raises(NotDifferentiable, match="do not follow"):
        pick(model, batch, "difference")
    assert pick(net.mlp().double(), batch, "difference").name == "difference"


class _CrossEntropy(torch.autograd.Function):
    """A loss that is differentiable once alone."""

    @staticmethod
    def forward(ctx, logits, labels):
        ctx.save_for_backward(logits.softmax(1) - nn.functional.one_hot(labels, logits.shape[1]))
        return nn.functional.cross_entropy(logits, labels, reduction="none")

    @staticmethod
    @once_differentiable
    def backward(ctx, slope):
        return slope[:, None] * ctx.saved_tensors[0], None


def _margin(logits, labels):
    return nn.functional.multi_margin_loss(logits, labels, reduction="none")


@pytest.mark.parametrize("loss", [_CrossEntropy.apply, _margin], ids=["said by nobody", "said by torch"])
def test_a_loss_that_can_be_differentiated_once_alone(loss):
    """Its second derivative is 0 in silence, or an error; every other mode takes its slopes."""
    model, batch, exemplar = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)).double(), *_two()

    def found(mode, model=model, loss=loss):
        return score_gradient(model, batch, exemplar, SCORES.double(), MeanLoss(), 0.1, mode, loss=loss)

    assert choose(model, batch, loss, "auto").name == "forward"
    by_difference = found("difference")
    for mode in ("auto", "forward"):
        assert oracle.error(found(mode), by_difference) < 1e-6, mode
    with pytest.raises(NotDifferentiable, match="Double backward"):
        found("double-backward")
    if loss is not _margin:
        assert oracle.error(by_difference, found("double-backward", loss=classification_loss)) < 1e-6
    plain = nn.Sequential(model[0], model[2])
    assert oracle.error(found("per-layer", plain), found("forward", plain)) < 1e-12


def _two():
    return net.vectors(5), net.vectors(6, seed=3)


@torch.library.custom_op("fairweight_tests::product", mutates_args=())
def _product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x @ weight.T


_product.register_autograd(
    lambda ctx, g: (g @ ctx.saved_tensors[1], g.T @ ctx.saved_tensors[0]),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


@pytest.mark.slow
def test_an_operator_of_ones_own_is_a_layer():
    """torch.library's have no forward mode, and say nothing of it."""

    class Owned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(6, 5), nn.Linear(5, 3)

        def forward(self, x):
            return self.second(torch.tanh(_product(x, self.first.weight)))

    model, (batch, exemplar) = Owned().double(), _two()
    with pytest.raises(NotDifferentiable):
        pick(model, batch, "forward")
    assert choose(model, batch, classification_loss, "auto", layers=True).name == "per-layer"
    found, exact = (
        score_gradient(model, batch, exemplar, SCORES.double(), LossVariance(), 0.1, mode)
        for mode in ("auto", "double-backward")
    )
    assert oracle.error(found, exact) < 1e-12
