"""The plain values: what they take in, what they refuse, and how they travel."""

from __future__ import annotations

import dataclasses
import json
from collections import OrderedDict, UserDict, namedtuple

import numpy as np
import pytest
import torch

from fairweight.errors import BadInput
from fairweight.sampling import Cells
from fairweight.training.run_record import RunRecord
from fairweight.types import Batch, Samples, StepRecord, map_tensors, side_by_side

X = torch.arange(12.0).reshape(4, 3)


# -- Batch ------------------------------------------------------------------------------------------------


def test_a_batch_takes_tensors_as_they_are():
    labels, groups, rows = torch.tensor([0, 1, 2, 0]), torch.tensor([0, -1, 1, 0]), torch.tensor([9, 8, 7, 6])
    batch = Batch(X, labels, groups, rows, torch.ones(4))
    assert batch.labels is labels
    assert batch.groups is groups
    assert batch.rows is rows
    assert len(batch) == 4
    assert isinstance(batch, Samples)


@pytest.mark.parametrize(
    "labels",
    [
        [0, 1, 2, 0],
        (0, 1, 2, 0),
        np.array([0, 1, 2, 0]),
        np.array([0, 1, 2, 0], dtype=np.int8),
        torch.tensor([0, 1, 2, 0], dtype=torch.int32),
        torch.tensor([0, 1, 2, 0], dtype=torch.uint8),
    ],
    ids=["list", "tuple", "numpy", "int8", "int32", "uint8"],
)
def test_whole_numbers_of_any_kind_become_int64(labels):
    batch = Batch(X, labels, groups=labels, rows=labels)
    for column in (batch.labels, batch.groups, batch.rows):
        assert column.dtype == torch.int64
        assert column.tolist() == [0, 1, 2, 0]


def test_truth_values_are_labels_and_groups_but_no_rows():
    yes = torch.tensor([True, False, True, True])
    assert Batch(X, yes, yes).labels.tolist() == [1, 0, 1, 1]
    with pytest.raises(BadInput, match=r"Batch\.rows is torch\.bool"):
        Batch(X, [0, 1, 2, 0], rows=yes)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"labels": torch.zeros(4)}, r"Batch\.labels is torch\.float32; convert it to int64"),
        ({"groups": torch.zeros(4).double()}, r"Batch\.groups is torch\.float64; convert"),
        ({"rows": [0.5, 1, 2, 3]}, r"Batch\.rows is torch\.float32"),
        (
            {"labels": torch.zeros(4, 1, dtype=torch.int64)},
            r"Batch\.labels has shape \(4, 1\); give one entry per sample",
        ),
        ({"labels": torch.tensor(3)}, r"Batch\.labels has shape \(\)"),
        ({"groups": torch.zeros(3, dtype=torch.int64)}, r"Batch\.groups has 3 entries; give one per sample, 4"),
        ({"rows": torch.zeros(5, dtype=torch.int64)}, r"Batch\.rows has 5 entries"),
        ({"shares": torch.ones(2)}, r"Batch\.shares has 2 entries"),
        (
            {"labels": ["cat", "dog", "cat", "dog"]},
            r"Batch\.labels holds what is no number .* number its values from 0",
        ),
        ({"groups": [None, 0, 1, 0]}, r"Batch\.groups holds what is no number"),
    ],
)
def test_what_a_batch_refuses(columns, sentence):
    with pytest.raises(BadInput, match=sentence):
        Batch(X, **{"labels": [0, 1, 2, 0], **columns})


def test_a_batch_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Batch(X, [0, 1, 2, 0]).labels = None


def test_take_keeps_identities():
    batch = Batch({"x": X, "deep": (X + 100, 7)}, [0, 1, 2, 0], [3, 2, 1, 0], [40, 41, 42, 43], torch.arange(4.0))
    taken = batch.take(torch.tensor([2, 0, 2]))
    assert taken.labels.tolist() == [2, 0, 2]
    assert taken.groups.tolist() == [1, 3, 1]
    assert taken.rows.tolist() == [42, 40, 42]
    assert taken.shares.tolist() == [2.0, 0.0, 2.0]
    assert torch.equal(taken.inputs["x"], X[[2, 0, 2]])
    assert torch.equal(taken.inputs["deep"][0], X[[2, 0, 2]] + 100)
    assert taken.inputs["deep"][1] == 7
    assert taken.take(torch.tensor([1])).rows.tolist() == [40]


