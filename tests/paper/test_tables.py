"""Every table, by enumeration: rows are values, printed rows are there, options do something."""

import json

import pytest
import torch
from torch import nn

from fairweight import catalog
from fairweight.errors import BadInput, UnknownName
from fairweight.paper import published
from fairweight.paper.plan import planned
from fairweight.paper.tables import pick
from fairweight.runs.build import method_from
from fairweight.runs.other_runs import prerequisites
from fairweight.runs.run_search import search_for
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import options_from
from fairweight.types import Batch

NAMES = catalog.names("paper.tables")
SIZES = ("quick", "short", "paper")


def test_the_tables_of_the_issue_are_all_here():
    assert set(NAMES) == {
        "cifar10", "cifar100", "celeba", "mnist", "condensation", "reverse", "adversarial", "meta-loss", "weight-form",
        "celeba-young", "mnist-loss-ratio", "fairface",
    }  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_rows_are_values(name, size):
    what = planned(name, size=size)
    keys = [row.key for row in what.all_rows]
    assert len(set(keys)) == len(keys)
    trained = [row for row in what.all_rows if row.spec is not None]
    for row in trained:
        spec = row.spec_for(3)
        assert spec.seed == 3
        assert Spec.from_dict(json.loads(json.dumps(spec.to_dict()))).fingerprint == spec.fingerprint
        assert spec.fingerprint != row.spec_for(4).fingerprint
        options_from(spec.data)  # what is said of the data is understood
        assert set(row.against) <= set(keys)
    assert len({row.spec_for(0).fingerprint for row in trained}) == len(trained)
    for row in what.all_rows:
        if row.moved is not None:
            assert {row.moved.of, row.moved.like or row.moved.of} <= set(keys)
    assert json.loads(json.dumps(what.to_dict()))["command"].startswith(f"fairweight reproduce {name}")


@pytest.mark.parametrize("name", NAMES)
def test_every_method_and_search_can_be_made(name):
    for row in planned(name).all_rows:
        specs = [] if row.spec is None else [row.spec, *prerequisites(row.spec)]
        for spec in specs:
            method_from(spec.method, spec.method_options, nn.Linear(4, 10), 20)
            if spec.search:
                search_for(spec, _TenLabels())


class _TenLabels:
    label_names = tuple("0123456789")


@pytest.mark.parametrize("name", sorted(published.tables()))
def test_every_printed_row_has_one_of_ours_beside_it(name):
    what = planned(name)
    ours = {row.printed for row in what.all_rows if row.printed}
    assert all(row.printed is None for row in what.all_rows if row.key.endswith("-default")), "another method"
    assert ours == set(published.tables()[name])
    printed_numbers = {key for row in published.tables()[name].values() for key in row}
    assert printed_numbers <= {number.key for number in what.table.numbers}


@pytest.mark.parametrize("name", NAMES)
def test_forml_stands_three_times(name):
    """As printed, with the reverse look-ahead, and with the product's own score step."""
    specs = []
    for row in planned(name).all_rows:
        if row.kind == "forml" and row.spec is not None:
            specs += [spec for spec in (row.spec, *prerequisites(row.spec)) if spec.method == "forml"]
    plain = [s for s in specs if s.method_options.get("score_step", {}).get("name") == "plain"]
    reverse = [s for s in plain if s.method_options.get("look_ahead", {}).get("reverse")]
    adaptive = [s for s in specs if s not in plain]
    assert plain
    assert reverse
    assert len(reverse) < len(plain)
    assert adaptive


def test_held_out_exemplars_bring_uniform_on_the_same_rows():
    rows = {row.key: row for row in planned("cifar10").all_rows}
    assert rows["uniform-same"].spec.data == rows["forml"].spec.data
    assert rows["uniform"].spec.data["exemplar"]["inside"]
    assert not rows["forml"].spec.data["exemplar"]["inside"]
    inside = {row.key: row for row in planned("cifar10", options={"exemplar": "inside"}).all_rows}
    assert "uniform-same" not in inside
    assert inside["uniform"].spec.data == inside["forml"].spec.data


@pytest.mark.parametrize("name", ["celeba", "celeba-young", "fairface"])
def test_faces_have_uniform_at_the_same_positive_rate(name):
    moved = [row.moved for row in planned(name).all_rows if row.moved is not None]
    assert len(moved) >= 3
    assert all(m.how == "rate" for m in moved)


@pytest.mark.parametrize("name", NAMES)
def test_every_option_changes_some_run(name):
    what = planned(name)

    def fingerprints(options):
        return [row.spec.fingerprint for row in planned(name, options=options).all_rows if row.spec is not None]

    usual = fingerprints({})
    for option, about in what.table.known.items():
        others = [choice for choice in about.choices if choice != about.default]
        other = others[-1] if others else "7" if option != "drop" else "0.2"
        assert fingerprints({option: other}) != usual, option


