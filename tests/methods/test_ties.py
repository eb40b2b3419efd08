"""Scores that samples share, beside their own or alone."""

from __future__ import annotations

import pytest
import torch
from tests import networks as net

from fairweight.errors import BadInput, MissingGroups, UnknownName
from fairweight.metagradient import score_gradient
from fairweight.methods.forml import FORML
from fairweight.methods.score_step import AdaptiveStep, PlainStep
from fairweight.methods.ties import GROUPS, WIDTH, TiedScores
from fairweight.objectives.variance import LossVariance
from fairweight.types import Batch

CPU = torch.device("cpu")
DATA = net.vectors(12, seed=2)
GROUP = torch.tensor([0, 1, 0, 1, -1, 0, 1, 0, 1, 0, -1, 1])
TRAIN = Batch(DATA.inputs, DATA.labels, GROUP, torch.arange(12))
EXEMPLAR = net.vectors(9, seed=3)


def made(tie, step=None, **options):
    torch.manual_seed(0)
    model = net.mlp().double()
    forml = FORML(model, 12, LossVariance(), score_step=step or PlainStep(10.0), tie=tie, gradient="forward", **options)
    return forml, torch.optim.SGD(model.parameters(), 0.1)


def key_of(tie):
    return {"label": TRAIN.labels, "group": GROUP, "cell": TRAIN.labels * 10 + GROUP}[tie]


@pytest.mark.parametrize("tie", ["label", "group", "cell"])
def test_own_and_shared_parts_both_follow_the_gradient(tie):
    """The score is w_i + U[tie of i], so U's gradient is the sum over its members."""
    forml, optimizer = made(tie)
    index = torch.tensor([0, 3, 4, 5, 8, 10, 11])
    batch = TRAIN.take(index)
    g = score_gradient(forml.model, batch, EXEMPLAR, torch.zeros(12).double(), LossVariance(), 0.1)
    forml.step(batch, EXEMPLAR, optimizer)
    key = key_of(tie)[index]
    shared = torch.stack([g[key == k].sum() for k in key])
    torch.testing.assert_close(forml.scores[index], -(g + shared))
    torch.testing.assert_close(forml._own[index], -g)
    rest = [i for i in range(12) if i not in index.tolist()]
    assert torch.equal(forml.scores[rest], torch.zeros(len(rest)).double())  # not seen yet: their tie is not known


@pytest.mark.parametrize("tie", ["label", "group", "cell"])
def test_without_own_scores_members_of_a_tie_have_one_score(tie):
    forml, optimizer = made(tie, AdaptiveStep(), own=False)
    for k in range(6):
        forml.step(TRAIN.take(torch.randperm(12)[: 6 + k]), EXEMPLAR, optimizer)
    assert torch.equal(forml._own, torch.zeros(12).double())
    key, scores = key_of(tie), forml.scores
    for k in key.unique():
        assert len(scores[key == k].unique()) == 1
    assert len(scores.unique()) == len(key.unique())
    assert float(forml.weights().mean()) == pytest.approx(1.0)


def test_the_step_is_taken_on_the_sum_of_both_parts():
    forml, optimizer = made("label", AdaptiveStep())
    for _ in range(3):
        record = forml.step(TRAIN, EXEMPLAR, optimizer)
        torch.testing.assert_close(record.weights, torch.softmax(forml.scores, 0))
    g = score_gradient(forml.model, TRAIN, EXEMPLAR, forml.scores, LossVariance(), 0.1)
    torch.testing.assert_close(forml.step(TRAIN, EXEMPLAR, optimizer).gradient, g)


def test_a_shared_score_moves_samples_that_are_not_in_the_batch():
    forml, optimizer = made("label", AdaptiveStep())
    forml.step(TRAIN, EXEMPLAR, optimizer)
    before = forml.scores
    forml.step(TRAIN.take(torch.tensor([0, 1])), EXEMPLAR, optimizer)  # labels 0 and 1
    moved = forml.scores != before
    assert torch.equal(moved, TRAIN.labels < 2)


