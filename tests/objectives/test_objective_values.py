"""Every objective and option of METHODS 2.8, by hand; the pairwise path against the counting one; sums."""

from __future__ import annotations

import math

import pytest
import torch

import fairweight.objectives as _groups
from fairweight.errors import BadInput, MissingGroups, UnknownName
from fairweight.metagradient.solve import evaluate
from fairweight.objectives import group_losses
from fairweight.objectives.equal_odds import EqualOddsLoss
from fairweight.objectives.equal_opportunity import EqualOpportunityLoss
from fairweight.objectives.max_discrepancy import MaxLossDiscrepancy
from fairweight.objectives.mean import MeanLoss
from fairweight.objectives.mean_discrepancy import MeanLossDiscrepancy
from fairweight.objectives.variance import LossVariance
from fairweight.objectives.worst_group import WorstGroupLoss
from fairweight.types import Batch

# Group losses 2, 4 and 7 (groups 0, 3 and 5), of 2, 1 and 3 samples; the sample with group -1 does not count.
LOSSES = torch.tensor([1.0, 4.0, 3.0, 6.0, 100.0, 7.0, 8.0]).double()
GROUPS = torch.tensor([0, 3, 0, 5, -1, 5, 5])
MEAN = 13 / 3

HAND = {
    "range": (MaxLossDiscrepancy(), 5.0),
    "max from the mean": (MaxLossDiscrepancy(of="mean"), 7 - MEAN),
    "soft range": (
        MaxLossDiscrepancy(softness=2.0),
        2 * math.log(sum(math.exp(x / 2) for x in (2, 4, 7)) / 3)
        + 2 * math.log(sum(math.exp(-x / 2) for x in (2, 4, 7)) / 3),
    ),
    "soft max from the mean": (
        MaxLossDiscrepancy(of="mean", softness=2.0),
        2 * math.log(sum(math.exp(abs(x - MEAN) / 2) for x in (2, 4, 7)) / 3),
    ),
    "mean from the mean": (MeanLossDiscrepancy(), (MEAN - 2 + MEAN - 4 + 7 - MEAN) / 3),
    "pairs": (MeanLossDiscrepancy(of="pairs"), (2 + 5 + 3) / 3),
    "best": (MeanLossDiscrepancy(of="best"), MEAN - 2),
    "variance": (LossVariance(), ((2 - MEAN) ** 2 + (4 - MEAN) ** 2 + (7 - MEAN) ** 2) / 3),
    "deviation": (LossVariance(root=True), math.sqrt(((2 - MEAN) ** 2 + (4 - MEAN) ** 2 + (7 - MEAN) ** 2) / 3)),
    "worst": (WorstGroupLoss(), 7.0),
    "soft worst": (
        WorstGroupLoss(softness=2.0),
        2 * math.log(sum(math.exp(x / 2) for x in (2, 4, 7)) / 3),
    ),
    "mean": (MeanLoss(), 129 / 7),
    "positives": (EqualOpportunityLoss(), 5.0),
    "one label's spread": (EqualOddsLoss(), ((2 - MEAN) ** 2 + (4 - MEAN) ** 2 + (7 - MEAN) ** 2) / 3),
}


