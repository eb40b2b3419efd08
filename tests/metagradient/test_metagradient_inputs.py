"""Bad input gets one sentence that names the next step."""

from __future__ import annotations

import pytest
import torch
from tests import networks as net
from torch import nn

from fairweight.errors import BadInput, LabelsBeyondLogits, LossNotFinite, NoLogits, RowsOutOfRange
from fairweight.metagradient import score_gradient
from fairweight.metagradient.model import logits_of, unwrap
from fairweight.metagradient.passes import classification_loss, predicted
from fairweight.objectives.mean import MeanLoss
from fairweight.objectives.variance import LossVariance
from fairweight.types import Batch

GOOD = net.vectors(5, dtype=torch.float32)


def gradient(model=None, batch=GOOD, exemplar=GOOD, scores=None, objective=None, lr=0.1, **options):
    scores = torch.zeros(5) if scores is None else scores
    return score_gradient(model or net.mlp(), batch, exemplar, scores, objective or LossVariance(), lr, **options)


class Gives(nn.Module):
    def __init__(self, change) -> None:
        super().__init__()
        self.inner, self.change = net.mlp(), change

    def forward(self, x):
        return self.change(self.inner(x))


@pytest.mark.parametrize("mode", ["auto", "forward", "difference", "double-backward"])
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda z: None, "NoneType, in which no logits were found; return a tensor"),
        (lambda z: {"scores": z}, "dict, in which no logits were found"),
        (lambda z: (), "tuple, in which no logits were found"),
        (lambda z: z.argmax(dim=1), "Tensor, in which no logits were found"),
        (lambda z: z.mean(), r"shape \(\) for 5 samples; return \[5, classes\]"),
        (lambda z: z[:4], r"shape \(4, 3\) for 5 samples"),
        (lambda z: z[:, :, None], r"shape \(5, 3, 1\) for 5 samples"),
        (lambda z: z.T, r"shape \(3, 5\) for 5 samples"),
    ],
)
def test_no_logits(change, sentence, mode):
    with pytest.raises(NoLogits, match=sentence):
        gradient(Gives(change), mode=mode)


@pytest.mark.parametrize("labels", [[0, 1, 2, 3, 0], [0, 1, -1, 2, 0]])
@pytest.mark.parametrize("which", ["train", "exemplar"])
def test_labels_beyond_the_logits(labels, which):
    bad = Batch(GOOD.inputs, torch.tensor(labels))
    with pytest.raises(LabelsBeyondLogits, match=f"The {which} batch has labels .* number the labels 0 to 2"):
        gradient(**{"batch" if which == "train" else "exemplar": bad})


def test_labels_beyond_one_logit():
    bad = Batch(GOOD.inputs, torch.tensor([0, 1, 2, 0, 1]))
    with pytest.raises(LabelsBeyondLogits, match="number the labels 0 to 1"):
        gradient(net.OneLogit(True), batch=bad, exemplar=bad)


@pytest.mark.parametrize("which", ["batch", "exemplar"])
@pytest.mark.parametrize("mode", ["auto", "forward", "difference", "double-backward"])
def test_an_empty_batch(which, mode):
    empty = Batch(torch.zeros(0, 6), torch.zeros(0, dtype=torch.int64))
    scores = torch.zeros(0) if which == "batch" else None
    with pytest.raises(BadInput, match="empty; give at least one sample"):
        gradient(nn.Sequential(nn.BatchNorm1d(6), net.mlp()), scores=scores, mode=mode, **{which: empty})


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        (nn.CrossEntropyLoss(), r"returned shape \(\) for 5 samples; return one loss per sample"),
        (lambda z, y: z, r"returned shape \(5, 3\) for 5 samples"),
        (lambda z, y: 1.0, "returned float for 5 samples"),
    ],
)
def test_a_loss_that_is_not_per_sample(loss, sentence):
    with pytest.raises(BadInput, match=sentence):
        gradient(loss=loss)


@pytest.mark.parametrize("value", [lambda z, g: z, lambda z, g: 1.0, lambda z, g: None])
@pytest.mark.parametrize("mode", ["forward", "double-backward"])
def test_an_objective_that_is_no_scalar(value, mode):
    with pytest.raises(BadInput, match="must return a scalar tensor"):
        gradient(objective=value, mode=mode)


