"""An objective over the groups of positives, or over cells."""

import pytest
import torch

from fairweight.errors import MissingGroups, UnknownName
from fairweight.objectives._among import Among
from fairweight.objectives.max_discrepancy import MaxLossDiscrepancy
from fairweight.objectives.mean_discrepancy import MeanLossDiscrepancy
from fairweight.runs.build import method_from
from fairweight.types import Batch

LABELS = torch.tensor([1, 1, 1, 0, 0, 1])
GROUPS = torch.tensor([0, 0, 1, 1, 0, -1])
LOSSES = torch.tensor([1.0, 3.0, 5.0, 100.0, 7.0, 1000.0])
EXEMPLAR = Batch(torch.zeros(6, 1), LABELS, GROUPS)


def test_positives_alone_are_compared():
    assert float(Among(MaxLossDiscrepancy(), "positives").on(LOSSES, EXEMPLAR)) == 3.0  # 5 - (1 + 3) / 2
    assert float(Among(MeanLossDiscrepancy(), "positives").on(LOSSES, EXEMPLAR)) == 1.5


def test_every_cell_is_a_group():
    # cells: (1, 0) 2, (1, 1) 5, (0, 1) 100, (0, 0) 7; a sample without a group counts in none
    assert float(Among(MaxLossDiscrepancy(), "cells").on(LOSSES, EXEMPLAR)) == 98.0


def test_cells_of_many_groups_are_told_apart():
    labels, groups = torch.tensor([0, 1, 0, 1]), torch.tensor([1024, 0, 3000, 1976])
    cells = Among(MaxLossDiscrepancy(), "cells").compared(Batch(torch.zeros(4, 1), labels, groups))
    assert len(cells.unique()) == 4


def test_an_objective_that_only_says_whom_it_compares_is_taken_there():
    class Negatives(MaxLossDiscrepancy):
        def compared(self, exemplar):
            return exemplar.groups.masked_fill(exemplar.labels != 0, -1)

    assert float(Negatives().on(LOSSES, EXEMPLAR)) == 93.0  # 100 - 7


def test_it_can_be_said_in_plain_values():
    options = {"objective": {"name": "mean-discrepancy", "of": "pairs", "among": "positives"}}
    made = method_from("forml", options, torch.nn.Linear(1, 2), 6).objective
    assert isinstance(made, Among)
    assert made.objective.of == "pairs"
    assert float(made.on(LOSSES, EXEMPLAR)) == 3.0
    plain = method_from("forml", {"objective": {"name": "max-discrepancy", "among": "all"}}, torch.nn.Linear(1, 2), 6)
    assert isinstance(plain.objective, MaxLossDiscrepancy)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(UnknownName, match="'all', 'positives' or 'cells'"):
        Among(MaxLossDiscrepancy(), "negatives")
    with pytest.raises(MissingGroups, match="give Batch"):
        Among(MaxLossDiscrepancy(), "cells").on(LOSSES, Batch(torch.zeros(6, 1), LABELS))
