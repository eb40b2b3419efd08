from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fairweight.data import Exemplar, GroupOptions, Options, Split, load
from fairweight.data.draw import proportional
from fairweight.data.parts import Marked
from fairweight.data.split import divide
from fairweight.errors import BadInput, EmptyCell, MissingGroups
from fairweight.sampling import Cells, ExemplarSampler


def _cells(part):
    return torch.unique(part.labels * 10 + part.groups, return_counts=True)[1].tolist()


def test_parts_are_disjoint_and_cover_the_source(people):
    data = load(people, label="income", group="sex")
    rows = torch.cat([data.rows[name] for name in ("train", "validation", "exemplar", "test")])
    assert sorted(rows.tolist()) == list(range(len(people)))


def test_every_part_has_every_cell_in_its_share(people):
    data = load(people, label="income", group="sex,race")
    whole = people.groupby(["income", "sex", "race"]).size()
    test = people.iloc[data.rows["test"].numpy()].groupby(["income", "sex", "race"]).size()
    assert ((test - 0.2 * whole).abs() <= 1).all()
    assert len(data.test) == 80
    assert len(data.validation) == 40


def test_rows_lead_back_to_the_source(people):
    data = load(people, label="income", group="sex")
    names = [data.label_names[label] for label in data.train.labels]
    assert names == people["income"].iloc[data.rows["train"].numpy()].tolist()
    groups = [data.group_names[group] for group in data.exemplar.groups]
    assert groups == people["sex"].iloc[data.rows["exemplar"].numpy()].tolist()


def test_the_seed_decides_and_nothing_else_does(people):
    first, again = load(people, label="income", seed=3), load(people.copy(), label="income", seed=3)
    other = load(people, label="income", seed=4)
    assert torch.equal(first.rows["test"], again.rows["test"])
    assert torch.equal(first.train.inputs, again.train.inputs)
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert not torch.equal(first.rows["test"], other.rows["test"])


def test_another_exemplar_size_leaves_test_and_validation_alone(people):
    small = load(people, label="income", options=Options(exemplar=Exemplar(size=5)))
    large = load(people, label="income", options=Options(exemplar=Exemplar(size=20)))
    assert torch.equal(small.rows["test"], large.rows["test"])
    assert torch.equal(small.rows["validation"], large.rows["validation"])


def test_sizes_per_cell_and_per_class(people):
    by_cell = load(people, label="income", group="sex", options=Options(exemplar=Exemplar(size=7)))
    assert _cells(by_cell.exemplar) == [7, 7, 7, 7]
    by_class = load(people, label="income", group="sex", options=Options(exemplar=Exemplar(size=9, per="class")))
    assert torch.bincount(by_class.exemplar.labels).tolist() == [9, 9]


def test_exemplars_inside_train_stay_in_it(people):
    held = load(people, label="income", options=Options(exemplar=Exemplar(size=10)))
    inside = load(people, label="income", options=Options(exemplar=Exemplar(size=10, inside=True)))
    assert not set(held.rows["exemplar"].tolist()) & set(held.rows["train"].tolist())
    assert set(inside.rows["exemplar"].tolist()) < set(inside.rows["train"].tolist())
    assert len(inside.train) == len(held.train) + 20


def test_exemplars_from_validation_are_all_of_it_or_a_part(people):
    whole = load(people, label="income", options=Options(exemplar=Exemplar("validation")))
    assert torch.equal(whole.rows["exemplar"], whole.rows["validation"])
    part = load(people, label="income", options=Options(exemplar=Exemplar("validation", size=3)))
    assert len(part.exemplar) == 6
    assert set(part.rows["exemplar"].tolist()) < set(part.rows["validation"].tolist())


def test_shares_bring_even_exemplars_back_to_the_natural_mix():
    frame = pd.DataFrame(
        {"x": range(1000), "y": [i % 10 == 0 for i in range(1000)], "g": ["ab"[i % 4 == 1] for i in range(1000)]}
    )
    options = Options(exemplar=Exemplar(size=20), groups=GroupOptions(below="keep"))
    data = load(frame.assign(x=(frame.x * 7919) % 1000 / 3), label="y", group="g", options=options)
    shares = data.exemplar.shares
    assert shares.mean() == pytest.approx(1.0)
    weighted = torch.bincount(data.exemplar.labels, weights=shares.double()) / shares.sum()
    assert weighted[1] == pytest.approx(0.1, abs=0.01)  # one row in ten is true; the exemplars are even


