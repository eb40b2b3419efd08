import pytest
import torch

from fairweight.errors import MissingGroups
from fairweight.objectives._from_text import objective_from
from fairweight.objectives.equal_opportunity_rate import EqualOpportunityRate
from fairweight.types import Batch


def batch(labels: list[int], groups: list[int] | None) -> Batch:
    return Batch(torch.zeros(len(labels), 1), torch.tensor(labels), None if groups is None else torch.tensor(groups))


def test_it_is_the_gap_of_the_mean_probabilities_of_positives():
    chance = torch.tensor([0.9, 0.7, 0.2, 0.4, 0.01, 0.01])
    given = batch([1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 0, 1])
    value = EqualOpportunityRate().on(-chance.log(), given)
    assert value.item() == pytest.approx(0.8 - 0.3, abs=1e-6)


def test_samples_without_a_known_group_do_not_count():
    chance = torch.tensor([0.9, 0.5, 0.001])
    value = EqualOpportunityRate().on(-chance.log(), batch([1, 1, 1], [0, 1, -1]))
    assert value.item() == pytest.approx(0.4, abs=1e-6)


def test_one_hopeless_sample_moves_it_by_at_most_its_share():
    chance = torch.tensor([0.9, 0.9, 0.9, 1e-30])
    value = EqualOpportunityRate().on(-chance.log(), batch([1] * 4, [0, 0, 1, 1]))
    assert value.item() == pytest.approx(0.45, abs=1e-6)


def test_the_gradient_is_that_of_the_formula():
    logits = torch.randn(12, dtype=torch.float64, requires_grad=True)
    given = batch([1] * 12, [0, 1] * 6)

    def gap(x: torch.Tensor) -> torch.Tensor:
        return EqualOpportunityRate().on(torch.nn.functional.softplus(-x), given)

    assert torch.autograd.gradcheck(gap, (logits,))


def test_it_needs_groups_and_has_a_name():
    with pytest.raises(MissingGroups):
        EqualOpportunityRate().on(torch.ones(2), batch([1, 1], None))
    assert "EqualOpportunityRate" in repr(objective_from("mean + 0.5 * equal-opportunity-rate"))