@pytest.mark.parametrize("pairwise", [1024, 0], ids=["pairwise", "counting"])
@pytest.mark.parametrize("name", HAND)
def test_by_hand(name, pairwise, monkeypatch):
    monkeypatch.setattr(_groups, "PAIRWISE", pairwise)
    objective, expected = HAND[name]
    assert float(objective(LOSSES, GROUPS)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", HAND)
def test_the_pairwise_path_equals_the_counting_path(name, monkeypatch):
    """Value and slope, on both sides of the threshold."""
    objective = HAND[name][0]
    torch.manual_seed(5)
    losses = torch.rand(200).double().requires_grad_()
    groups = torch.randint(-1, 7, (200,))
    found = []
    for threshold in (1024, 0):
        monkeypatch.setattr(_groups, "PAIRWISE", threshold)
        value = objective(losses, groups)
        found.append((value.detach(), torch.autograd.grad(value, losses)[0]))
    torch.testing.assert_close(found[0][0], found[1][0], rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(found[0][1], found[1][1], rtol=1e-9, atol=1e-13)


def test_beyond_the_threshold_groups_are_counted():
    losses, groups = torch.rand(_groups.PAIRWISE + 1), torch.arange(_groups.PAIRWISE + 1) % 3
    assert group_losses(losses, groups).loss.shape == (3,)
    assert group_losses(losses[:-1], groups[:-1]).loss.shape == (_groups.PAIRWISE,)


@pytest.mark.parametrize("name", [n for n in HAND if n not in ("mean", "worst", "soft worst")])
def test_even_groups_have_no_discrepancy(name):
    """Nor a slope that is not finite."""
    losses = torch.tensor([1.0, 3.0, 2.0, 2.0]).double().requires_grad_()
    value = HAND[name][0](losses, torch.tensor([0, 0, 1, 2]))
    assert float(value.detach()) == pytest.approx(0.0, abs=1e-15)
    assert torch.isfinite(torch.autograd.grad(value, losses)[0]).all()


@pytest.mark.parametrize("name", HAND)
def test_gradcheck(name):
    torch.manual_seed(3)
    losses = (torch.rand(9) + torch.arange(9) / 3).double().requires_grad_()
    groups = torch.tensor([0, 0, 1, 2, 1, 2, -1, 3, 3])
    assert torch.autograd.gradcheck(lambda x: HAND[name][0](x, groups), losses)


def test_softness_goes_to_the_hard_value():
    for soft, hard in (
        (MaxLossDiscrepancy(softness=1e-3), 5.0),
        (MaxLossDiscrepancy(of="mean", softness=1e-3), 7 - MEAN),
        (WorstGroupLoss(softness=1e-3), 7.0),
    ):
        assert float(soft(LOSSES, GROUPS)) == pytest.approx(hard, abs=0.01)


def test_no_group_is_asked_to_lose_more_for_the_worst_to_count_less():
    """A mean with softmax weights would: its slope is negative for groups well below the worst."""
    losses = torch.tensor([0.1, 3.0, 5.0]).double().requires_grad_()
    for softness in (0.0, 0.1, 1.0, 10.0):
        value = WorstGroupLoss(softness=softness)(losses, torch.arange(3))
        (slope,) = torch.autograd.grad(value, losses)
        assert bool((slope >= 0).all())
        assert float(slope.sum()) == pytest.approx(1.0)


def test_two_groups_make_max_and_mean_the_same_function():
    """METHODS 2.8: M1 = m1, and M2 = m2 = M1 / 2."""
    losses, groups = torch.rand(8).double(), torch.arange(8) % 2
    gap = float(MaxLossDiscrepancy()(losses, groups))
    assert float(MeanLossDiscrepancy(of="pairs")(losses, groups)) == pytest.approx(gap)
    assert float(MaxLossDiscrepancy(of="mean")(losses, groups)) == pytest.approx(gap / 2)
    assert float(MeanLossDiscrepancy()(losses, groups)) == pytest.approx(gap / 2)


# -- natural shares, labels -----------------------------------------------------------------------------


def test_the_mean_at_natural_shares():
    """Two cells drawn evenly; outside, the first is three times the second."""
    losses = torch.tensor([1.0, 1.0, 5.0, 5.0]).double()
    exemplar = Batch(torch.zeros(4), [0, 0, 1, 1], shares=torch.tensor([1.5, 1.5, 0.5, 0.5]))
    assert float(MeanLoss().on(losses, exemplar)) == pytest.approx(2.0)
    assert float(MeanLoss(natural=False).on(losses, exemplar)) == pytest.approx(3.0)
    assert float(MeanLoss().on(losses, Batch(torch.zeros(4), [0, 0, 1, 1]))) == pytest.approx(3.0)
    both = MeanLoss() + MaxLossDiscrepancy()
    assert float(both.on(losses, exemplar)) == pytest.approx(2.0 + 4.0)


EXEMPLAR = Batch(torch.zeros(8), [1, 1, 1, 1, 0, 0, 0, 0], [0, 1, 1, -1, 0, 0, 1, 1])
BY_CELL = torch.tensor([2.0, 3.0, 5.0, 50.0, 1.0, 2.0, 6.0, 7.0]).double()  # positives 2 and 4; negatives 1.5 and 6.5


def test_equal_opportunity_looks_at_positives_alone():
    assert float(EqualOpportunityLoss().on(BY_CELL, EXEMPLAR)) == pytest.approx(2.0)
    assert float(EqualOpportunityLoss(positive=0).on(BY_CELL, EXEMPLAR)) == pytest.approx(5.0)
    assert EqualOpportunityLoss().compared(EXEMPLAR).tolist() == [0, 1, 1, -1, -1, -1, -1, -1]
    assert float(EqualOpportunityLoss(positive=7).on(BY_CELL, EXEMPLAR)) == 0.0


def test_equal_odds_is_the_mean_of_the_spreads_within_each_label():
    assert float(EqualOddsLoss().on(BY_CELL, EXEMPLAR)) == pytest.approx((1.0**2 + 2.5**2) / 2)


def test_groups_are_asked_for_where_labels_do_not_stand_for_them():
    bare = Batch(torch.zeros(8), EXEMPLAR.labels)
    for objective in (EqualOpportunityLoss(), EqualOddsLoss(), MeanLoss() + EqualOddsLoss()):
        with pytest.raises(MissingGroups, match=r"give Batch\(groups=\.\.\.\)"):
            objective.on(BY_CELL, bare)
    assert float(MaxLossDiscrepancy().on(BY_CELL, bare)) == pytest.approx(15.0 - 4.0)  # labels stand for groups


# -- sums -----------------------------------------------------------------------------------------------


def test_sums_with_coefficients():
    total = MeanLoss() + 0.5 * MaxLossDiscrepancy() + LossVariance() * 2
    expected = 129 / 7 + 0.5 * 5 + 2 * HAND["variance"][1]
    assert float(total(LOSSES, GROUPS)) == pytest.approx(expected)
    exemplar = Batch(torch.zeros(7), GROUPS.clamp_min(0), GROUPS)
    assert float(total.on(LOSSES, exemplar)) == pytest.approx(expected)
    assert float((3 * total)(LOSSES, GROUPS)) == pytest.approx(3 * expected)
    assert float(evaluate(total, LOSSES, exemplar)) == pytest.approx(expected)


def test_sums_take_a_function_of_the_users_own():
    def half(losses, groups):
        assert len(losses) == len(groups)
        return losses.sum() / 2

    exemplar = Batch(torch.zeros(7), GROUPS.clamp_min(0), GROUPS)
    for total in (MaxLossDiscrepancy() + half, half + MaxLossDiscrepancy()):
        assert float(total(LOSSES, GROUPS)) == pytest.approx(5 + 129 / 2)
        assert float(total.on(LOSSES, exemplar)) == pytest.approx(5 + 29 / 2)  # the unknown group is left out


def test_sums_compare_where_any_term_does():
    assert not (MeanLoss() + WorstGroupLoss()).compares
    assert (MeanLoss() + 0.1 * LossVariance()).compares
    mixed = MeanLoss() + EqualOpportunityLoss()
    assert mixed.compared(EXEMPLAR).tolist() == EqualOpportunityLoss().compared(EXEMPLAR).tolist()


def test_sums_say_what_they_are():
    assert repr(MeanLoss() + 0.5 * MaxLossDiscrepancy()) == (
        "1 * MeanLoss(natural=True) + 0.5 * MaxLossDiscrepancy(of='range', softness=0.0)"
    )


@pytest.mark.parametrize("factor", [math.nan, math.inf])
def test_a_factor_that_is_not_finite(factor):
    with pytest.raises(BadInput, match="use a finite number"):
        factor * MeanLoss()


def test_what_cannot_be_added():
    with pytest.raises(TypeError):
        MeanLoss() + 1
    with pytest.raises(TypeError):
        MeanLoss() * "2"


@pytest.mark.parametrize("make", [MaxLossDiscrepancy, MeanLossDiscrepancy])
def test_an_unknown_definition(make):
    with pytest.raises(UnknownName, match=r"choose 'range'|choose 'mean', 'pairs'"):
        make(of="median")


@pytest.mark.parametrize("make", [MaxLossDiscrepancy, WorstGroupLoss])
@pytest.mark.parametrize("softness", [-1.0, math.nan])
def test_a_softness_below_zero(make, softness):
    with pytest.raises(BadInput, match="give a number from 0"):
        make(softness=softness)
