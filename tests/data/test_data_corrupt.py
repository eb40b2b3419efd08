from __future__ import annotations

import pytest
import torch

from fairweight.data import Exemplar, Options, load
from fairweight.data.corrupt import (
    GroupFlips,
    GroupImbalance,
    HiddenGroups,
    Marks,
    OneClass,
    PairFlips,
    UniformFlips,
    parse,
    to_dict,
)
from fairweight.errors import BadInput, MissingGroups, UnknownName


def _marks(count=1000, classes=5, groups=True):
    labels = torch.arange(count) % classes
    members = (torch.arange(count) // classes) % 2
    names = tuple(str(k) for k in range(classes))
    keep = torch.ones(count, dtype=torch.bool)
    return Marks(labels, members if groups else None, names, ("a", "b") if groups else (), keep)


def _generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_one_class_is_the_papers():
    marks = _marks()
    new = OneClass("2", 0.2)(marks, _generator())
    changed = new.labels != marks.labels
    # 200 rows were chosen; those that had the label already keep it, so fewer change.
    assert (new.labels[changed] == 2).all()
    assert 120 <= int(changed.sum()) < 200
    assert (new.labels[marks.labels == 2] == 2).all()
    chosen = torch.randperm(1000, generator=_generator())[:200]  # the slow twin
    expected = marks.labels.clone()
    expected[chosen] = 2
    assert torch.equal(new.labels, expected)


def test_uniform_flips_change_exactly_the_fraction_and_reach_every_other_class():
    marks = _marks(5000)
    new = UniformFlips(0.3)(marks, _generator())
    changed = new.labels != marks.labels
    assert int(changed.sum()) == 1500
    table = torch.zeros(5, 5).index_put(
        (marks.labels[changed], new.labels[changed]), torch.tensor(1.0), accumulate=True
    )
    off = table[~torch.eye(5, dtype=torch.bool)]
    assert off.min() > 40  # 75 expected
    assert table.diagonal().sum() == 0


def test_pair_flips_go_to_the_next_class_or_the_named_one():
    marks = _marks()
    new = PairFlips(0.25)(marks, _generator())
    changed = new.labels != marks.labels
    assert int(changed.sum()) == 250
    assert torch.equal(new.labels[changed], (marks.labels[changed] + 1) % 5)
    named = PairFlips(1.0, {"3": "1"})(marks, _generator())
    assert (named.labels[marks.labels == 3] == 1).all()
    assert torch.equal(named.labels[marks.labels != 3], marks.labels[marks.labels != 3])


def test_group_flips_touch_only_the_named_groups():
    marks = _marks()
    new = GroupFlips({"b": 0.4})(marks, _generator())
    changed = new.labels != marks.labels
    assert int(changed[marks.groups == 1].sum()) == 200
    assert int(changed[marks.groups == 0].sum()) == 0
    one = GroupFlips({"a": 1.0}, label="4")(marks, _generator())
    assert torch.equal(one.labels != marks.labels, (marks.groups == 0) & (marks.labels == 4))


def test_group_imbalance_drops_rows_of_the_group_or_of_one_cell():
    marks = _marks()
    new = GroupImbalance("b", keep=0.1)(marks, _generator())
    assert int(new.keep[marks.groups == 1].sum()) == 50
    assert new.keep[marks.groups == 0].all()
    cell = GroupImbalance("b", keep=0.0, label="1")(marks, _generator())
    assert torch.equal(~cell.keep, (marks.groups == 1) & (marks.labels == 1))


def test_hidden_groups_become_unknown():
    marks = _marks()
    new = HiddenGroups(0.5)(marks, _generator())
    assert int((new.groups == -1).sum()) == 500
    assert (HiddenGroups()(marks, _generator()).groups == -1).all()


@pytest.mark.parametrize(
    "corruption",
    [OneClass("1"), UniformFlips(), PairFlips(), GroupFlips({"a": 0.5}), GroupImbalance("a"), HiddenGroups(0.5)],
)
def test_seeded_and_without_touching_what_was_given(corruption):
    marks = _marks()
    before = (marks.labels.clone(), marks.groups.clone(), marks.keep.clone())
    first, again, other = (corruption(marks, _generator(seed)) for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(before, (marks.labels, marks.groups, marks.keep), strict=True))
    same = [torch.equal(getattr(first, name), getattr(again, name)) for name in ("labels", "groups", "keep")]
    assert all(same)
    assert not all(torch.equal(getattr(first, name), getattr(other, name)) for name in ("labels", "groups", "keep"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one-class:label=2,fraction=0.2", OneClass("2", 0.2)),
        ("uniform-flips", UniformFlips()),
        ("pair-flips:fraction=0.1,cat=dog", PairFlips(0.1, {"cat": "dog"})),
        ("group-flips:Female=0.3,Male=0.1", GroupFlips({"Female": 0.3, "Male": 0.1})),
        ("group-flips:Female=0.3,label=1", GroupFlips({"Female": 0.3}, "1")),
        ("group-imbalance:group=F,keep=0.05,label=1", GroupImbalance("F", 0.05, "1")),
        ("hidden-groups:fraction=0.5", HiddenGroups(0.5)),
    ],
)
def test_one_line_form(text, expected):
    assert parse(text) == expected
    assert to_dict(expected)["kind"] == text.split(":")[0]


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        ("nonsense", UnknownName, "choose from: one-class"),
        ("one-class:fraction=0.2", BadInput, "leaves something out"),
        ("one-class:label=2,fraction=lots", BadInput, "needs a number"),
        ("one-class:label=2,share=0.1", BadInput, "no meaning"),
        ("uniform-flips:fraction=1.5", BadInput, "from 0 to 1"),
    ],
)
def test_one_line_form_refused(text, error, match):
    with pytest.raises(error, match=match):
        parse(text)