@pytest.mark.parametrize("mode", ["forward", "difference", "double-backward"])
def test_an_objective_that_is_not_finite(mode):
    with pytest.raises(LossNotFinite, match="not finite after the look-ahead"):
        gradient(objective=lambda z, g: z.mean() / 0, mode=mode)


@pytest.mark.parametrize("mode", ["forward", "difference", "double-backward"])
def test_an_objective_without_a_finite_slope(mode):
    with pytest.raises(LossNotFinite, match="its gradient is not"):
        gradient(objective=lambda z, g: (z - z.detach()).square().sum().sqrt(), mode=mode)


@pytest.mark.parametrize("mode", ["forward", "difference", "double-backward"])
def test_an_objective_that_is_constant_moves_nobody(mode):
    for constant in (lambda z, g: torch.tensor(1.0), lambda z, g: 0 * z.sum(), lambda z, g: z.clamp(5, 5).mean()):
        assert torch.equal(gradient(objective=constant, mode=mode), torch.zeros(5))


@pytest.mark.parametrize(
    ("scores", "rows", "error", "sentence"),
    [
        (torch.zeros(4), None, BadInput, "4 scores for 5 samples without rows"),
        (torch.zeros(5, 1), None, BadInput, r"shape \(5, 1\); give one per sample"),
        (torch.zeros(()), None, BadInput, r"shape \(\)"),
        (torch.zeros(9), [0, 1, 2, 3, 9], RowsOutOfRange, "rows 0 to 9, and there are 9 scores"),
        (torch.zeros(9), [0, 1, -2, 3, 8], RowsOutOfRange, "rows count from 0"),
    ],
)
def test_scores_and_rows(scores, rows, error, sentence):
    batch = Batch(GOOD.inputs, GOOD.labels, rows=rows)
    with pytest.raises(error, match=sentence):
        gradient(batch=batch, scores=scores)


def test_a_rate_for_no_parameter():
    with pytest.raises(BadInput, match=r"lr names 'head\.weight', which is no trainable parameter"):
        gradient(lr={"head.weight": 0.1})
    with pytest.raises(BadInput, match="which is no trainable parameter"):
        gradient(net.frozen(), lr={"0.weight": 0.1})


def test_no_trainable_parameter():
    with pytest.raises(BadInput, match="unfreeze at least one layer"):
        gradient(net.mlp().requires_grad_(False))


def test_a_nan_input():
    bad = Batch(GOOD.inputs.clone().fill_(torch.nan), GOOD.labels)
    with pytest.raises(LossNotFinite):
        gradient(exemplar=bad)


# -- the small pieces ---------------------------------------------------------------------------------


def test_classification_loss_of_one_logit_and_of_two_agree():
    z, labels = torch.randn(6).double(), torch.arange(6) % 2
    two = torch.stack([torch.zeros(6).double(), z], dim=1)
    torch.testing.assert_close(classification_loss(z, labels), classification_loss(two, labels))
    torch.testing.assert_close(classification_loss(z[:, None], labels), classification_loss(two, labels))
    assert torch.equal(predicted(z), predicted(two))
    assert torch.equal(predicted(z[:, None]), predicted(two))


def test_losses_of_half_precision_logits_are_float32():
    assert classification_loss(torch.randn(3, 2).bfloat16(), torch.tensor([0, 1, 1])).dtype == torch.float32


def test_logits_are_found_in_every_kind_of_output():
    z = torch.randn(3, 2)
    for output in (z, (z, 1), [z], {"logits": z, "loss": 0}, type("Out", (), {"logits": z})()):
        assert logits_of(output, 3) is z


def test_wrappers_in_wrappers_are_unwrapped():
    inner = net.mlp()
    assert unwrap(nn.DataParallel(torch.compile(nn.DataParallel(inner), backend="eager"))) is inner
    assert unwrap(inner) is inner


def test_the_gradient_is_linear_in_the_objective():
    model, batch, exemplar = net.mlp().double(), net.vectors(5), net.vectors(6, seed=3)

    def of(objective):
        return score_gradient(model, batch, exemplar, torch.zeros(5).double(), objective, 0.1)

    parts = of(MeanLoss()) + 0.5 * of(LossVariance())
    torch.testing.assert_close(of(MeanLoss() + 0.5 * LossVariance()), parts, rtol=1e-12, atol=0)
