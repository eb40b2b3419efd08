import numpy as np
import pandas as pd
import pytest
from tests import audits

from fairweight.apps._drop_rules import (
    ALSO,
    COLUMNS,
    condense,
    number_to_drop,
    quotas,
    random_like,
    rule_named,
)
from fairweight.errors import BadInput, UnknownName


def frame(values, labels, groups=None, **more):
    count = len(values)
    columns = {
        "row": np.arange(count) + 100,
        "label": pd.Categorical(labels),
        "group": pd.Categorical(groups if groups is not None else labels),
        "ema_loss": np.ones(count),
        "ema_weighted_loss": np.array(values, dtype=float),
    }
    return pd.DataFrame({**columns, **more})


def twin(weights, count, column, floor):
    """The same choice, one sample at a time in plain Python."""
    left = weights.groupby(["label", "group"], observed=True).size().to_dict()
    order = sorted(weights.index, key=lambda k: (weights[column][k], weights["ema_loss"][k], weights["row"][k]))
    dropped = []
    for k in order:
        cell = (weights["label"][k], weights["group"][k])
        if len(dropped) < count and left[cell] > floor:
            left[cell] -= 1
            dropped.append(k)
    return sorted(dropped)


@pytest.mark.parametrize("floor", [0, 3, 20])
@pytest.mark.parametrize("rule", ["N1", "N2", "N4", "N5", "forgetting", "score"])
def test_the_choice_is_that_of_a_plain_loop(rule, floor):
    weights = audits.weights(150, labels=("a", "b", "c"), wrong=0.2)
    found = condense(weights, 60, rule, floor=floor)
    assert np.flatnonzero(~found.kept).tolist() == twin(weights, 60, COLUMNS[found.rule], floor)


def test_the_lowest_weighted_loss_goes_and_ties_go_by_loss_then_row():
    weights = frame([3, 1, 2, 1, 1], ["a"] * 5, ema_loss=[1.0, 2.0, 1.0, 1.0, 2.0])
    assert condense(weights, 1, floor=0).kept.tolist() == [True, True, True, False, True]
    assert condense(weights, 2, floor=0).kept.tolist() == [True, False, True, False, True]
    assert condense(weights, 3, floor=0).kept.tolist() == [True, False, True, False, False]


def test_by_class_divides_by_the_class_so_that_both_shrink_alike():
    values = np.concatenate([np.linspace(0.01, 0.1, 50), np.linspace(1, 10, 50)])
    weights = frame(values, ["easy"] * 50 + ["hard"] * 50)
    plain = condense(weights, 20, "N1", floor=0).by_cell()["dropped_share"]
    alike = condense(weights, 20, "N3", floor=0).by_cell()["dropped_share"]
    assert plain["easy"] == pytest.approx(0.4)
    assert plain["hard"] == 0
    assert alike["easy"] == alike["hard"] == pytest.approx(0.2)


def test_no_cell_falls_below_the_floor_and_that_is_said():
    weights = frame([*range(30), 99, 98], ["rare"] * 15 + ["often"] * 17, ["x"] * 15 + ["y"] * 17)
    found = condense(weights, 14, floor=10)
    after = found.cells.set_index("label")["after"]
    assert after["rare"] == 10
    assert found.dropped == 12  # 5 + 7: no more may go
    assert any("would have left 1 of 15 samples with label=rare, group=x; the floor keeps 10" in n for n in found.notes)
    assert any("12 samples go instead of 14" in n for n in found.notes)


def test_without_a_floor_a_cell_that_is_left_with_little_is_named():
    weights = frame([*range(30)], ["rare"] * 15 + ["often"] * 15)
    found = condense(weights, 14, floor=0)
    assert found.cells.set_index("label")["after"]["rare"] == 1
    assert any("Only 1 of 15 samples with label=rare are left" in n for n in found.notes)


def test_nothing_is_said_where_every_cell_stays_large():
    assert condense(audits.weights(400), 40).notes == ()


def test_samples_never_seen_stay_and_are_counted():
    weights = frame([1.0, np.nan, 2.0, 3.0], ["a"] * 4)
    found = condense(weights, 3, floor=0)
    assert found.kept.tolist() == [False, True, False, False]
    assert any("1 samples were never seen" in n for n in found.notes)


def test_samples_never_seen_stay_even_where_fewer_go_than_were_asked():
    weights = frame([1.0, np.nan, np.nan, 2.0, 3.0], ["a"] * 5)
    found = condense(weights, 4, floor=0)
    assert found.kept.tolist() == [False, True, True, False, False]
    assert any("3 samples go instead of 4" in n for n in found.notes)
    assert condense(weights, 4, floor=3).kept.tolist() == [False, True, True, False, True]  # they count in the floor