def test_both_parts_stay_within_bounds():
    forml, optimizer = made("label", AdaptiveStep(rate=5.0, slowing=0.0))
    for _ in range(30):
        forml.step(TRAIN, EXEMPLAR, optimizer)
    for part in (forml._own, forml._ties.scores):
        assert float(part.min()) >= -3.0
        assert float(part.max()) <= 1.0


@pytest.mark.parametrize("form", ["logit-scale", "inverse-square", "raw-mean"])
def test_forms_that_start_at_one_stay_where_they_are_defined(form):
    """A shared score may take the sum to 0 and below, where logits would change their sign and weights have a pole."""
    forml, optimizer = made("label", PlainStep(), form=form)
    forml.step(TRAIN, EXEMPLAR, optimizer)
    smallest = forml.form.smallest
    for low in (-1.0, -1.0 - smallest / 2, -3.0):
        forml._ties.scores[0] = low
        record = forml.step(TRAIN, EXEMPLAR, optimizer)
        assert torch.isfinite(record.loss)
        assert torch.isfinite(record.gradient).all()
        assert float(forml.scores.abs().min()) >= smallest
        assert float(record.weights.min()) > 0
        if form != "inverse-square":
            assert float(forml.scores.min()) >= smallest


def test_unknown_groups_share_a_score_of_their_own():
    ties = TiedScores("group", 12, PlainStep(), CPU)
    assert ties.of(TRAIN).tolist() == (GROUP + 1).tolist()
    odd = Batch(TRAIN.inputs, TRAIN.labels, GROUP.clone().masked_fill(GROUP < 0, -7))
    assert torch.equal(ties.of(odd), ties.of(TRAIN))
    cells = TiedScores("cell", 12, PlainStep(), CPU).of(TRAIN)
    assert len(cells.unique()) == len(key_of("cell").unique())


def test_cells_do_not_run_into_each_other():
    """The last group of one label is not the first of the next."""
    wide = Batch(torch.zeros(4), [0, 1, 0, 1], [GROUPS - 2, -1, -1, GROUPS - 2])
    assert len(TiedScores("cell", 4, PlainStep(), CPU).of(wide).unique()) == 4
    too_many = Batch(torch.zeros(2), [0, 1], [GROUPS - 1, 0])
    with pytest.raises(BadInput, match="tells 63 groups apart; merge groups"):
        TiedScores("cell", 2, PlainStep(), CPU).check(too_many)


@pytest.mark.parametrize("tie", ["label", "group", "cell"])
def test_too_many_values(tie):
    many = Batch(torch.zeros(2), [0, WIDTH], [0, WIDTH if tie == "group" else 0])
    with pytest.raises(BadInput, match=f"tie='{tie}' tells .* apart; merge"):
        TiedScores(tie, 2, PlainStep(), CPU).check(many)


@pytest.mark.parametrize("tie", ["group", "cell"])
def test_groups_are_asked_for(tie):
    forml, optimizer = made(tie)
    bare = Batch(TRAIN.inputs, TRAIN.labels, rows=TRAIN.rows)
    with pytest.raises(MissingGroups, match=r"needs the group of each training sample; give Batch\(groups=\.\.\.\)"):
        forml.step(bare, EXEMPLAR, optimizer)


def test_an_unknown_tie():
    with pytest.raises(UnknownName, match="choose 'label', 'group', 'cell' or None"):
        made("sex")


def test_members_that_cancel_move_nothing():
    """A softmax's gradient sums to 0: where a whole batch shares a score, rounding is all that is left of it."""
    ties = TiedScores("group", 6, AdaptiveStep(), CPU, torch.float64)
    for seed in range(6):
        pull = torch.randn(64, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        p = torch.softmax(torch.randn(64, dtype=torch.float64), dim=0)
        ties.move(torch.ones(64, dtype=torch.int64), -p * (pull - (p * pull).sum()), p, 0.1, torch.zeros(()))
    assert (ties.scores == 0).all()
