"""The two tests behind the verdicts, against scipy, and each of the four words."""

import math
import time

import numpy as np
import pytest
from scipy import stats

from fairweight.paper.published import Printed
from fairweight.paper.verdict import judge, shares, with_front
from fairweight.runs.statistics import Mean, holm, paired, signed_rank_p, with_means


def test_mean_and_its_error():
    mean = Mean.of([1.0, 2.0, 4.0])
    assert mean.value == pytest.approx(7 / 3)
    assert mean.error == pytest.approx(stats.sem([1.0, 2.0, 4.0]))
    assert mean.n == 3
    assert math.isnan(Mean.of([5.0]).error)
    assert Mean.of([5.0]).text() == "5.00"
    assert Mean.of([]).text() == "–"
    assert Mean.of([5.0]).to_dict() == {"mean": 5.0, "standard_error": None, "n": 1}
    assert Mean.of([8.0, 9.0]).text(1) == "8.5 ± 0.5"


@pytest.mark.parametrize(("ours", "n", "theirs", "runs"), [(0.3, 5, 0.14, 30), (0.05, 10, 0.9, 5), (1.0, 3, 1.0, 3)])
def test_reach_is_welchs(ours, n, theirs, runs):
    """A difference just beyond the reach has p just below 0.05, one just within it just above."""
    for factor, below in ((1.001, True), (0.999, False)):
        reach = judge(Mean(10.0, ours, n), Printed(10.0, theirs, runs), better="lower", margin=100.0)["reach"]
        found = judge(Mean(10.0 + factor * reach, ours, n), Printed(10.0, theirs, runs), better="lower", margin=100.0)
        p = stats.ttest_ind_from_stats(
            10.0 + factor * reach, ours * n**0.5, n, 10.0, theirs * runs**0.5, runs, equal_var=False
        ).pvalue
        assert (p < 0.05) == below
        assert found["verdict"] == ("worse" if below else "agrees")


def test_the_four_words():
    printed = Printed(8.79, 0.14, 30)
    assert judge(Mean(8.9, 0.1, 10), printed, better="lower")["verdict"] == "agrees"
    assert judge(Mean(7.0, 0.1, 10), printed, better="lower")["verdict"] == "better"
    assert judge(Mean(10.0, 0.1, 10), printed, better="lower")["verdict"] == "worse"
    unsure = judge(Mean(8.9, 2.0, 3), printed, better="lower")
    assert unsure["verdict"] == "undecided"
    assert "these seeds" in unsure["why"]


def test_higher_is_better_for_accuracy():
    printed = Printed(95.25, 0.03, 30)
    assert judge(Mean(96.5, 0.05, 5), printed, better="higher", margin=0.5)["verdict"] == "better"
    assert judge(Mean(94.0, 0.05, 5), printed, better="higher", margin=0.5)["verdict"] == "worse"


def test_one_seed_says_nothing():
    found = judge(Mean.of([1.0]), Printed(8.79, 0.14, 30), better="lower")
    assert found["verdict"] == "undecided"
    assert found["reach"] is None


def test_two_seeds_never_agree():
    """Two seeds that happen to lie close together would leave no room for doubt."""
    found = judge(Mean.of([95.24, 95.26]), Printed(95.25, 0.03, 30), better="higher", margin=0.5)
    assert found["verdict"] == "undecided"
    assert judge(Mean.of([95.24, 95.26, 95.25]), Printed(95.25, 0.03, 30), better="higher")["verdict"] == "agrees"


@pytest.mark.parametrize("values", [[11.0, 11.0, 11.0], [0.3, 0.1 + 0.2, 0.3]])
def test_seeds_that_are_all_alike_say_as_little(values):
    found = judge(Mean.of(values), Printed(values[0], 0.14, 30), better="lower")
    assert found["verdict"] == "undecided"
    assert "no spread" in found["why"]


def test_unsure_printed_numbers_are_named_as_the_reason():
    """No number of our seeds makes up for five printed runs that spread widely."""
    found = judge(Mean(22.0, 0.01, 500), Printed(22.32, 1.7, 5), better="lower")
    assert found["verdict"] == "undecided"
    assert found["why"].startswith("the printed runs alone leave ±4.7")


def test_printed_number_without_an_error_counts_as_exact():
    assert judge(Mean(2.9, 0.05, 10), Printed(2.9, None, None), better="lower")["verdict"] == "agrees"
    assert judge(Mean(2.2, 0.05, 10), Printed(2.9, None, None), better="lower")["verdict"] == "better"


def test_paired_is_the_t_test_over_shared_seeds():
    row, other = {0: 3.0, 1: 4.5, 2: 5.0, 7: 9.0}, {0: 2.0, 1: 4.0, 2: 5.5, 8: 1.0}
    found = paired(row, other)
    assert found["n"] == 3
    assert found["p"] == pytest.approx(stats.ttest_rel([3.0, 4.5, 5.0], [2.0, 4.0, 5.5]).pvalue)
    assert paired({0: 1.0}, {0: 2.0})["p"] is None
    assert paired({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0})["p"] == 1.0
    alike = paired({0: 0.3, 1: 0.7}, {0: 0.2, 1: 0.6})  # 0.1 and 0.1, but for rounding: a spread that says nothing
    assert alike["p"] is None
    assert paired({}, {}) == {"mean": None, "standard_error": None, "n": 0, "p": None}


