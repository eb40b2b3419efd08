"""Bad settings and bad batches get one sentence that names the next step."""

from __future__ import annotations

import pytest
import torch
from tests import networks as net

from fairweight.errors import BadInput, MissingExemplar, MissingGroups, OneGroup, RowsOutOfRange, UnknownName
from fairweight.methods.forml import FORML
from fairweight.methods.look_ahead import LookAhead
from fairweight.objectives.equal_opportunity import EqualOpportunityLoss
from fairweight.objectives.mean import MeanLoss
from fairweight.objectives.variance import LossVariance
from fairweight.types import Batch


def bad_step(change=None, **options):
    model = net.mlp().double()
    forml = FORML(model, 10, **{"objective": LossVariance(), **options})
    drawn = net.vectors(5, groups=True)
    parts = {
        "batch": Batch(drawn.inputs, drawn.labels, drawn.groups, torch.arange(5)),
        "exemplar": net.vectors(6, groups=True, seed=3),
        "optimizer": torch.optim.SGD(model.parameters(), 0.1),
        **(change or {}),
    }
    return forml.step(parts["batch"], parts["exemplar"], parts["optimizer"])


def without(batch, **changes):
    return Batch(**{**{k: getattr(batch, k) for k in ("inputs", "labels", "groups", "rows")}, **changes})


GOOD = net.vectors(5, groups=True)


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        (
            {"batch": without(GOOD, rows=torch.tensor([0, 1, 2, 3, 10]))},
            RowsOutOfRange,
            "rows 0 to 10.*raise num_samples",
        ),
        (
            {"batch": without(GOOD, rows=torch.tensor([0, -1, 2, 3, 4]))},
            RowsOutOfRange,
            "rows -1 to 4.*count from 0 to 9",
        ),
        ({"batch": without(GOOD, rows=None)}, RowsOutOfRange, r"give Batch\(rows=\.\.\.\), numbers from 0 to 9"),
        ({"exemplar": None}, MissingExemplar, r"pass one to step\(batch, exemplar, optimizer\)"),
        ({"exemplar": GOOD.take(torch.tensor([], dtype=torch.int64))}, BadInput, "exemplar batch is empty"),
        (
            {"exemplar": without(GOOD, groups=torch.zeros(5, dtype=torch.int64))},
            OneGroup,
            r"1 group \(0\).*use MeanLoss",
        ),
        ({"exemplar": without(GOOD, groups=-torch.ones(5, dtype=torch.int64))}, OneGroup, "0 group.*none known"),
        ({"exemplar": without(GOOD, groups=None, labels=GOOD.labels * 0)}, OneGroup, r"1 label \(0\)"),
        ({"optimizer": torch.optim.SGD(net.mlp().parameters(), 0.1)}, BadInput, "build it from model.parameters"),
    ],
    ids=["rows", "negative rows", "no rows", "no exemplar", "empty", "one group", "unknown", "one label", "optimizer"],
)
def test_bad_steps_get_a_sentence(change, error, sentence):
    with pytest.raises(error, match=sentence):
        bad_step(change)


def test_one_positive_group_is_refused_and_groups_are_asked_for():
    exemplar = net.vectors(6, seed=3)
    with pytest.raises(MissingGroups, match=r"give Batch\(groups=\.\.\.\)"):
        bad_step({"exemplar": exemplar}, objective=EqualOpportunityLoss())
    labels, groups = torch.tensor([0, 0, 1, 1, 0, 0]), torch.tensor([0, 1, 1, 1, 0, 1])
    with pytest.raises(OneGroup, match=r"1 group \(1\)"):
        bad_step({"exemplar": Batch(exemplar.inputs, labels, groups)}, objective=MeanLoss() + EqualOpportunityLoss())


def test_one_group_is_enough_where_none_are_compared():
    one = without(GOOD, groups=torch.zeros(5, dtype=torch.int64))
    assert torch.isfinite(bad_step({"exemplar": one}, objective=MeanLoss()).objective)
    assert torch.isfinite(bad_step({"exemplar": one}, objective=lambda losses, groups: losses.mean()).objective)


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"tie": "sex"}, UnknownName, "choose 'label', 'group', 'cell' or None"),
        ({"form": "raw"}, UnknownName, "softmax, inverse-square, logit-scale, raw-mean, sigmoid"),
        ({"gradient": "exact"}, UnknownName, "choose 'auto', 'per-layer', 'forward', 'difference', 'double-backward'"),
        ({"own": False}, BadInput, "give tie='label' or tie='group'"),
        ({"num_samples": 0}, BadInput, "num_samples=0"),
        ({"model": net.mlp().requires_grad_(False)}, BadInput, "unfreeze at least one layer"),
    ],
)
def test_bad_settings_get_a_sentence(options, error, sentence):
    with pytest.raises(error, match=sentence):
        FORML(**{"model": net.mlp(), "num_samples": 10, **options})


@pytest.mark.parametrize("options", [{"lr": 0.0}, {"lr": -1.0}, {"statistics": "none"}])
def test_bad_look_aheads_get_a_sentence(options):
    with pytest.raises(BadInput, match=r"LookAhead\("):
        LookAhead(**options)
