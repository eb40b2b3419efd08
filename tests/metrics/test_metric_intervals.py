"""Intervals: against scipy, against a slow twin, and whether they hold the truth as often as they say."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from scipy.stats import binomtest, studentized_range

import fairweight.metrics as fm
from fairweight.metrics._tally import Tally, bootstrap
from fairweight.metrics.intervals import range_quantile, wilson, wilson_corrected
from fairweight.metrics.rates import Statistic


@pytest.mark.parametrize(("hits", "trials"), [(0, 5), (5, 5), (3, 7), (450, 1000), (1, 1)])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_rates_have_wilson_s_interval(hits, trials, level):
    expected = binomtest(hits, trials).proportion_ci(level, method="wilson")
    table = fm.group_table(
        [1] * trials, [1] * hits + [0] * (trials - hits), [0] * trials, intervals=fm.Intervals(level)
    )
    estimate = table.estimate("tpr", group=0)
    assert estimate.low == pytest.approx(expected.low, abs=1e-12)
    assert estimate.high == pytest.approx(expected.high, abs=1e-12)
    assert table.estimate("max_fnr").low == pytest.approx(1 - expected.high, abs=1e-12)  # of one group: its own
    assert table.estimate("max_fnr").high == pytest.approx(1 - expected.low, abs=1e-12)


@pytest.mark.parametrize(("hits", "trials"), [(0, 5), (5, 5), (3, 7), (1, 60)])
def test_far_tails_have_wilson_s_interval_with_continuity_correction(hits, trials):
    expected = binomtest(hits, trials).proportion_ci(0.99, method="wilsoncc")
    low, high = wilson_corrected(np.array([hits]), np.array([trials]), fm.Intervals(0.99).z)
    assert low[0] == pytest.approx(expected.low, abs=1e-12)
    assert high[0] == pytest.approx(expected.high, abs=1e-12)


@pytest.mark.parametrize("rows", [2, 3, 10, 100])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.999])
def test_all_pairs_at_once_take_tukey_s_quantile(rows, level):
    expected = studentized_range.ppf(level, rows, 1e6) / math.sqrt(2)
    assert range_quantile(level, rows) == pytest.approx(expected, rel=1e-4)


def test_two_groups_gap_is_newcombe_s_interval_of_the_signed_difference_folded_at_zero():
    labels = np.ones(160, dtype=int)
    groups = np.repeat([0, 1], [100, 60])
    predictions = np.concatenate([np.arange(100) < 80, np.arange(60) < 39]).astype(int)
    z = fm.Intervals().z
    low, high = wilson(np.array([80, 39]), np.array([100, 60]), z)
    difference = 0.8 - 0.65
    estimate = fm.group_table(labels, predictions, groups).estimate("tprd")
    assert estimate.low == pytest.approx(difference - math.hypot(0.8 - low[0], high[1] - 0.65), abs=1e-6)
    assert estimate.high == pytest.approx(difference + math.hypot(high[0] - 0.8, 0.65 - low[1]), abs=1e-6)
    equal = fm.group_table(labels, np.concatenate([np.arange(100) < 80, np.arange(60) < 47]).astype(int), groups)
    assert equal.estimate("tprd").low == 0.0


def coverage(rates, n, name, truth, *, repeats=200):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(len(rates)), n)
    labels = np.ones(len(groups), dtype=int)
    held = 0
    for seed in range(repeats):
        predictions = (rng.random(len(groups)) < np.asarray(rates)[groups]).astype(int)
        settings = fm.Intervals(draws=200, seed=seed)
        estimate = fm.group_table(labels, predictions, groups, intervals=settings).estimate(name)
        held += estimate.low - 1e-12 <= truth <= estimate.high + 1e-12
    return held / repeats


@pytest.mark.parametrize(
    ("rates", "n", "name", "truth"),
    [
        ([0.8, 0.8], 50, "tprd", 0.0),
        ([0.8, 0.6], 100, "tprd", 0.2),
        ([0.99, 0.97], 40, "tprd", 0.02),
        ([0.9] * 10, 50, "tprd", 0.0),
        ([0.8, 0.8, 0.6], 60, "max_fnr", 0.4),
        ([0.9] * 10, 50, "max_fnr", 0.1),
        ([0.9] * 10, 100, "tpr_std", 0.0),
        (list(np.linspace(0.6, 0.95, 8)), 100, "tpr_std", float(np.linspace(0.6, 0.95, 8).std())),
    ],
)
def test_intervals_hold_the_truth_as_often_as_they_say(rates, n, name, truth):
    assert coverage(rates, n, name, truth) >= 0.91  # 0.95 less 2.6 standard errors of 200 repeats


@pytest.mark.parametrize("name", ["tpr_std", "accuracy_std", "tpr_ratio", "selection_rate_ratio"])
@pytest.mark.parametrize("n", [30, 100])
def test_equal_pairs_are_called_unequal_as_seldom_as_they_say(name, n):
    """What a bootstrap draws from is never equal, so alone it says of equal groups too often that they are not."""
    assert coverage([0.8, 0.8], n, name, float(name.endswith("ratio")), repeats=200) >= 0.92  # 0.95 less 2 errors


@pytest.mark.slow
@pytest.mark.parametrize(("name", "equal"), [("f1_std", 0.0), ("f1_ratio", 1.0)])
def test_nor_are_equal_pairs_by_a_metric_of_the_caller(name, equal):
    """Their gap's interval holds 0 as often as it says, and a gap of 0 is a standard deviation of 0."""

    def f1(labels, predictions):
        return 2 * ((labels == 1) & (predictions == 1)).sum() / max(1, (labels == 1).sum() + (predictions == 1).sum())

    rng = np.random.default_rng(0)
    labels, groups = np.tile([0, 1], 160), np.repeat([0, 1], 160)
    held = 0
    for seed in range(100):
        predictions = (rng.random(320) < np.where(labels == 1, 0.8, 0.2)).astype(int)
        settings = fm.Intervals(draws=150, seed=seed)
        found = fm.group_table(labels, predictions, groups, metrics={"f1": f1}, intervals=settings).estimate(name)
        held += found.low <= equal <= found.high
    assert held / 100 >= 0.91  # 0.95 less 1.8 standard errors


