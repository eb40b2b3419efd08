"""Nonsense drawn for the Python API: one sentence of ours, or a result that makes sense."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import fairweight as fw
from fairweight import catalog
from fairweight.errors import FairweightError
from fairweight.sampling import Cells, ExemplarSampler, TrainSampler
from fairweight.training.callbacks import EarlyStopping

pytestmark = pytest.mark.slow
N = 12
LABELS, GROUPS, ROWS = torch.arange(N) % 2, torch.arange(N) // 3 % 2, torch.arange(N)
INPUTS = torch.randn(N, 3, generator=torch.Generator().manual_seed(0))
BATCH = fw.Batch(INPUTS, LABELS, GROUPS, ROWS)
ODD: list[Any] = [
    None, True, -1, 0, 1, 3, 10**30, 1.5, 1e308, 1e-300, math.nan, math.inf, -math.inf, 1j, "", "x", "label", b"x", [],
    {}, [[1]], (), object(), torch.tensor(math.nan), torch.tensor([1.0, 2.0]), torch.tensor([]), np.float64("nan"),
    np.array([1, 2]), torch.float16,
]  # fmt: skip
strange = st.sampled_from(ODD) | st.floats() | st.integers() | st.text(max_size=4)
FIT = [name for name in inspect.signature(fw.FitOptions).parameters if name not in ("compile", "capture")]
quick = settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def refused(act: Any) -> tuple[Any, bool]:
    """What it gives, and whether it was refused; anything but one sentence of ours fails the test."""
    try:
        return act(), False
    except FairweightError as error:
        said = str(error)
    assert said.endswith(".")
    assert "\n" not in said
    return None, True


def makes_sense(method: Any, batch: fw.Batch = BATCH, exemplar: fw.Batch = BATCH) -> None:
    """Whether the method takes a step, or refuses it, and leaves finite numbers."""
    optimizer = torch.optim.SGD(method.model.parameters(), lr=0.1)
    _, no = refused(lambda: (method.begin(batch, exemplar), method.step(batch, exemplar, optimizer)))
    for values in (method.scores, None if no else method.weights(), *method.model.parameters()):
        assert values is None or bool(values.isfinite().all())


MAKERS = {
    **{name: catalog.load("methods", name) for name in catalog.names("methods")},
    **{name: catalog.load("objectives", name) for name in catalog.names("objectives")},
    **{kind.__name__: kind for kind in (fw.PlainStep, fw.AdaptiveStep, fw.LookAhead, fw.FitOptions, EarlyStopping)},
    "TrainSampler": lambda batch_size=4, seed=0: TrainSampler(N, batch_size, seed=seed),
    "ExemplarSampler": lambda per_cell=1, seed=0: ExemplarSampler(Cells.of(LABELS, GROUPS), per_cell, seed=seed),
}


@quick
@given(data=st.data())
def test_a_strange_parameter_is_refused_or_makes_sense(data):
    name = data.draw(st.sampled_from(sorted(MAKERS)))
    kind = MAKERS[name]
    learns = name in catalog.names("methods")
    usual = [model(), N] if learns else []
    keys = [
        key for key in list(inspect.signature(kind).parameters)[len(usual) :] if key not in ("loss", "process_group")
    ]
    if not keys:
        return
    key, value = data.draw(st.sampled_from(keys)), data.draw(strange)
    made, no = refused(lambda: kind(*usual, **{key: value}))
    if learns and not no:
        makes_sense(made)


@quick
@given(data=st.data())
def test_strange_samples_are_refused_or_counted(data):
    codes = st.lists(st.integers(-3, 3), min_size=6, max_size=6) | st.lists(st.integers(-3, 3), max_size=6)
    mixed = st.lists(st.sampled_from([*range(-3, 3), math.nan, None, 0.5, math.inf, "a", True, [1]]), max_size=6)
    columns = codes | mixed | codes.map(np.array) | codes.map(torch.tensor) | strange
    labels = data.draw(st.just([0, 1] * 3) | columns)
    same = st.just(labels)
    predictions, groups = data.draw(same | columns), data.draw(st.none() | same | columns)
    missing = data.draw(st.sampled_from(["error", "ignore", "group", "x"]))
    table, no = refused(lambda: fw.group_table(labels, predictions, groups, missing=missing))
    if no:
        return
    assert table.n + table.n_missing == len(labels)
    for name in ("accuracy", "tprd", "max_fnr", "worst_group_accuracy"):
        assert math.isnan(table.value(name)) or 0 <= table.value(name) <= 1
    if isinstance(groups, list) and all(type(group) is int for group in groups):
        assert min(groups) >= -1, "-1 is a group that is not known, and nothing lies below"


@quick
@given(data=st.data())
def test_a_strange_batch_is_refused_or_learned_from(data):
    def changed(values: torch.Tensor) -> Any:
        how = data.draw(st.sampled_from(["as it is", "entry", "length", "shape", "kind", "strange"]))
        if how == "entry":
            entry = data.draw(st.sampled_from([-3, -2, -1, 2, 99, math.nan, math.inf]))
            return values.clone().index_fill(0, torch.tensor([1]), int(entry) if math.isfinite(entry) else 0)
        if how == "length":
            return values[: data.draw(st.integers(0, N - 1))]
        if how == "shape":
            return values[:, None]
        if how == "kind":
            return values.to(data.draw(st.sampled_from([torch.float32, torch.int32, torch.bool])))
        return data.draw(strange) if how == "strange" else values

    parts = {"labels": LABELS, "groups": GROUPS, "rows": ROWS}
    key = data.draw(st.sampled_from([*parts, "inputs"]))
    given_ = {**parts, "inputs": INPUTS}
    if key == "inputs":
        given_["inputs"] = INPUTS.clone().index_fill(
            0, torch.tensor([2]), data.draw(st.sampled_from([math.nan, math.inf]))
        )
    else:
        given_[key] = changed(parts[key])
    batch, no = refused(lambda: fw.Batch(**given_))
    if not no:
        pair = (batch, BATCH) if data.draw(st.booleans()) else (BATCH, batch)
        makes_sense(fw.FORML(model(), N), *pair)


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else ()
    return [way, *(place for key, entry in inner for place in places(entry, (*way, key)))]


@quick
@given(data=st.data())
def test_a_strange_state_is_refused_and_leaves_what_was_learned(data):
    tie = data.draw(st.sampled_from([None, "label", "cell"]))
    made = [fw.FORML(model(), N, tie=tie) for _ in range(2)]
    for one in made:
        makes_sense(one)
    state = made[0].state_dict()
    way = data.draw(st.sampled_from(places(state)))
    value = data.draw(strange)
    if way:
        holder = state
        for key in way[:-1]:
            holder = holder[key]
        old = holder[way[-1]]
        if isinstance(old, torch.Tensor) and old.ndim and data.draw(st.booleans()):
            value = data.draw(
                st.sampled_from([old[:-1], old[:, None], old.float() * math.nan, old.repeat(2), old - 10**6])
            )
        holder[way[-1]] = value
    else:
        state = value
    before = made[1].scores.clone()
    _, no = refused(lambda: made[1].load_state_dict(state))
    if no:
        assert torch.equal(made[1].scores, before)
    makes_sense(made[1])


@settings(quick, max_examples=40)
@given(data=st.data())
def test_a_strange_training_is_refused_or_finished(data):
    net, key, value = model(), data.draw(st.sampled_from(["epochs", *FIT])), data.draw(strange)
    if key == "epochs" and isinstance(value, int) and value > 3:
        value = -1  # it would train for long
    options = {"batch_size": 6, "per_cell": 1, **({} if key == "epochs" else {key: value})}

    def act() -> fw.RunRecord:
        optimizer, asked = torch.optim.SGD(net.parameters(), lr=0.1), fw.FitOptions(**options)
        epochs = value if key == "epochs" else 1
        return fw.fit(net, optimizer, fw.FORML(net, N), BATCH, BATCH, epochs=epochs, options=asked)

    record, no = refused(act)
    assert no or record.stopped == "finished"
    assert all(bool(p.isfinite().all()) for p in net.parameters())