def test_names_that_the_data_does_not_have():
    with pytest.raises(UnknownName, match="'9'; choose from: 0, 1"):
        OneClass("9")(_marks(), _generator())
    with pytest.raises(MissingGroups):
        HiddenGroups()(_marks(groups=False), _generator())
    with pytest.raises(MissingGroups):
        GroupImbalance("a")(_marks(groups=False), _generator())


def _load(people, **settings):
    return load(people, label="income", group="sex", options=Options(**settings))


def test_train_alone_is_corrupted_and_the_true_labels_are_kept(people):
    clean = _load(people)
    noisy = _load(people, corruptions=(OneClass("low", 0.5),))
    assert torch.equal(noisy.true_labels, clean.train.labels)
    assert not torch.equal(noisy.train.labels, clean.train.labels)
    for name in ("validation", "exemplar", "test"):
        assert torch.equal(getattr(noisy, name).labels, getattr(clean, name).labels)
    assert clean.true_labels is None
    assert any("labels are now wrong" in note for note in noisy.notes)
    assert noisy.fingerprint != clean.fingerprint
    assert noisy.spec["corruptions"] == [{"kind": "one-class", "label": "low", "fraction": 0.5}]
    assert torch.equal(noisy.exemplar.shares, clean.exemplar.shares)  # natural shares are those of the true labels


def test_the_exemplar_set_only_if_asked(people):
    clean = _load(people)
    both = _load(people, corruptions=(UniformFlips(0.5),), corrupt_parts=("train", "exemplar"))
    assert not torch.equal(both.exemplar.labels, clean.exemplar.labels)
    assert torch.equal(both.validation.labels, clean.validation.labels)
    count = len(clean.train) + len(clean.exemplar)
    wrong = int((both.train.labels != clean.train.labels).sum() + (both.exemplar.labels != clean.exemplar.labels).sum())
    assert wrong == count // 2  # one draw over both together


@pytest.mark.parametrize("parts", [("train",), ("train", "exemplar")])
def test_exemplars_that_stay_in_train(people, parts):
    data = _load(people, exemplar=Exemplar(size=20, inside=True), corruptions=(UniformFlips(0.5),), corrupt_parts=parts)
    place = torch.searchsorted(data.rows["train"], data.rows["exemplar"])
    agrees = torch.equal(data.train.labels[place], data.exemplar.labels)
    assert agrees == ("exemplar" in parts)  # a clean copy beside the wrong label, unless asked otherwise


def test_dropped_rows_leave_train_and_its_row_numbers(people):
    data = _load(people, corruptions=(GroupImbalance("F", keep=0.1),))
    kept = people.iloc[data.rows["train"].numpy()]
    assert (kept["sex"] == "F").mean() < 0.2
    assert len(data.true_labels) == len(data.train) == len(kept)
    assert [data.group_names[g] for g in data.train.groups] == kept["sex"].tolist()


def test_dropped_exemplars_take_their_shares_along(people):
    clean = _load(people)
    data = _load(people, corruptions=(GroupImbalance("F", keep=0.5),), corrupt_parts=("train", "exemplar"))
    place = torch.searchsorted(clean.rows["exemplar"], data.rows["exemplar"])
    assert len(data.exemplar) < len(clean.exemplar)
    assert torch.equal(data.exemplar.shares, clean.exemplar.shares[place])


def test_corruptions_add_up_in_order(people):
    data = _load(people, corruptions=(UniformFlips(0.3), HiddenGroups(1.0)))
    assert (data.train.groups == -1).all()
    assert (data.exemplar.groups >= 0).all()
    assert [entry["kind"] for entry in data.spec["corruptions"]] == ["uniform-flips", "hidden-groups"]


def test_exemplars_from_elsewhere_are_not_a_part_to_corrupt(people, tmp_path):
    people.to_csv(tmp_path / "clean.csv", index=False)
    exemplar = Exemplar(str(tmp_path / "clean.csv"))
    with pytest.raises(BadInput, match="exemplar rows do not come from train"):
        _load(people, exemplar=exemplar, corruptions=(UniformFlips(),), corrupt_parts=("train", "exemplar"))


def test_test_is_never_a_part_to_corrupt(people):
    with pytest.raises(BadInput, match="corrupt_parts"):
        _load(people, corruptions=(UniformFlips(),), corrupt_parts=("train", "test"))
