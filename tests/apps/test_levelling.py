"""How a gap fell, on predictions whose answer is known on paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fairweight.apps.levelling import predictions_at_share_of
from fairweight.apps.verdict import Verdict
from fairweight.metrics import GroupTable, group_table
from fairweight.metrics.criterion import criterion

POSITIVES, NEGATIVES = 200, 300  # of each group


def table(found: tuple[int, int], alarms: tuple[int, int] = (30, 30)) -> GroupTable:
    """So many positives of each group are found, and so many of its negatives are called positive."""
    labels, said, groups = [], [], []
    for group, hits, false in zip("FM", found, alarms, strict=True):
        labels += [1] * POSITIVES + [0] * NEGATIVES
        said += [1] * hits + [0] * (POSITIVES - hits) + [1] * false + [0] * (NEGATIVES - false)
        groups += [group] * (POSITIVES + NEGATIVES)
    return group_table(labels, said, groups, positive=1)


def verdict(before: GroupTable, after: GroupTable, name: str = "equal-opportunity", **more: object) -> Verdict:
    return Verdict(criterion(name), before, after, "forml", "plain training", budget=100.0, **more)


def test_who_gains_is_not_levelled():
    raised = verdict(table((80, 160)), table((140, 165)))
    assert (raised.word, raised.levelled) == ("helps", None)
    assert raised.sentence().startswith("Helps: ")
    assert "levelling" not in raised.to_dict()


@pytest.mark.parametrize(("worst", "rest"), [(80, "no group's rises."), (70, "no group's rises.")])
def test_a_gap_that_falls_because_the_better_off_lose_levels_down(worst, rest):
    found = verdict(table((80, 160)), table((worst, 90)))
    assert (found.word, found.levelled) == ("helps", "levels-down")
    assert found.sentence().startswith("Levels down: equal-opportunity gap 40.00 → ")
    said = f"Nobody gains: the true positive rate of M falls from 80.0 to 45.0 %, and {rest}"
    assert found.how() == said
    fields = found.to_dict()
    assert fields["verdict"] == "helps"
    assert fields["levelling"] == {"kind": "levels-down", "sentence": said, "because": said[14:-1]}


def test_a_gain_that_is_small_beside_the_loss_is_told_with_its_size():
    found = verdict(table((80, 160)), table((84, 90)))
    assert found.levelled == "levels-down"
    assert found.how().endswith("and no group's rises by more than 2.0 points.")
    shared = verdict(table((80, 160)), table((100, 110)))
    assert shared.levelled is None
    assert "Levelling down: of the 35.0 points" in shared.how()
    assert "the best group, which fell from 80.0 to 55.0 %; the worst went from 40.0 to 50.0 %." in shared.how()


def test_false_alarms_that_rise_for_the_better_off_are_a_loss_and_those_that_fall_are_a_gain():
    worse = verdict(table((160, 160), (30, 150)), table((160, 160), (145, 150)), "equalized-odds")
    assert worse.levelled == "levels-down"
    assert "the false positive rate of F rises from 10.0 to 48.3 %, and no group's falls." in worse.how()
    better = verdict(table((160, 160), (30, 150)), table((160, 160), (30, 40)), "equalized-odds")
    assert better.levelled is None


def test_rates_on_few_rows_do_not_decide_whether_anybody_gains():
    before, after = (
        group_table(
            [1] * 409, [0] * (9 - k) + [1] * k + [1] * a + [0] * (400 - a), ["x"] * 9 + ["F"] * 200 + ["M"] * 200
        )
        for k, a in ((1, 330), (9, 230))
    )
    assert verdict(before, after).levelling.kind == "levels-down"


def test_what_one_threshold_for_everybody_would_do_is_said():
    before, after = table((80, 160)), table((150, 190), (60, 60))
    as_much = verdict(before, after, moved=table((148, 190), (62, 60)))
    assert (as_much.word, as_much.levelled) == ("helps", "as-a-threshold")
    assert as_much.sentence().startswith("Helps, as a moved threshold would: ")
    assert "(46.0 %), has a gap of 21.00 points at an accuracy of 81.60 %." in as_much.how()
    fields = as_much.to_dict()["levelling"]
    assert (fields["gap"], fields["accuracy"]) == pytest.approx((0.21, 0.816))
    for other in (table((100, 190), (85, 85)), table((148, 190), (75, 75))):  # less of the gap; more errors
        assert replace(as_much, moved=other).levelled is None
    assert replace(as_much, kept_plain=True).levelling is None


def test_all_rates_that_move_together_are_named():
    note = verdict(table((80, 160)), table((140, 190), (60, 60))).how()
    assert "of all groups went up, by 15.0 to 30.0 points" in note
    assert "predicted positive from 30.0 to 45.0 %" in note


@pytest.mark.parametrize("positive", [0, 1])
def test_a_moved_threshold_predicts_as_many_positives(positive):
    draw = np.random.default_rng(0)
    logits = torch.from_numpy(draw.normal(size=(500, 2)))
    for many in (0, 1, 120, 500):
        other = torch.full((500,), 1 - positive)
        other[torch.randperm(500)[:many]] = positive
        said = predictions_at_share_of(logits, other, positive)
        assert int((said == positive).sum()) == many
        one = (logits[:, 1] - logits[:, 0])[:, None]  # as a model with one logit has it
        assert torch.equal(said, predictions_at_share_of(one, other, positive))
        margin = logits[:, positive] - logits[:, 1 - positive]
        assert not 0 < many < 500 or margin[said == positive].min() > margin[said != positive].max()
