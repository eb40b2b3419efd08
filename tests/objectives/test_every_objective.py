"""What holds for every objective in the folder."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairweight import catalog, objectives
from fairweight.errors import UnknownName
from fairweight.objectives import Objective
from fairweight.types import Batch

NAMES = catalog.names("objectives")
OPTIONS = {
    "max-discrepancy": [{}, {"of": "mean"}, {"softness": 0.5}, {"of": "mean", "softness": 0.5}],
    "mean-discrepancy": [{}, {"of": "pairs"}, {"of": "best"}],
    "variance": [{}, {"root": True}],
    "worst-group": [{}, {"softness": 0.5}],
    "mean": [{}, {"natural": False}],
    "equal-opportunity": [{}, {"positive": 0}],
}
MADE = [(name, options) for name in NAMES for options in OPTIONS.get(name, [{}])]
EVERY = pytest.mark.parametrize(
    "objective", [catalog.load("objectives", n)(**o) for n, o in MADE], ids=[f"{n} {o or ''}".strip() for n, o in MADE]
)


def value_and_slope(objective, losses, groups, labels=None, shares=None):
    x = torch.as_tensor(losses, dtype=torch.float64).requires_grad_()
    groups = torch.as_tensor(groups, dtype=torch.int64)
    exemplar = Batch(torch.zeros(len(x), 1), groups % 2 if labels is None else labels, groups, shares=shares)
    value = objective.on(x, exemplar)
    assert value.shape == ()
    if not value.requires_grad:
        return value.detach(), torch.zeros_like(x)
    return value.detach(), torch.autograd.grad(value, x, allow_unused=True, materialize_grads=True)[0]


def test_the_folder_is_the_registry():
    files = {p.stem.replace("_", "-") for p in Path(objectives.__path__[0]).glob("*.py") if not p.name.startswith("_")}
    assert set(NAMES) == files
    assert set(OPTIONS) <= files


@pytest.mark.parametrize("name", NAMES)
def test_one_documented_class_each(name):
    made = catalog.load("objectives", name)
    assert issubclass(made, Objective)
    assert catalog.summary("objectives", name)
    assert isinstance(made().compares, bool)
    assert all(p.default is not inspect.Parameter.empty for p in inspect.signature(made).parameters.values())
    assert repr(made()).startswith(made.__name__)


def test_an_unknown_name():
    with pytest.raises(UnknownName, match=r"choose from: equal-odds, equal-opportunity.* worst-group"):
        catalog.load("objectives", "max-loss")


@EVERY
@pytest.mark.parametrize(
    ("losses", "groups"),
    [
        ([1.0, 2.0, 3.0, 4.0], [0, 1, 0, 1]),
        ([1.0, 2.0, 3.0], [0, 0, 0]),
        ([1.0, 2.0, 3.0], [5, 900, 5]),
        ([1.0, 2.0, 3.0], [-1, -1, -1]),
        ([1.0, 2.0, 3.0], [-1, 0, -2]),
        ([2.0], [0]),
        ([2.0], [-1]),
        ([0.0, 0.0, 0.0], [0, 1, 2]),
        ([1e30, 0.0, 1.0], [0, 1, 2]),
        ([], []),
    ],
    ids=[
        "plain",
        "one group",
        "far apart",
        "unknown",
        "nearly unknown",
        "one",
        "one unknown",
        "zeros",
        "huge",
        "empty",
    ],
)
def test_never_nan(objective, losses, groups):
    value, slope = value_and_slope(objective, losses, groups)
    assert torch.isfinite(value)
    assert torch.isfinite(slope).all()


@EVERY
def test_one_group_has_no_discrepancy(objective):
    value, slope = value_and_slope(objective, [1.0, 2.0, 6.0], [4, 4, 4])
    if objective.compares:
        assert float(value) == 0.0
        assert float(slope.abs().max()) < 1e-12
    else:
        assert float(value) == pytest.approx(3.0)


@EVERY
def test_unknown_groups_do_not_count(objective):
    known, slope = value_and_slope(objective, [1.0, 2.0, 3.0, 9.0], [0, 1, 0, 1], torch.tensor([1, 1, 0, 0]))
    more, wide = value_and_slope(objective, [1.0, 2.0, 77.0, 3.0, 9.0], [0, 1, -1, 0, 1], torch.tensor([1, 1, 1, 0, 0]))
    if type(objective).__name__ == "MeanLoss":
        assert more > known  # a sample counts for accuracy whoever it is
    else:
        assert float(more) == pytest.approx(float(known), rel=1e-12)
        assert float(wide[2]) == 0.0
        torch.testing.assert_close(wide[[0, 1, 3, 4]], slope)


@EVERY
@given(
    drawn=st.lists(
        st.tuples(st.floats(0, 1e4, width=32), st.integers(-2, 4), st.integers(0, 1)), min_size=0, max_size=12
    ),
    seed=st.integers(0, 999),
)
@settings(max_examples=30, deadline=None)
def test_any_batch_has_a_finite_value_that_the_order_does_not_change(objective, drawn, seed):
    losses, groups, labels = (list(c) for c in zip(*drawn, strict=True)) if drawn else ([], [], [])
    labels = torch.tensor(labels, dtype=torch.int64)
    value, slope = value_and_slope(objective, losses, groups, labels)
    assert torch.isfinite(value)
    assert torch.isfinite(slope).all()
    assert float(value) >= -1e-9
    order = torch.randperm(len(drawn), generator=torch.Generator().manual_seed(seed))
    again, _ = value_and_slope(
        objective,
        torch.tensor(losses, dtype=torch.float64)[order],
        torch.tensor(groups, dtype=torch.int64)[order],
        labels[order],
    )
    assert float(again) == pytest.approx(float(value), rel=1e-9, abs=1e-9)


@EVERY
def test_names_of_groups_do_not_matter(objective):
    losses, labels = [1.0, 2.0, 3.0, 9.0, 4.0], torch.tensor([1, 1, 0, 0, 1])
    one, _ = value_and_slope(objective, losses, [0, 1, 0, 1, 2], labels)
    two, _ = value_and_slope(objective, losses, [9, 0, 9, 0, 4], labels)
    assert float(one) == pytest.approx(float(two), rel=1e-12)


@EVERY
def test_float32_and_both_call_forms(objective):
    losses, groups = torch.rand(8), torch.arange(8) % 2
    labels = torch.full((8,), getattr(objective, "positive", 1))
    value = objective.on(losses, Batch(torch.zeros(8), labels, groups))
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, objective(losses, groups))
