import pytest
from tests import audits

from fairweight.metrics import group_table
from fairweight.report import findings, headline


def judged(verdict, before, after, low, high, accuracy=(0.80, 0.79), **more):
    """The fields that a judged training adds to metrics.json."""
    table = audits.table([0.6, 0.9]).to_dict()
    change = {"value": after - before, "low": low, "high": high}
    return audits.audit(
        {
            **table,
            "verdict": verdict,
            "chosen": "reweighing (trees)",
            "criterion": "equal-opportunity",
            "gap_before": {"value": before, "low": 0.1, "high": 0.4, "n": 10},
            "gap_after": {"value": after, "low": 0.0, "high": 0.2, "n": 10},
            "gap_change": change,
            "accuracy_before": accuracy[0],
            "accuracy_after": accuracy[1],
            "accuracy_change": {"value": accuracy[1] - accuracy[0], "low": -0.02, "high": 0.001},
            **more,
        }
    )


def test_a_judged_run_has_both_changes_and_how_sure_they_are():
    top = headline(judged("helps", 0.30, 0.10, -0.25, -0.15))
    assert top.tone == "good"
    assert top.sentence.startswith("It helps: the equal-opportunity gap falls from 30.0 to 10.0 points")
    assert "costs 1.0 points of accuracy" in top.sentence
    gap, accuracy, sure = top.tiles
    assert (gap.before, gap.after, gap.tone) == ("30.0", "10.0", "good")
    assert gap.words == "-20.0 points [-25.0, -15.0]"
    assert (accuracy.before, accuracy.after, accuracy.tone) == ("80.0", "79.0", "even")
    assert sure.after == "Beyond chance"
    assert "One seed, 800 test rows" in sure.words


@pytest.mark.parametrize(
    ("verdict", "limits", "tone", "says", "sure"),
    [
        ("no-effect", (-0.1, 0.1), "even", "No clear effect", "Could be chance"),
        ("worse", (0.02, 0.1), "bad", "It is worse", "Beyond chance"),
        ("no-effect", (-0.1, -0.02), "even", "Outside the limit", "Beyond chance"),
    ],
)
def test_bad_news_and_no_news(verdict, limits, tone, says, sure):
    top = headline(judged(verdict, 0.30, 0.33, *limits, outside_limits=limits[1] < 0))
    assert (top.tone, top.tiles[2].after) == (tone, sure)
    assert top.sentence.startswith(says)
    assert "plain training" in top.action


def test_a_change_that_the_verdict_puts_down_to_chance_is_not_shown_as_clear():
    top = headline(judged("no-effect", 0.30, 0.10, -0.25, -0.15))  # by a handful of rows
    assert top.sentence.startswith("No clear effect")
    assert (top.tiles[0].tone, top.tiles[2].after) == ("even", "Could be chance")


def test_plain_training_that_nothing_beat_is_said_to_stay():
    more = {"chosen": "plain (linear)", "judged": {"reference": "plain (linear)"}}
    top = headline(judged("no-effect", 0.30, 0.30, None, None, (0.8, 0.8), **more))
    assert top.sentence.startswith("Plain training stays")
    assert "--budget" in top.action
    assert [tile.before for tile in top.tiles] == ["", "", ""]
    bound = {**more, "judged": {**more["judged"], "why": "Plain training keeps the bound of 40 points"}}
    kept = headline(judged("no-effect", 0.30, 0.30, None, None, (0.8, 0.8), **bound))
    assert kept.sentence.startswith("Plain training stays: plain training keeps the bound of 40 points.")
    table = audits.table([0.8, 0.82], n=200)
    even = judged("no-effect", table.tprd, table.tprd, None, None, (0.8, 0.8), **more).metrics
    assert "no larger than sampling alone" in headline(audits.audit({**even, **table.to_dict()})).sentence


def test_a_gap_that_cannot_be_estimated_has_no_verdict():
    metrics = judged("no-effect", 0.3, 0.3, None, None).metrics
    unknown = {"value": None, "low": None, "high": None, "n": 0}
    top = headline(audits.audit({**metrics, "gap_before": unknown, "gap_after": unknown}))
    assert top.sentence.startswith("No verdict")
    assert top.tiles[0].after == "–"


@pytest.mark.parametrize(
    ("rates", "sizes", "tone"), [([0.8, 0.81], 400, "good"), ([0.8, 0.5, 1.0], [400, 12, 4], "even")]
)
def test_a_large_gap_that_chance_may_explain_is_not_called_good(rates, sizes, tone):
    top = headline(audits.audit(audits.table(rates, n=sizes)))
    assert top.sentence.startswith("No gap beyond chance")
    assert top.tone == tone


