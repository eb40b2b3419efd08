"""The promises are checked as they are written: made-up numbers with an answer on paper."""

from __future__ import annotations

import math

import pytest

SEEDS = range(10)


@pytest.fixture
def checks(script):
    return script("judgement_checks")


@pytest.fixture
def entry(checks):
    """A method whose numbers move by a little from seed to seed, all methods alike."""

    def made(accuracy, gap, spread=0.1, **more):
        wave = [spread * math.sin(3 * s + accuracy + 7 * gap) for s in SEEDS]
        return checks.Entry({s: accuracy + wave[s] for s in SEEDS}, {s: gap - wave[s] for s in SEEDS}, **more)

    return made


def promises(checks, sets, **more):
    found = checks.checks(sets, "ours", **more)
    return dict(zip(("worse", "cost", "half", "sound", "beaten", "grouped"), found, strict=True))


def test_a_difference_has_the_interval_of_a_paired_t_test(checks):
    from scipy import stats

    a, b = {0: 1.0, 1: 2.0, 2: 4.0, 9: 8.0}, {0: 0.5, 1: 1.0, 2: 2.5, 3: 7.0}
    found = checks.difference(a, b)
    expected = stats.ttest_rel([1.0, 2.0, 4.0], [0.5, 1.0, 2.5]).confidence_interval(0.95)
    assert (found.n, found.mean) == (3, pytest.approx(1.0))
    assert (found.low, found.high) == (pytest.approx(expected.low), pytest.approx(expected.high))
    assert checks.difference({0: 3.0}, {0: 1.0}) == (2.0, -math.inf, math.inf, 1)
    with pytest.raises(ValueError, match="share no seed"):
        checks.difference({0: 3.0}, {1: 1.0})


def test_the_better_plain_model_is_the_more_accurate_one(checks, entry):
    entries = {"mlp": entry(85, 2, plain=True), "trees": entry(86, 9, plain=True), "peer": entry(99, 0)}
    assert checks.better_plain(entries) == "trees"


def test_a_model_that_keeps_every_promise(checks, entry):
    entries = {
        "mlp": entry(85, 9, plain=True),
        "trees": entry(86, 8, plain=True),
        "peer": entry(85.8, 3.5),
        "ours": entry(85.9, 3.4),
    }
    found = promises(checks, {"a": entries})
    assert all(found[key].holds and not found[key].failed for key in ("worse", "cost", "half", "beaten"))
    assert found["half"].asked == ["a"]
    assert found["grouped"].holds is None, "nobody was asked"


def test_two_seeds_say_nothing(checks, entry):
    few = {name: checks.Entry({0: a, 1: a + 0.01}, {0: g, 1: g}, plain=name == "trees")
           for name, a, g in (("trees", 86, 5), ("ours", 70, 20))}  # fmt: skip
    assert all(check.holds is None and not check.asked for check in promises(checks, {"a": few}).values())


def test_worse_in_both_is_told_and_worse_in_one_is_not(checks, entry):
    plain = {"trees": entry(86, 5, plain=True)}
    assert promises(checks, {"a": {**plain, "ours": entry(84, 7)}})["worse"].failed.keys() == {"a"}
    assert not promises(checks, {"a": {**plain, "ours": entry(84, 3)}})["worse"].failed
    assert not promises(checks, {"a": {**plain, "ours": entry(87, 7)}})["worse"].failed
    within_noise = entry(85.9, 5.2, spread=3)
    assert not promises(checks, {"a": {**plain, "ours": within_noise}})["worse"].failed


def test_the_budget_is_kept_but_for_noise(checks, entry):
    plain = {"trees": entry(86, 5, plain=True)}
    assert promises(checks, {"a": {**plain, "ours": entry(85.5, 1)}})["cost"].failed
    assert not promises(checks, {"a": {**plain, "ours": entry(85.5, 1)}}, budget=1.0)["cost"].failed
    assert not promises(checks, {"a": {**plain, "ours": entry(85.5, 1, spread=2)}})["cost"].failed


def test_where_a_blind_peer_halves_the_gap_ours_must(checks, entry):
    plain, peer = {"trees": entry(86, 8, plain=True)}, entry(85.9, 3)
    assert promises(checks, {"a": {**plain, "peer": peer, "ours": entry(86, 7.5)}})["half"].failed
    assert not promises(checks, {"a": {**plain, "peer": peer, "ours": entry(86, 3.9)}})["half"].failed
    too_dear = {**plain, "peer": entry(85, 3), "ours": entry(86, 7.5)}
    assert promises(checks, {"a": too_dear})["half"].asked == [], "the peer pays more than the budget"
    with_groups = {**plain, "peer": entry(85.9, 3, groups=True), "ours": entry(86, 7.5)}
    assert promises(checks, {"a": with_groups})["half"].asked == []
    by_chance = {**plain, "peer": entry(85.9, 3, spread=20), "ours": entry(86, 7.5)}
    assert promises(checks, {"a": by_chance})["half"].asked == [], "a smaller gap that is noise asks for nothing"


def test_a_peer_that_is_close_to_constant_is_told_apart(checks, entry):
    level = dict.fromkeys(SEEDS, 60.0)
    sets = {"a": {"trees": entry(86, 8, plain=True, balanced=level), "ours": entry(86, 7.5, balanced=level)}}
    for points, asked in ((1.9, ["a"]), (2.1, [])):
        sets["a"]["peer"] = entry(85.9, 3, balanced=dict.fromkeys(SEEDS, 60 - points))
        found = promises(checks, sets)
        assert found["half"].failed.keys() == {"a"}
        assert found["sound"].asked == asked
        assert list(found["sound"].failed) == asked


def test_one_set_may_be_dominated_and_two_may_not(checks, entry):
    beaten = {"trees": entry(86, 8, plain=True), "peer": entry(87, 2), "ours": entry(86, 7)}
    fine = {"trees": entry(86, 8, plain=True), "peer": entry(87, 9), "ours": entry(86, 7)}
    one = promises(checks, {"a": beaten, "b": fine})["beaten"]
    assert one.holds
    assert one.failed == {"a": "by peer"}
    two = promises(checks, {"a": beaten, "b": beaten})["beaten"]
    assert not two.holds
    assert two.to_dict()["holds"] is False


def test_plain_models_can_dominate_and_other_versions_of_ours_cannot(checks, entry):
    entries = {"trees": entry(87, 2, plain=True), "ours": entry(86, 7), "ours-0.1": entry(88, 1)}
    assert promises(checks, {"a": entries})["beaten"].failed == {"a": "by trees"}


def test_groups_at_prediction_are_compared_among_themselves(checks, entry):
    entries = {
        "trees": entry(86, 8, plain=True),
        "ours": entry(86, 7),
        "ours-groups": entry(86, 3),
        "thresholds": entry(87, 1, groups=True),
        "blind": entry(88, 0),
    }
    found = promises(checks, {"a": entries}, ours_with_groups="ours-groups")["grouped"]
    assert found.failed == {"a": "by thresholds"}