def test_epochs_scale_the_schedule():
    spec = planned("cifar10").all_rows[0].spec
    assert spec.schedule == {"name": "step", "at": [60, 120, 160], "factor": 0.1}
    assert spec.epochs == 200
    short = planned("cifar10", size="short", epochs=20).all_rows[0].spec
    assert short.schedule == {"name": "cosine", "warm_up": 2}
    assert short.epochs == 20
    assert planned("cifar10", epochs=20).all_rows[0].spec.schedule["at"] == [6, 12, 16]


def test_cross_entropy_is_that_of_the_exemplar_batch_as_drawn():
    """Evenly by label and group, as the paper draws it, not at the shares of the exemplar set."""
    (row,) = [row for row in planned("meta-loss").all_rows if row.key == "cross-entropy"]
    objective = method_from(row.spec.method, row.spec.method_options, nn.Linear(4, 2), 20).objective
    uneven = Batch(torch.zeros(2, 4), [0, 1], [0, 1], shares=torch.tensor([1.9, 0.1]))
    assert float(objective.on(torch.tensor([1.0, 3.0]), uneven)) == 2.0


def test_condensation_builds_on_the_least_forgotten():
    rows = {row.key: row for row in planned("condensation").all_rows}
    (chooser,) = prerequisites(rows["forml-45k"].spec_for(2))
    assert chooser.method == "forml"
    assert chooser.seed == 2
    forgetting = prerequisites(chooser)
    assert [spec.method for spec in forgetting] == ["uniform", "uniform"]
    assert [spec.seed for spec in forgetting] == [4, 5]
    assert rows["random-same-45k"].spec_for(2).rows["train"]["like"] == rows["forml-45k"].spec_for(2).rows["train"]
    assert rows["random-45k"].spec_for(2).rows["train"]["random"] == 2


def test_a_plan_counts_the_runs_that_rows_build_on():
    assert "16 runs, marked *, and 8 that they build on." in planned("condensation", size="quick").text()
    assert "33 runs, marked *. Options" in planned("mnist", size="quick").text()


def test_pick_and_unknown_names():
    what = planned("fairface", rows=["gender-uniform-at-gender-forml"])
    assert [row.key for row in what.rows] == ["gender-uniform", "gender-forml", "gender-uniform-at-gender-forml"]
    assert all(row.kind != "extra" for row in planned("cifar10").rows)
    assert any(row.kind == "extra" for row in planned("cifar10", rows=["all"]).rows)
    with pytest.raises(UnknownName, match="no row of this table"):
        pick(what.all_rows, ["nobody"])
    with pytest.raises(UnknownName, match="there is no table 'nosuch'"):
        planned("nosuch")
    with pytest.raises(UnknownName, match="no option 'colour'"):
        planned("mnist", options={"colour": "red"})
    with pytest.raises(UnknownName, match="choose from: clean, corrupted"):
        planned("mnist", options={"validation": "dirty"})
    with pytest.raises(BadInput, match="give a number"):
        planned("mnist", options={"per_class": "many"})
    with pytest.raises(UnknownName, match="no size"):
        planned("mnist", size="tiny")


def test_the_command_says_what_was_asked():
    what = planned("mnist", size="short", seeds=2, first_seed=5, rows=["uniform"], options={"scale": "3"}, epochs=4)
    assert what.command == (
        "fairweight reproduce mnist --short --seeds 2 --seed 5 --rows uniform --epochs 4 --option scale=3"
    )
    assert "validation=clean [clean|corrupted]" in what.text()


@pytest.mark.parametrize("selection", ["best", "last"])
def test_one_rule_chooses_the_epoch_of_every_row(selection):
    """And exemplars that are trained on do not choose: where an epoch is chosen, a fifth of them is kept back."""
    rows = [row for row in planned("mnist", options={"selection": selection}).all_rows if row.spec is not None]
    assert {row.spec.early_stopping.get("metric") for row in rows} == {"accuracy" if selection == "best" else None}
    assert all(row.spec.early_stopping.get("patience", row.spec.epochs) == row.spec.epochs for row in rows)
    trained = [row.spec.rows["train"] for row in rows if row.spec.rows]
    assert [rule["exemplars"] for rule in trained] == ["only", "only", "added"]
    assert [rule.get("choosing") for rule in trained] == [0.2 if selection == "best" else None] * 3


def test_the_first_option_is_the_papers_early_stopping():
    assert planned("mnist").table.options["selection"] == "best"


def test_fine_tuning_begins_from_the_tables_own_uniform():
    rows = {row.key: row for row in planned("mnist").all_rows}
    assert prerequisites(rows["fine-tuned"].spec_for(3)) == (rows["uniform"].spec_for(3),)
    assert {"uniform", "exemplars-only", "fine-tuned", "exemplars-added"} <= set(rows["forml-default"].against)


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "mnist"])
def test_class_tables_have_the_bias_that_learned_weights_must_beat(name):
    asked = {row.key: row for row in planned(name).rows}
    assert asked["class-bias-budget"].moved.fraction is None
    every = {row.key: row.moved.fraction for row in planned(name).all_rows if row.moved is not None}
    assert every == {"class-bias-budget": None, "class-bias-quarter": 0.25, "class-bias-half": 0.5, "class-bias": 1.0}