@pytest.mark.slow
def test_draws_of_counts_are_distributed_as_draws_of_samples(monkeypatch):
    """The fast bootstrap (multinomial over distinct cells) against its slow twin (rows drawn again)."""
    monkeypatch.setattr(Tally, "smoothed", lambda self: (self, self.frequency.astype(float)))
    rng = np.random.default_rng(2)
    labels, groups = rng.integers(0, 3, 400), rng.integers(0, 2, 400)
    predictions = np.where(rng.random(400) < 0.7, labels, rng.integers(0, 3, 400))
    tally = fm.group_table(labels, predictions, groups).tally
    for name, strata in (("tprd", "cell"), ("selection_rate_gap", "group"), ("accuracy", "all")):
        statistic = Statistic.named(name)
        assert statistic.strata(by_label=False) == strata
        fast, centre = bootstrap(tally, lambda c, s=statistic: s(c[0]), fm.Intervals(draws=4000), strata)
        assert float(centre) == pytest.approx(fm.group_table(labels, predictions, groups).value(name))
        key = {"cell": groups * 3 + labels, "group": groups, "all": np.zeros(400, dtype=int)}[strata]
        members = [np.flatnonzero(key == value) for value in np.unique(key)]
        slow = []
        for _ in range(500):
            rows = np.concatenate([rng.choice(member, len(member)) for member in members])
            slow.append(fm.group_table(labels[rows], predictions[rows], groups[rows]).value(name))
        standard_error = np.std(slow) / math.sqrt(500)
        assert fast.mean() == pytest.approx(np.mean(slow), abs=4 * standard_error)
        assert fast.std() == pytest.approx(np.std(slow), rel=0.13)


def test_counts_of_drawn_frequencies_equal_counts_of_the_drawn_samples():
    rng = np.random.default_rng(4)
    groups, labels, predictions = rng.integers(0, 3, 200), rng.integers(0, 4, 200), rng.integers(0, 4, 200)
    tally = fm.group_table(labels, predictions, groups).tally
    rows = rng.integers(0, 200, (5, 200))
    cells = tally.members.T.tolist()
    frequency = np.zeros((5, len(cells)), dtype=np.int64)
    for draw in range(5):
        for row in rows[draw]:
            frequency[draw, cells.index([groups[row], labels[row], predictions[row]])] += 1
    fast = tally.counts(frequency)
    for draw in range(5):
        y, p, g = labels[rows[draw]], predictions[rows[draw]], groups[rows[draw]]
        for group in range(3):
            for label in range(4):
                assert fast.samples[draw, group, label] == ((g == group) & (y == label)).sum()
                assert fast.correct[draw, group, label] == ((g == group) & (y == label) & (p == label)).sum()
                assert fast.predicted[draw, group, label] == ((g == group) & (p == label)).sum()


def test_intervals_narrow_with_samples_and_widen_with_the_level():
    rng = np.random.default_rng(1)
    labels, groups = rng.integers(0, 2, 4000), rng.integers(0, 3, 4000)
    predictions = np.where(rng.random(4000) < 0.8, labels, 1 - labels)
    for name in ("tprd", "max_fnr", "accuracy", "equalised_odds_gap", "selection_rate_gap", "tpr_std"):

        def width(n, level, name=name):
            table = fm.group_table(labels[:n], predictions[:n], groups[:n], intervals=fm.Intervals(level))
            estimate = table.estimate(name)
            return estimate.high - estimate.low

        assert width(4000, 0.95) < width(400, 0.95) < width(400, 0.99)


def test_no_draws_leave_bootstrapped_intervals_open():
    table = fm.group_table(
        [0, 1, 1, 0], [0, 1, 0, 0], [0, 0, 1, 1], metrics={"one": lambda y, p: 1.0}, intervals=fm.Intervals(draws=0)
    )
    assert math.isnan(table.estimate("tpr_std").low)
    assert math.isnan(table.estimate("one").low)
    assert math.isnan(table.estimate("one_gap").low)
    assert not math.isnan(table.estimate("tprd").low)
    assert str(table.estimate("one")) == "1.000"


def test_sixty_thousand_samples_take_well_under_a_second():
    rng = np.random.default_rng(0)
    labels, groups = rng.integers(0, 2, 60_000), rng.integers(0, 10, 60_000)
    predictions = np.where(rng.random(60_000) < 0.8, labels, 1 - labels)
    start = time.process_time()  # other processes on the machine take none of it
    fm.group_table(labels, predictions, groups).to_dict()
    assert time.process_time() - start < 0.8
