"""Scores to weights: by hand, and the closed form of softmax against its generic twin."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle

from fairweight.errors import UnknownName
from fairweight.metagradient import weight_form
from fairweight.metagradient.passes import ForwardPass, classification_loss
from fairweight.metagradient.passes import pull_by_tangent as _pull
from fairweight.metagradient.solve import Softmax, WeightForm
from fairweight.paper.weight_forms.inverse_square import InverseSquare
from fairweight.paper.weight_forms.logit_scale import LogitScale
from fairweight.paper.weight_forms.raw_mean import RawMean
from fairweight.paper.weight_forms.sigmoid import Sigmoid
from fairweight.types import Batch


def done(logits, labels) -> ForwardPass:
    """A pass that gave these logits."""
    batch, losses = Batch(logits, labels), classification_loss(logits, labels)
    return ForwardPass(torch.nn.Identity(), {}, batch, classification_loss, logits, losses, None)


def pull(logits, moved, labels):
    return _pull(done(logits, labels), moved)


def drawn(seed: int, size: int = 7, classes: int = 4):
    g = torch.Generator().manual_seed(seed)
    logits = torch.randn(size, classes, generator=g, dtype=torch.float64)
    moved = torch.randn(size, classes, generator=g, dtype=torch.float64)
    labels = torch.randint(0, classes, (size,), generator=g)
    return torch.randn(size, generator=g, dtype=torch.float64), logits, moved, labels


class _BySeenLogits(Softmax):
    sees_logits = True


@given(seed=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_closed_form_of_softmax_equals_its_generic_twin(seed):
    scores, logits, moved, labels = drawn(seed)
    at, pulled = done(logits, labels), pull(logits, moved, labels)
    fast = Softmax().gradient(scores, at, pulled)
    assert oracle.error(fast, WeightForm.gradient(Softmax(), scores, at, pulled)) < 1e-13
    assert oracle.error(fast, WeightForm.gradient(_BySeenLogits(), scores, at, moved)) < 1e-13


@pytest.mark.parametrize("form", [Softmax(), LogitScale(), InverseSquare(penalty=0.1), RawMean(), Sigmoid()])
def test_gradient_is_minus_the_mixed_derivative_of_the_total(form):
    """Moving the logits by -t·tangent changes the total; its slope in t, by each score, by differences."""
    scores, logits, moved, labels = drawn(3)
    scores = scores.abs() + 0.5

    def value(w):
        def total(t):
            z = logits - t * moved
            return float(form.train_loss(w, done(z, labels)))

        penalty = 0.1 * float(w.abs().sum()) if isinstance(form, InverseSquare) else 0.0
        return oracle.derivative(total, widest=0.05) + penalty

    expected = oracle.gradient(value, scores)
    at = done(logits, labels)
    along = moved if form.sees_logits else pull(logits, moved, labels)
    assert oracle.error(form.gradient(scores, at, along), expected) < 1e-9


def test_softmax_weights():
    found = Softmax().weights(torch.tensor([0.0, 0.0, torch.log(torch.tensor(2.0))]))
    torch.testing.assert_close(found, torch.tensor([0.25, 0.25, 0.5]))
    assert torch.isfinite(Softmax().weights(torch.tensor([1e4, -1e4, 0.0]))).all()


def test_inverse_square_weights_and_limits():
    form = InverseSquare()
    torch.testing.assert_close(form.weights(torch.tensor([1.0, 2.0, -2.0])), torch.tensor([4.0, 1.0, 1.0]) / 6)
    assert torch.isfinite(form.weights(torch.tensor([0.0, 1.0]))).all()  # the pole is kept away from
    torch.testing.assert_close(form.limit(torch.tensor([0.05, -0.01, 0.3])), torch.tensor([0.1, 0.1, 0.3]))
    assert form.start == 1.0


def test_logit_scale():
    form = LogitScale()
    scores = torch.tensor([1.0, 2.0, 0.5])
    logits = torch.randn(3, 4)
    labels = torch.tensor([0, 3, 1])
    found = form.train_loss(scores, done(logits, labels))
    expected = sum(F.cross_entropy(logits[i : i + 1] * scores[i], labels[i : i + 1]) for i in range(3)) / 3
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(form.weights(scores), scores / 3.5)
    torch.testing.assert_close(form.limit(torch.tensor([-3.0, 0.0, 2.0])), torch.tensor([0.05, 0.05, 2.0]))


def test_logit_scale_of_one_logit():
    logits, labels = torch.randn(3), torch.tensor([0, 1, 1])
    scores = torch.tensor([1.0, 2.0, 0.5])
    found = LogitScale().train_loss(scores, done(logits, labels))
    torch.testing.assert_close(found, F.binary_cross_entropy_with_logits(logits * scores, labels.float()))


def test_pull_is_the_directional_derivative_of_each_loss():
    _, logits, moved, labels = drawn(5)
    expected = torch.tensor(
        [
            oracle.derivative(
                lambda t, i=i: float(oracle.cross_entropy((logits + t * moved)[i : i + 1], labels[i : i + 1]))
            )
            for i in range(len(labels))
        ],
        dtype=torch.float64,
    )
    assert oracle.error(pull(logits, moved, labels), expected) < 1e-11


def test_pull_of_bfloat16_logits_is_float32s():
    _, logits, moved, labels = drawn(5, classes=200)
    found = pull(logits.bfloat16(), moved.float(), labels)
    expected = pull(logits.bfloat16().double(), moved.float().double(), labels)
    assert found.dtype == torch.float32
    assert oracle.error(found, expected) < 1e-5


def test_forms_by_name():
    assert weight_form("softmax") == Softmax()
    assert weight_form("logit-scale") == LogitScale()
    assert weight_form("inverse-square") == InverseSquare()
    assert weight_form("raw-mean") == RawMean()
    assert weight_form("sigmoid") == Sigmoid()


def test_forms_that_do_not_sum_to_one_start_at_the_plain_mean():
    losses = torch.tensor([1.0, 2.0, 6.0])
    for form in (RawMean(), Sigmoid()):
        start = torch.full((3,), form.start)
        torch.testing.assert_close(form.total(start, losses), torch.tensor(3.0))
        torch.testing.assert_close(form.weights(start), torch.full((3,), 1 / 3))
    assert float(Sigmoid().total(torch.tensor([-50.0, 50.0, 50.0]), losses)) == pytest.approx(16 / 3)
    torch.testing.assert_close(RawMean().limit(torch.tensor([-3.0, 2.0])), torch.tensor([0.05, 2.0]))
    mine = InverseSquare(penalty=1.0)
    assert weight_form(mine) is mine
    with pytest.raises(UnknownName, match="choose from: softmax, inverse-square, logit-scale"):
        weight_form("raw")