def test_a_column_that_names_the_parts(people):
    people["part"] = ["train", "val", "Test", "exemplar"] * 100
    data = load(people, label="income", group="sex", options=Options(split=Split(column="part")))
    assert data.rows["test"].tolist() == list(range(2, 400, 4))
    assert data.rows["validation"].tolist() == list(range(1, 400, 4))
    assert data.rows["exemplar"].tolist() == list(range(3, 400, 4))
    assert not any("part" in name for name in data.preprocessing.feature_names)


def test_exemplars_that_a_column_names_may_stay_in_train(people):
    people["part"] = ["train", "exemplar", "Test", "train"] * 100
    inside, apart = (
        load(
            people,
            label="income",
            group="sex",
            options=Options(split=Split(column="part"), exemplar=Exemplar(inside=x)),
        )
        for x in (True, False)
    )
    assert all(inside.rows[part].equal(apart.rows[part]) for part in ("validation", "exemplar", "test"))
    both = torch.cat([apart.rows["train"], apart.rows["exemplar"]]).sort().values
    assert inside.rows["train"].equal(both)
    labels = torch.tensor([inside.label_names.index(name) for name in people["income"]])
    assert inside.train.labels.equal(labels[both])


def test_a_given_exemplar_without_a_group_is_left_out_with_a_word(people, tmp_path):
    people.loc[::3, "sex"] = None
    people.iloc[300:].to_csv(tmp_path / "exemplar.csv", index=False)
    options = Options(exemplar=Exemplar(str(tmp_path / "exemplar.csv")))
    data = load(people.iloc[:300], label="income", group="sex", options=options)
    known = int(people.iloc[300:]["sex"].notna().sum())
    assert len(data.exemplar) == known < 100
    assert (data.exemplar.groups >= 0).all()
    assert any(f"{100 - known} of 100 exemplars have no group label" in note for note in data.warnings)
    people["part"] = ["train", "exemplar", "test"] * 133 + ["train"]
    options = Options(split=Split(column="part"), exemplar=Exemplar(inside=True))
    people.loc[people["part"] == "exemplar", "sex"] = None
    with pytest.raises(MissingGroups, match="no exemplar that is given has a group label"):
        load(people, label="income", group="sex", options=options)


def test_groups_may_be_missing_on_train_alone(people, tmp_path):
    people.iloc[:200].drop(columns="sex").to_csv(tmp_path / "train.csv", index=False)
    people.iloc[200:300].to_csv(tmp_path / "test.csv", index=False)
    people.iloc[300:].to_csv(tmp_path / "exemplar.csv", index=False)
    options = Options(
        split=Split(test=str(tmp_path / "test.csv"), validation=0.1), exemplar=Exemplar(str(tmp_path / "exemplar.csv"))
    )
    data = load(tmp_path / "train.csv", label="income", group="sex", options=options)
    assert (data.train.groups == -1).all()
    assert (data.exemplar.groups >= 0).all()
    assert len(data.exemplar) == 100
    assert any("no validation row has a group label" in note for note in data.warnings)
    with pytest.raises(MissingGroups, match="no row of train has a group label"):
        load(tmp_path / "train.csv", label="income", group="sex", options=Options(split=options.split))


def test_rows_without_a_group_are_never_exemplars(people):
    people.loc[::3, "sex"] = None
    data = load(people, label="income", group="sex")
    assert (data.exemplar.groups >= 0).all()
    assert (data.train.groups == -1).any()


def test_four_rows_of_a_cell_are_one_for_each_part():
    frame = pd.DataFrame({"x": range(84), "y": ["rare"] * 4 + ["a", "b"] * 40})
    data = load(frame.assign(x=frame.x * 37 % 84 / 7), label="y")
    rare = data.label_names.index("rare")
    counts = [int((part.labels == rare).sum()) for part in (data.train, data.validation, data.exemplar, data.test)]
    assert counts == [1, 1, 1, 1]


def test_the_fingerprint_knows_what_is_in_a_file_and_not_where_it_lies(people, tmp_path):
    found = []
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        people.iloc[:300].to_csv(tmp_path / folder / "train.csv", index=False)
        people.iloc[300:].to_csv(tmp_path / folder / "test.csv", index=False)
        options = Options(split=Split(test=str(tmp_path / folder / "test.csv")))
        found.append(load(tmp_path / folder / "train.csv", label="income", options=options).fingerprint)
    assert found[0] == found[1]
    people.iloc[301:].to_csv(tmp_path / "there" / "test.csv", index=False)
    assert load(tmp_path / "there" / "train.csv", label="income", options=options).fingerprint != found[0]


def test_too_many_exemplars_is_one_sentence(people):
    with pytest.raises(EmptyCell, match=r"lower exemplar\.size"):
        load(people, label="income", group="sex", options=Options(exemplar=Exemplar(size=200)))