def test_holm_by_hand():
    """Of three: the least times 3, the next times 2, the last as it is, and never less than one before it."""
    assert holm([0.01, 0.04, None, 0.03]) == pytest.approx([0.03, 0.06, None, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_wilcoxon_stands_beside_t_from_ten_seeds():
    ours = dict(enumerate([3.1, 2.0, 5.5, 4.0, 1.2, 2.2, 3.3, 0.4, 7.0, 2.6]))
    theirs = dict.fromkeys(ours, 2.5)
    assert paired(ours, theirs)["wilcoxon"] == pytest.approx(stats.wilcoxon([v - 2.5 for v in ours.values()]).pvalue)
    assert paired(theirs, theirs)["wilcoxon"] == 1.0
    del ours[9]
    assert "wilcoxon" not in paired(ours, theirs)


def entry(key, values, **more):
    """A row of a record: by seed, accuracy, TPRD and standard deviation."""
    names = ("accuracy", "tprd", "tpr_std")
    seeds = {str(s): dict(zip(names, found, strict=True)) for s, found in enumerate(values)}
    return {"key": key, "against": [], "seeds": seeds, "spec": {"data": {}}, **more}


def test_holm_is_over_a_tables_comparisons_of_each_endpoint():
    plain = entry("uniform", [(90, 10, 3), (91, 11, 3), (92, 12, 3)])
    one = entry("one", [(90, 8, 2), (91, 10, 2.5), (92, 11.5, 2)], against=["uniform"])
    two = entry("two", [(90, 10.5, 3), (91, 11, 3.2), (92, 13, 3.1)], against=["uniform"])
    numbers = [{"key": "tprd"}, {"key": "accuracy"}]
    _, first, second = with_means([plain, one, two], numbers)
    for key in ("tprd", "tpr_std"):
        found = [row["compared"]["uniform"][key] for row in (first, second)]
        assert [f["p_holm"] for f in found] == holm([f["p"] for f in found])
        assert max(f["p_holm"] / f["p"] for f in found) == pytest.approx(2.0)
    assert "p_holm" not in first["compared"]["uniform"]["accuracy"], "no endpoint"


def test_shares_of_the_way_to_clean():
    """Of seeds that all go half of the way, every draw of seeds does too; otherwise the interval holds the share."""
    corrupted, clean = {"0": 10.0, "1": 12.0, "2": 8.0}, {"0": 2.0, "1": 2.0, "2": 2.0}
    half = {"0": 6.0, "1": 7.0, "2": 5.0}
    assert shares(half, corrupted, clean) == {"ours": 50.0, "interval": [50.0, 50.0]}
    found = shares({**half, "2": 8.0}, corrupted, clean)
    assert found["ours"] == pytest.approx(100 * 9 / 24)
    assert found["interval"] == pytest.approx([0.0, 50.0]), (
        "one draw in 27 is the worst seed thrice, eight the two best"
    )
    assert shares({"0": 6.0}, corrupted, clean) == {"ours": 50.0, "interval": None}
    assert shares({}, corrupted, clean) == {"ours": None, "interval": None}
    assert shares(half, clean, clean)["ours"] is None


def test_a_row_stands_beside_the_free_front_at_its_own_accuracy():
    """At 89 % the front from (90, 10) to (88, 6) has 8: a row with 7 is beyond it by 1; above 90 % it stands at 10."""
    moved = {"how": "class-bias", "of": "uniform"}
    rows = [
        entry("uniform", [(90, 10, 3)] * 3),
        entry("class-bias-half", [(88, 6, 2)] * 3, moved=moved, spec=None),
        entry("class-bias", [(86, 4, 1)] * 3, moved=moved, spec=None),
        entry("learned", [(89, 7, 2), (91, 9.5, 2), (87, 5, 2)]),
        entry("other rows", [(89, 7, 2)] * 3, spec={"data": {"exemplar": "inside"}}),
    ]
    with_front(rows)
    assert rows[3]["beyond_front"]["mean"] == pytest.approx((-1 - 0.5 + 0) / 3)
    assert all("beyond_front" not in row for row in (*rows[:3], rows[4]))


@pytest.mark.parametrize("n", [10, 13, 14])
@pytest.mark.parametrize("grain", [0.0, 0.5, 2.0])
def test_seeds_that_tie_cost_no_time_and_have_the_p_value_of_scipy(n, grain):
    drawn = np.random.default_rng(n).normal(0.6, 1.0, n)
    apart = (np.round(drawn / grain) * grain if grain else drawn).tolist()
    assert signed_rank_p(apart) == pytest.approx(stats.wilcoxon(apart).pvalue, rel=1e-12)
    start = time.process_time()
    for _ in range(5):
        signed_rank_p(apart)
    assert time.process_time() - start < 0.25, "scipy's permutations take half a second each"
