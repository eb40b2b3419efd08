"""The two tests behind the verdicts, against scipy, and each of the four words."""

import math

import pytest
from scipy import stats

from fairweight.paper.published import Printed
from fairweight.paper.verdict import judge
from fairweight.runs.statistics import Mean, paired


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
    assert unsure["verdict"] == "too few seeds to say"
    assert "these seeds" in unsure["why"]


def test_higher_is_better_for_accuracy():
    printed = Printed(95.25, 0.03, 30)
    assert judge(Mean(96.5, 0.05, 5), printed, better="higher", margin=0.5)["verdict"] == "better"
    assert judge(Mean(94.0, 0.05, 5), printed, better="higher", margin=0.5)["verdict"] == "worse"


def test_one_seed_says_nothing():
    found = judge(Mean.of([1.0]), Printed(8.79, 0.14, 30), better="lower")
    assert found["verdict"] == "too few seeds to say"
    assert found["reach"] is None


@pytest.mark.parametrize("values", [[11.0, 11.0], [0.3, 0.1 + 0.2, 0.3]])
def test_seeds_that_are_all_alike_say_as_little(values):
    found = judge(Mean.of(values), Printed(values[0], 0.14, 30), better="lower")
    assert found["verdict"] == "too few seeds to say"
    assert "no spread" in found["why"]


def test_unsure_printed_numbers_are_named_as_the_reason():
    """No number of our seeds makes up for five printed runs that spread widely."""
    found = judge(Mean(22.0, 0.01, 500), Printed(22.32, 1.7, 5), better="lower")
    assert found["verdict"] == "too few seeds to say"
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
