"""What is chosen where the user says nothing, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from tests.tables import people

from fairweight.apps._train_text import in_words
from fairweight.apps.judge import Goal, Score, why_plain
from fairweight.apps.train import TrainRequest, prepare, train
from fairweight.apps.verdict import Verdict
from fairweight.data import load
from fairweight.errors import BadInput, UnknownName
from fairweight.metrics import group_table
from fairweight.metrics.criterion import criterion
from fairweight.runs.defaults import TIED_RATE, method_defaults, with_defaults
from fairweight.runs.spec import Spec


def chosen(frame: pd.DataFrame, group="sex", method="forml", device="cpu", **asked):
    dataset = load(frame, label="income", group=group)
    return with_defaults(Spec("frame", "income", group, method=method), dataset, asked, device), dataset


@pytest.mark.parametrize(("rows", "batch"), [(300, 32), (1500, 64), (5000, 128), (16000, 256)])
def test_batch_and_epochs_follow_the_number_of_rows(rows, batch):
    spec, dataset = chosen(people(rows))
    assert spec.batch_size == batch
    assert 20 <= spec.epochs <= 100
    steps = spec.epochs * np.ceil(len(dataset.train) / batch)
    assert spec.epochs in (20, 100) or 2500 < steps < 3500
    assert spec.early_stopping == {"metric": "objective", "patience": max(5, spec.epochs // 5)}


def test_scores_are_tied_where_groups_are_known_and_objectives_keep_accuracy():
    spec, _ = chosen(people())
    assert spec.method_options["objective"] == "mean + 0.3 * equal-opportunity-rate"
    assert spec.method_options["tie"] == "cell"
    spec, _ = chosen(people(), group="none")
    assert spec.method_options == {}
    spec, _ = chosen(people(), method="group-dro")
    assert spec.method_options == {}
    three = people().assign(income=np.resize(["a", "b", "c"], 400))
    assert chosen(three)[0].method_options["objective"] == "mean + 0.3 * equal-odds"
    assert "tie" not in method_defaults("forml", 2, groups=True, train_groups=False)


def test_what_was_asked_for_is_kept():
    spec, _ = chosen(people(), epochs=7, batch_size=11, network={"hidden": [3]}, method_options={"tie": "label"})
    assert (spec.epochs, spec.batch_size) == (7, 11)
    assert spec.network == {"hidden": [3], "name": "mlp"}
    assert spec.method_options["tie"] == "label"
    assert spec.method_options["objective"].startswith("mean + ")
    assert "hidden 3" in in_words(spec, _)["network"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"heed": 1}, {"name": "adaptive", "rate": TIED_RATE, "heed": 1}),
        ({"name": "adaptive", "rate": 0.2}, {"name": "adaptive", "rate": 0.2}),
        ({"name": "plain", "scale": 9}, {"name": "plain", "scale": 9}),
    ],
)
def test_of_a_score_step_what_was_not_asked_for_stays_suited(asked, expected):
    spec, _ = chosen(people(), method_options={"score_step": asked})
    assert spec.method_options["score_step"] == expected


def test_a_cpu_gets_a_narrow_network_for_images(tmp_path):
    from PIL import Image

    for place in range(24):
        path = tmp_path / "ab"[place % 2] / f"{place}.png"
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (64, 64), (place, 0, 0)).save(path)
    dataset = load(str(tmp_path))
    here, there = (with_defaults(Spec(str(tmp_path)), dataset, {}, device) for device in ("cpu", "cuda"))
    assert here.network == {"width": 16, "stem": "large", "name": "resnet18"}
    assert there.network == {"name": "resnet18"}
    assert here.augment
    assert (here.optimizer, here.schedule) == ("adam", {"name": "cosine"})
    many = replace(dataset, train=dataset.train.take(torch.zeros(10_000, dtype=torch.int64)))
    wide = with_defaults(Spec(str(tmp_path)), many, {}, "cuda")
    assert (wide.optimizer, wide.lr, wide.schedule) == ("sgd", 0.1, {"name": "cosine", "warm_up": 2})
    assert with_defaults(Spec(str(tmp_path)), many, {"epochs": 3}, "cuda").schedule["warm_up"] == 0


def test_nothing_is_selected_without_validation(tmp_path):
    people().to_csv(tmp_path / "p.csv", index=False)
    wanted = TrainRequest(str(tmp_path / "p.csv"), "income", "sex", "forml", data={"split": {"validation": 0.0}})
    prepared = prepare(wanted)
    assert prepared.spec.early_stopping == {}
    assert prepared.baseline.with_(method="forml", method_options=prepared.spec.method_options) == prepared.spec
    with pytest.raises(UnknownName):
        prepare(TrainRequest(str(tmp_path / "p.csv"), "income", "sex", "forml", training={"optimizer": "adamm"}))
    with pytest.raises(BadInput):
        prepare(
            TrainRequest(str(tmp_path / "p.csv"), "income", "sex", "forml", training={"network": {"name": "resnet18"}})
        )


def test_an_own_network_on_a_table_is_trained_by_forml_beside_plain_training(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people()[["age", "hours", "sex", "income"]].to_csv("p.csv", index=False)
    (tmp_path / "net.py").write_text("from torch import nn\nnet = nn.Linear(2, 2)\n")
    for own in ({"training": {"network": {"name": "net.py:net"}}}, {"learner": "net.py:net"}):
        prepared = prepare(TrainRequest("p.csv", "income", "sex", **own))
        assert (prepared.spec.method, prepared.request) == ("forml", None)
        assert prepared.spec.judge["criterion"] == "equal-opportunity"


@pytest.mark.parametrize(("seed", "learner"), [(-1, "trees"), (-1, "linear"), (2**40, "trees")])
def test_every_seed_that_a_run_may_have_is_taken_by_a_choice(tmp_path, seed, learner):
    people().to_csv(tmp_path / "p.csv", index=False)
    wanted = TrainRequest(
        str(tmp_path / "p.csv"), "income", "sex", seed=seed, learner=learner, candidates=("reweighing",)
    )
    assert train(prepare(wanted), tmp_path / "run").verdict is not None


def verdict(before: list[int], after: list[int], labels: list[int], groups: list[int]) -> Verdict:
    names = ("F", "M", "A", "B")[: 1 + max(groups)]
    tables = [
        group_table(torch.tensor(labels), torch.tensor(p), torch.tensor(groups), group_names=names)
        for p in (before, after)
    ]
    return Verdict(criterion("equal-opportunity"), tables[0], tables[1], "forml", "plain training")


def test_the_sentence_says_what_changed_and_whether_chance_explains_it():
    labels, groups = [1] * 400, [0] * 200 + [1] * 200
    uneven, even = [1] * 60 + [0] * 140 + [1] * 160 + [0] * 40, [1] * 160 + [0] * 40 + [1] * 160 + [0] * 40
    lowered = verdict(uneven, even, labels, groups)
    assert lowered.word == "helps"
    assert "gap 50.00 → 0.00 points (-50.00" in lowered.sentence()
    told = lowered.differences()["numbers"]["tprd"]["interval"]
    assert tuple(told) == lowered.change[1:]  # one number has one interval, in the sentence and in the table
    assert verdict(even, uneven, labels, groups).word == "worse"
    same = verdict(uneven, uneven, labels, groups)
    assert same.word == "no-effect"
    assert same.how() == ""
    kept = replace(same, kept_plain=True)  # the same model: no chance is left in the difference
    assert {(d.value, d.low, d.high) for d in kept.numbers.values()} == {(0, 0, 0)}


def beside(lost: int, **limits: float) -> Verdict:
    """A gap that is clearly smaller, while so many of 2,000 negatives more are called positive."""
    labels, groups = [1] * 400 + [0] * 2_000, ([0] * 200 + [1] * 200) + [0, 1] * 1_000
    uneven, even = [1] * 100 + [0] * 100 + [1] * 160 + [0] * 40, [1] * 130 + [0] * 70 + [1] * 130 + [0] * 70
    found = verdict(uneven + [0] * 2_000, even + [1] * lost + [0] * (2_000 - lost), labels, groups)
    return replace(found, **limits)


def test_what_is_clearly_beyond_the_budget_or_the_bound_is_not_called_a_help():
    dear = beside(200)
    assert dear.word == "no-effect"
    assert dear.sentence().startswith("Smaller gap, outside the budget: ")
    assert not dear.caveats()
    assert beside(200, budget=20.0).word == "helps"
    above = beside(0, bound=0.0)
    assert above.word == "helps"  # a gap of 0 keeps it
    labels, groups = [1] * 400, [0] * 200 + [1] * 200
    far, near = [1] * 20 + [0] * 180 + [1] * 180 + [0] * 20, [1] * 60 + [0] * 140 + [1] * 160 + [0] * 40
    short = replace(verdict(far, near, labels, groups), bound=10.0)
    assert (short.word, short.sentence()[:31]) == ("no-effect", "Smaller gap, outside the bound:")
    assert replace(short, bound=None).word == "helps"


def test_what_chance_may_have_put_beyond_a_limit_is_said_and_counts_for_nothing():
    perhaps = beside(20)
    assert 100 * perhaps.accuracy.value < -perhaps.budget < 100 * perhaps.accuracy.high
    assert perhaps.word == "helps"
    assert "more than the budget of 0.3 points; chance may explain that" in perhaps.caveats()
    assert perhaps.caveats() in perhaps.to_dict()["notes"]
    assert not beside(0).caveats()
    labels, groups = [1] * 400, [0] * 200 + [1] * 200
    far, near = [1] * 20 + [0] * 180 + [1] * 180 + [0] * 20, [1] * 150 + [0] * 50 + [1] * 160 + [0] * 40
    above = replace(verdict(far, near, labels, groups), bound=3.0)
    assert (above.word, "above the bound of 3 points; chance" in above.caveats()) == ("helps", True)


def test_a_change_by_a_handful_of_rows_is_not_called_clear():
    labels, groups = [1] * 203, [0] * 3 + [1] * 200
    many, few = [0] * 3 + [1] * 100 + [0] * 100, [0] * 3 + [1] * 20 + [0] * 180
    handful = verdict(many, few, labels, groups)
    assert handful.change[2] < 0  # no draw of three that are never found shows another rate
    assert (handful.word, handful.outside_limits) == ("worse", False)  # accuracy falls, and no smaller gap pays for it
    assert replace(handful, budget=100.0).word == "no-effect"
    assert "A group's rate is measured on 3 of the test rows" in handful.caveats()
    assert "measured on 3 of the test rows: its gap says little" in replace(handful, kept_plain=True).caveats()
    enough = verdict([0] * 7 + many, [0] * 7 + few, [1] * 210, [0] * 10 + [1] * 200)
    assert replace(enough, budget=100.0).word == "helps"
    assert replace(enough, kept_plain=True).caveats() == ""


def test_one_label_for_every_row_is_named():
    labels, groups = [1, 0] * 20, [0] * 20 + [1] * 20
    assert "predicts 1 for each of the 40 test rows" in verdict(labels, [1] * 40, labels, groups).one_label()
    assert verdict([1] * 40, labels, labels, groups).one_label() == ""


def test_the_first_line_says_why_plain_training_was_kept():
    labels, groups = [1] * 40, [0] * 20 + [1] * 20
    plain = replace(verdict(labels, labels, labels, groups), kept_plain=True)
    assert plain.sentence().startswith("Nothing beat plain training on the rows that models were judged on, so plain")
    fair = criterion("equal-opportunity")
    kept = why_plain(Score(0.9, 0.7, 0.3, 0.01), Goal(fair, bound=2))
    told = replace(plain, why=kept).sentence()
    assert told.startswith("Plain training keeps the bound of 2 points on the rows that models were judged on, so ")
    assert why_plain(Score(0.9, 0.7, 0.3, 0.03), Goal(fair, bound=2)).startswith("Nothing beat")


def test_a_gap_that_cannot_be_estimated_is_not_called_zero():
    labels, groups = [1] * 10 + [0] * 10, [0] * 10 + [1] * 10
    found = verdict([1] * 20, [0] * 20, labels, groups)
    assert "cannot be estimated" in found.sentence()
    assert found.differences()["numbers"]["tprd"]["difference"] is None
    assert found.rows()[0][3] == "–"


def test_columns_that_are_judged_side_by_side_are_named_with_their_own_gaps():
    """Of women in the north all positives are found and of other groups half: both columns differ by a quarter."""
    labels, groups = [1] * 400, [group for group in range(4) for _ in range(100)]
    even, uneven = [1, 0] * 200, [1] * 100 + [1, 0] * 150
    judged = verdict(uneven, even, labels, groups)
    assert judged.by_column() == ""
    fair = judged.criterion.each(("sex", "city"), [("F", "north"), ("F", "south"), ("M", "north"), ("M", "south")])
    judged = replace(judged, criterion=fair)
    assert judged.by_column() == "By column: sex 25.00 → 0.00, city 25.00 → 0.00 points."
    assert replace(judged, kept_plain=True).by_column() == "By column: sex 25.00, city 25.00 points."