def test_a_gap_that_falls_by_levelling_is_not_handed_on_as_a_model_to_use():
    lost = "the true positive rate of g1 falls from 90.0 to 60.0 %, and no group's rises"
    told = {"kind": "levels-down", "sentence": f"Nobody gains: {lost}.", "because": lost}
    down = judged("helps", 0.30, 0.01, -0.35, -0.20, levelling=told, sentence="Levels down.")
    top = headline(down)
    assert top.sentence.startswith("It levels down and helps nobody: the equal-opportunity gap falls from 30.0 to 1.0")
    assert lost in top.sentence
    assert "decide whether that loss is acceptable" in top.action
    assert "--groups-at-prediction" in top.action
    assert "use this model" not in top.action
    assert top.tone == "even"
    assert [f.level for f in findings(down) if f.kind == "verdict"] == ["look"]
    told = {"kind": "as-a-threshold", "sentence": "Plain training.", "gap": 0.05, "accuracy": 0.8}
    top = headline(judged("helps", 0.30, 0.01, -0.35, -0.20, levelling=told))
    assert "has a gap of 5.0 points and an accuracy of 80.0 %" in top.sentence
    assert top.action.startswith("compare with plain training at another threshold")


def test_a_training_that_changes_nothing_is_not_put_down_to_chance():
    same = judged("no-effect", 0.30, 0.30, 0.0, 0.0, (0.8, 0.8))
    top = headline(same)
    assert top.sentence.startswith("It changes nothing: the equal-opportunity gap stays 30.0 points")
    assert top.action.startswith("use plain training, which is simpler")
    assert headline(judged("no-effect", 0.30, 0.30, -0.1, 0.1, (0.8, 0.8))).sentence.startswith("No clear effect")


def test_nothing_is_said_to_be_beaten_where_nothing_else_was_tried():
    more = {"chosen": "plain (trees)", "judged": {"reference": "plain (trees)", "candidates": [{"name": "plain"}]}}
    top = headline(judged("no-effect", 0.30, 0.30, None, None, (0.8, 0.8), **more))
    assert top.sentence.startswith("Plain training stays: nothing else was tried.")
    assert "--time" in top.action


def test_levelling_is_seen_without_a_verdict_too():
    trained = audits.trained(audits.weights())
    plain = audits.table([0.6, 0.9], n=2_000)
    top = headline(audits.audit(audits.table([0.6, 0.62], n=2_000), base=plain, trained=trained))
    assert "the true positive rate of g1 falls from 90.0 to 62.0 %, and no group's rises" in top.sentence
    raised = headline(audits.audit(audits.table([0.7, 0.72], n=2_000), base=plain, trained=trained))
    assert raised.sentence.startswith("It helps")


def test_predictions_alone_get_tiles_of_what_is_known():
    top = headline(audits.audit(audits.table([0.6, 0.9], n=2_000)))
    assert (top.tone, top.tiles[2].after) == ("bad", "Beyond chance")
    assert [tile.before for tile in top.tiles] == ["", "", ""]
    assert top.tiles[0].after == "30.0"
    even = headline(audits.audit(audits.table([0.8, 0.81], n=200)))
    assert (even.tone, even.tiles[2].after) == ("good", "Could be chance")


def test_a_baseline_without_a_verdict_is_compared_by_the_gap():
    trained = audits.trained(audits.weights())
    made = audits.audit(audits.table([0.88, 0.9], n=2_000), base=audits.table([0.6, 0.9], n=2_000), trained=trained)
    top = headline(made)
    assert (top.tiles[0].before, top.tiles[0].after) == ("30.0", "2.0")
    assert top.tone == "good"


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("said", [0, 1])
def test_a_model_that_predicts_one_label_is_not_called_even(classes, said):
    labels, groups = [k % classes for k in range(600)], ["a", "a", "b", "b", "b"] * 120
    table = group_table(labels, [said] * 600, groups)
    alone = headline(audits.audit(table))
    assert (alone.tone, alone.tiles[2].after) == ("bad", "Says nothing")
    assert alone.sentence.startswith(
        "It predicts one label for every row, so its gap in true positive rate of 0.0 points"
    )
    more = {"chosen": "plain (linear)", "judged": {"reference": "plain (linear)"}, "gap_after": {"value": 0.0}}
    kept = judged("no-effect", 0.0, 0.0, None, None, (0.5, 0.5), **more).metrics
    assert headline(audits.audit({**kept, **table.to_dict()})).sentence.startswith(
        "It predicts one label for every row"
    )
    found = [finding for finding in findings(audits.audit(table)) if "gap" in finding.kind]
    assert [(finding.level, "says nothing" in finding.sentence) for finding in found] == [("act", True)]
    mixed = group_table(labels, [said] * 599 + [1 - said], groups)
    assert not headline(audits.audit(mixed)).sentence.startswith("It predicts one label")