def test_take_leaves_what_is_everybodys():
    """A table or a temperature among the inputs has no entry for each sample."""
    batch = Batch((X, torch.arange(2), torch.tensor(0.5)), [0, 1, 2, 0])
    taken = batch.take(torch.tensor([3, 1])).inputs
    assert torch.equal(taken[0], X[[3, 1]])
    assert taken[1].tolist() == [0, 1]
    assert float(taken[2]) == 0.5
    joined = side_by_side([batch, dataclasses.replace(batch.take(torch.tensor([3, 1])), rows=None)]).inputs
    assert torch.equal(joined[0], X[[0, 1, 2, 3, 3, 1]])
    assert joined[1].tolist() == [0, 1]
    assert float(joined[2]) == 0.5


def test_take_counts_rows_from_zero_where_none_are_given():
    batch = Batch(X, [0, 1, 2, 0])
    assert batch.take(torch.tensor([3, 1])).rows.tolist() == [3, 1]
    assert batch.take(torch.tensor([False, True, False, True])).rows.tolist() == [1, 3]
    assert len(batch.take(torch.tensor([], dtype=torch.int64))) == 0


def test_labels_stand_for_groups_where_none_are_given():
    assert Batch(X, [0, 1, 2, 0]).compared().tolist() == [0, 1, 2, 0]
    assert Batch(X, [0, 1, 2, 0], [1, 1, -1, 0]).compared().tolist() == [1, 1, -1, 0]


def test_to_moves_every_tensor():
    batch = Batch((X, [X]), [0, 1, 2, 0], rows=[0, 1, 2, 3]).to("meta")
    assert batch.inputs[0].device.type == batch.inputs[1][0].device.type == "meta"
    assert batch.labels.device.type == batch.rows.device.type == "meta"
    assert batch.groups is None


def test_map_tensors_keeps_the_structure():
    pair = namedtuple("pair", "left right")(X, "text")
    inputs = OrderedDict(a=[X, 3], b=pair, c=UserDict(d=X), e=None)
    found = map_tensors(inputs, lambda t: t + 1)
    assert torch.equal(found["a"][0], X + 1)
    assert found["a"][1] == 3
    assert isinstance(found["a"], list)
    assert torch.equal(found["b"].left, X + 1)
    assert found["b"].right == "text"
    assert torch.equal(found["c"]["d"], X + 1)
    assert found["e"] is None
    assert torch.equal(inputs["a"][0], torch.arange(12.0).reshape(4, 3))


# -- Cells ------------------------------------------------------------------------------------------------


def test_cells_by_label_and_by_label_and_group():
    labels, groups = torch.tensor([1, 0, 1, 1, 0]), torch.tensor([2, 0, 0, 2, -1])
    by_label = Cells.of(labels)
    assert by_label.index.tolist() == [1, 0, 1, 1, 0]
    assert by_label.names == ("label=0", "label=1")
    assert by_label.counts == (2, 3)
    cells = Cells.of(labels, groups, label_names=("no", "yes"), group_names=("a", "b", "c"))
    assert cells.index.tolist() == [2, 0, 1, 2, -1]
    assert cells.names == ("label=no, group=a", "label=yes, group=a", "label=yes, group=c")
    assert cells.counts == (1, 1, 2)
    assert len(cells) == 3


def test_cells_of_nobody_known():
    cells = Cells.of(torch.tensor([0, 1]), torch.tensor([-1, -1]))
    assert len(cells) == 0
    assert cells.index.tolist() == [-1, -1]
    assert len(Cells.of(torch.zeros(0, dtype=torch.int64))) == 0


# -- records ----------------------------------------------------------------------------------------------


def test_a_step_record_becomes_plain_numbers():
    record = StepRecord(torch.tensor(1.5), torch.tensor([1.0, 2.0]), torch.tensor([0.5, 0.5]), mode="forward")
    plain = record.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["loss"] == 1.5
    assert plain["losses"] == [1.0, 2.0]
    assert plain["effective_size"] == 1.0
    assert plain["objective"] is None


@pytest.mark.parametrize(
    ("weights", "size"), [([0.25] * 4, 1.0), ([1.0, 0.0, 0.0, 0.0], 0.25), ([0.5, 0.5, 0, 0], 0.5)]
)
def test_effective_size(weights, size):
    record = StepRecord(torch.tensor(0.0), torch.zeros(4), torch.tensor(weights))
    assert float(record.effective_size) == pytest.approx(size)


def test_a_run_record_becomes_plain_values():
    record = RunRecord(3, 30, "finished", 2, [{"loss": 1.0}], ["no effect"], 1.5)
    assert json.loads(json.dumps(record.to_dict()))["best_epoch"] == 2