def test_samples_without_a_group_are_a_cell_of_their_own():
    weights = frame(range(20), ["a"] * 20, ["x"] * 10 + [None] * 10)
    found = condense(weights, 15, floor=4)
    assert found.cells.set_index("group")["after"].to_dict() == {"x": 4, "not known": 4}


def test_rules_are_known_by_both_names():
    assert [rule_named(name) for name in ("N1", "n5", "weighted_loss", "Score")] == [
        "weighted-loss",
        "loss",
        "weighted-loss",
        "score",
    ]
    assert list(ALSO) == ["N1", "N2", "N3", "N4", "N5", "DROP"]
    assert rule_named("DRoP") == rule_named("recall_quotas") == "recall-quotas"
    with pytest.raises(UnknownName, match="choose from: weighted-loss"):
        rule_named("best")


def test_a_rule_that_the_run_cannot_answer_is_refused():
    with pytest.raises(BadInput, match="no score, which the rule 'score' drops by"):
        condense(audits.weights(50, scores=False), 5, "score")


@pytest.mark.parametrize(
    ("sizes", "recalls", "count", "goes"),
    [
        ((100, 100), (0.9, 0.7), 100, (75, 25)),  # kept 25 and 75: as 0.1 to 0.3
        (
            (100, 100),
            (0.9, 0.5),
            60,
            (60, 0),
        ),  # 1 to 5 asks for 117 of 100: full, the other has the rest
        ((100, 300), (0.9, 0.9), 40, (10, 30)),  # alike in recall, alike in share
        ((50, 50), (1.0, 1.0), 20, (10, 10)),  # nothing to tell them apart
        ((50, 50, 100), (1.0, 0.5, 1.0), 60, (20, 0, 40)),  # recall 1 asks for nothing; what is left over goes alike
        ((10, 10, 10), (0.5, 0.5, 0.5), 10, (4, 3, 3)),  # whole samples, no more and no fewer
    ],
)
def test_quotas_of_hand_numbers(sizes, recalls, count, goes):
    assert quotas(np.array(sizes, dtype=float), np.array(recalls), count).tolist() == list(goes)


def test_quotas_keep_most_of_the_labels_of_low_recall_at_random_and_above_the_floor():
    weights = frame(np.zeros(300), ["a"] * 100 + ["b"] * 100 + ["c"] * 100)
    recall = {"a": 0.95, "b": 0.8, "c": 0.8}
    found = condense(weights, 120, "DRoP", recall=recall, floor=10)
    assert found.cells["after"].tolist() == [20, 80, 80]  # 180 kept, as 0.05 to 0.2 to 0.2
    assert found.notes == ()
    again, other = (condense(weights, 120, "DRoP", recall=recall, seed=seed).kept for seed in (0, 1))
    assert np.array_equal(found.kept, again)
    assert not np.array_equal(found.kept, other)
    held = condense(weights, 120, "DRoP", recall={**recall, "a": 1.0}, floor=10)
    assert held.cells["after"].tolist()[0] == 10
    assert held.dropped == 120
    assert any("would have left 0 of 100 samples with label=a; the floor keeps 10" in note for note in held.notes)


def test_quotas_need_to_know_a_recall():
    weights = frame(np.zeros(20), ["a"] * 10 + ["b"] * 10)
    for recall in ({}, {"z": 0.5}):
        with pytest.raises(BadInput, match="no label of the training set"):
            condense(weights, 5, "DRoP", recall=recall)
    assert condense(weights, 6, "DRoP", recall={"a": 0.5}, floor=0).cells["after"].tolist() == [7, 7]


@pytest.mark.parametrize(("words", "count"), [("10%", 100), (" 0.1 ", 100), ("500", 500), ("12.5 %", 125)])
def test_how_many_go(words, count):
    assert number_to_drop(words, 1_000) == count


@pytest.mark.parametrize("words", ["0", "100%", "1000", "-5", "1.5", "ten", "0.00001", "nan", ""])
def test_how_many_go_is_refused_where_it_is_no_part(words):
    with pytest.raises(BadInput, match="drop="):
        number_to_drop(words, 1_000)


def test_random_sets_have_the_size_and_the_class_counts_of_what_was_kept():
    weights = audits.weights(300, labels=("a", "b", "c"))
    kept = condense(weights, 90).kept
    for within in ("all", "label"):
        mask = random_like(weights, kept, seed=1, within=within)
        assert mask.sum() == kept.sum()
        assert np.array_equal(mask, random_like(weights, kept, seed=1, within=within))
        assert not np.array_equal(mask, random_like(weights, kept, seed=2, within=within))
    counts = weights["label"][kept].value_counts()
    assert weights["label"][mask].value_counts().to_dict() == counts.to_dict()