def test_no_test_rows_is_one_sentence(people):
    with pytest.raises(BadInput, match="no test rows"):
        load(people, label="income", options=Options(split=Split(test=0.0)))


def test_limit_keeps_the_mix(people):
    data = load(people, label="income", group="sex", options=Options(limit=100))
    assert sum(len(part) for part in (data.train, data.validation, data.exemplar, data.test)) == 100
    assert any("Only 100 of 400 rows" in note for note in data.notes)


@pytest.mark.parametrize("share", [0.05, 0.2, 0.37])
def test_largest_remainder_against_exact_shares(share):
    strata = torch.tensor([0] * 100 + [1] * 37 + [2] * 9 + [3])
    sizes = proportional(strata, share, parts=4)
    for stratum, count in {0: 100, 1: 37, 2: 9}.items():
        assert abs(sizes[stratum] - count * share) <= 1
    assert sizes[3] == 0  # none gives its last


def test_cells_of_the_dataset_have_names_for_people(people):
    data = load(people, label="income", group="sex,race")
    cells = Cells.of(data.train.labels, data.train.groups, label_names=data.label_names, group_names=data.group_names)
    assert "label=low, group=M & c" in cells.names


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 2)), min_size=60, max_size=200),
    st.sampled_from([0.0, 0.1, 0.3]),
    st.booleans(),
    st.integers(0, 5),
)
def test_whatever_the_rows_the_parts_fit_together(rows, share, inside, seed):
    labels, groups = (torch.tensor(column) for column in zip(*rows, strict=True))
    assume(bool((groups >= 0).sum() > 30))
    given = {"train": Marked(torch.arange(len(rows)), labels, groups)}
    names = (("a", "b", "c"), ("x", "y", "z"))
    parts = divide(given, Split(0.2, share), Exemplar(inside=inside), seed, names, [])
    held = [part.rows for name, part in parts.items() if not (inside and name == "exemplar")]
    assert torch.cat(held).sort().values.tolist() == list(range(len(rows)))
    for part in parts.values():
        assert torch.equal(part.labels, labels[part.rows])
        assert torch.equal(part.groups, groups[part.rows])
        assert torch.equal(part.rows, part.rows.sort().values)
    assert bool((parts["exemplar"].groups >= 0).all())
    trained = set(parts["train"].cells(*names))
    assert set(given["train"].cells(*names)) == trained  # no cell leaves train altogether


def test_a_share_of_a_part_that_is_given_is_refused_and_none_is_drawn_without_one():
    part = Marked(torch.arange(40), torch.arange(40) % 2, None)
    test = Marked(torch.arange(10), part.labels[:10], None, origin="test")
    given, names = {"train": part, "test": test}, (("a", "b"), ())
    with pytest.raises(BadInput, match=r"its own test rows, so split\.test=0\.3 would draw none"):
        divide(given, Split(test=0.3), Exemplar(), 0, names, [])
    parts = divide(given, Split(test=0.0), Exemplar(), 0, names, [])
    assert torch.equal(parts["test"].rows, torch.arange(10))


@pytest.mark.parametrize(("name", "share"), [("validation", 0.2), ("test", 0.0), ("test", 0.2)])
def test_a_share_beside_a_column_that_names_the_same_rows_is_refused(name, share):
    frame = pd.DataFrame({"x": range(40), "label": [0, 1] * 20, "part": ["train"] * 20 + ["test", "validation"] * 10})
    with pytest.raises(BadInput, match=rf"column 'part' says which rows are {name}, so .*={share:g} would draw"):
        load(frame, label="label", options=Options(split=Split(column="part", **{name: share})))


def test_given_exemplars_of_any_mix_count_by_natural_shares_in_a_batch_drawn_by_cell():
    """Exemplars at random are mostly of the common label; a batch holds as many of each, and its mean is natural."""
    random = np.random.default_rng(0)
    n = 2_000
    label = np.where(random.random(n) < 0.2, "b", "a")
    part = random.choice(["train", "exemplar", "test"], n, p=[0.6, 0.2, 0.2])
    frame = pd.DataFrame({"x": random.normal(size=n), "label": label, "part": part})
    data = load(frame, label="label", options=Options(split=Split(column="part", validation=0.0)))
    exemplar = data.exemplar
    batch = ExemplarSampler(Cells.of(exemplar.labels), 8).batch(exemplar, 0)
    share = float((batch.shares * (batch.labels == 1)).sum() / batch.shares.sum())
    inside = part != "test"
    assert share == pytest.approx((label[inside] == "b").mean(), abs=0.005)
