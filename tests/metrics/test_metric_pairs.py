"""Two models on the same samples, and what equal groups would show."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fairweight.metrics as fm
from fairweight.errors import BadInput, UnknownName


def two_models(rates_a, rates_b, n, seed, shared=0.8):
    """Positives of each group, with predictions of two models that agree on many samples."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(rates_a)), n)
    first = rng.random(len(groups))
    second = np.where(rng.random(len(groups)) < shared, first, rng.random(len(groups)))
    predictions = [
        (draw < np.asarray(rates)[groups]).astype(int) for draw, rates in ((first, rates_a), (second, rates_b))
    ]
    return np.ones(len(groups), dtype=int), *predictions, groups


def paired(labels, a, b, groups=None, metric="tprd", **options):
    """The comparison of two tables, which know a label that only one model predicts by its name."""
    names = [f"label {k}" for k in range(1 + max(*labels, *a, *b, 1))]
    return fm.compare(*(fm.group_table(labels, said, groups, label_names=names, **options) for said in (a, b)), metric)


def test_the_difference_is_b_minus_a():
    labels, a, b, groups = two_models([0.9, 0.6], [0.85, 0.8], 500, 0)
    for metric in ("tprd", "max_fnr", "accuracy", "accuracy_gap", "tpr_std", "selection_rate_gap"):
        found = paired(labels, a, b, groups, metric)
        tables = [fm.group_table(labels, predictions, groups) for predictions in (a, b)]
        assert (found.a, found.b) == tuple(table.value(metric) for table in tables)
        assert found.value == found.b - found.a
        assert found.low < found.value < found.high
        back = fm.compare(tables[1], tables[0], metric)
        assert back.value == -found.value


def test_a_large_change_is_beyond_its_interval_and_no_change_is_not():
    labels, a, b, groups = two_models([0.9, 0.6], [0.85, 0.8], 500, 0)
    found = paired(labels, a, b, groups)
    assert found.beyond_interval
    assert "larger than chance" in str(found)
    assert "no larger" not in str(found)
    same = paired(labels, a, a, groups)
    assert same.value == 0.0
    assert not same.beyond_interval
    assert "no larger than chance in 1000 samples explains" in str(same)


@pytest.mark.parametrize(
    ("rates_a", "rates_b", "n"),
    [
        ([0.8, 0.8], [0.8, 0.8], 100),
        ([0.8, 0.6], [0.85, 0.65], 200),
        ([0.9] * 10, [0.9] * 10, 100),
        ([0.8, 0.7], [0.8, 0.7], 6),
    ],
)
def test_equal_gaps_are_rarely_called_different(rates_a, rates_b, n):
    called = sum(
        paired(*two_models(rates_a, rates_b, n, seed), intervals=fm.Intervals(draws=200)).beyond_interval
        for seed in range(150)
    )
    assert called / 150 <= 0.10  # 0.05 and 2.8 standard errors of 150 repeats


def test_real_changes_are_mostly_found():
    found = sum(
        paired(*two_models([0.85, 0.6], [0.8, 0.75], 500, seed), intervals=fm.Intervals(draws=200)).beyond_interval
        for seed in range(60)
    )
    assert found / 60 > 0.9


def test_one_sample_proves_nothing():
    found = paired([1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 1])
    assert found.value == -1.0
    assert not found.beyond_interval


def test_pairing_narrows_the_interval():
    widths = []
    for shared in (0.0, 0.95):
        found = paired(*two_models([0.9, 0.7], [0.9, 0.7], 500, 1, shared))
        widths.append(found.high - found.low)
    assert widths[1] < 0.7 * widths[0]


def test_labels_that_only_one_model_predicts():
    labels = np.array([0, 1, 0, 1, 0, 1])
    found = paired(labels, [0, 1, 0, 1, 0, 2], [0, 1, 0, 0, 0, 1], [0, 0, 0, 1, 1, 1], "accuracy")
    assert found.value == 0.0
    by_label = paired(labels, [0, 1, 0, 1, 0, 2], labels)
    assert by_label.a == pytest.approx(1 / 3)
    with pytest.raises(BadInput, match="label_names"):
        fm.compare(fm.group_table(labels, [0, 1, 0, 1, 0, 2]), fm.group_table(labels, labels))
    with pytest.raises(BadInput, match=r"^predictions has shape .*argmax"):
        fm.group_table(labels, np.eye(6), [0, 0, 0, 1, 1, 1])
    with pytest.raises(BadInput, match="same samples"):
        fm.compare(fm.group_table([0, 1], [0, 1], [0, 1]), fm.group_table([0, 1], [0, 1], [1, 0]))


def test_a_difference_of_shares_never_reaches_beyond_one():
    labels, groups = [1] * 12, list("aaaaaabbbbbb")
    before = fm.group_table(labels, [0] * 6 + [1] * 6, groups)
    after = fm.group_table(labels, [1] * 11 + [0], groups)
    found = fm.compare(before, after, "max_fnr")
    assert found.value < -0.8
    assert found.low == -1.0  # the noise of so few samples alone would carry it further


def test_own_metrics_are_paired_too():
    labels, a, b, groups = two_models([0.9, 0.6], [0.9, 0.85], 200, 0)
    metrics = {"hits": lambda y, p: float(np.mean(p))}
    settings = fm.Intervals(draws=100)
    for metric in ("hits", "hits_gap"):
        found = paired(labels, a, b, groups, metric, metrics=metrics, intervals=settings)
        assert found.low < found.value < found.high
        same = paired(labels, a, a, groups, metric, metrics=metrics, intervals=settings)
        assert (same.value, same.low, same.high) == (0.0, 0.0, 0.0)
    with pytest.raises(UnknownName, match="hits"):
        paired(labels, a, b, groups, "hits")


def test_what_cannot_be_estimated_is_said():
    found = paired([1, 1], [1, 0], [1, 1], [0, 0])
    assert math.isnan(found.value)
    assert not found.beyond_interval
    assert "cannot be estimated" in str(found)


@pytest.mark.parametrize(
    ("classes", "n", "rate", "tprd", "max_fnr"), [(100, 100, 0.778, 0.207, 0.331), (10, 1000, 0.9525, 0.021, 0.058)]
)
def test_noise_floor_of_equal_classes(classes, n, rate, tprd, max_fnr):
    floor = fm.noise_floor([n] * classes, rate)
    assert floor.tprd.value == pytest.approx(tprd, abs=0.002)
    assert floor.max_fnr.value == pytest.approx(max_fnr, abs=0.002)
    shrink = math.sqrt(2 / classes) * math.exp(math.lgamma(classes / 2) - math.lgamma((classes - 1) / 2))
    assert floor.tpr_std.value == pytest.approx(shrink * math.sqrt(rate * (1 - rate) / n), rel=0.03)
    assert floor.tprd.low < floor.tprd.value < floor.tprd.high


def test_noise_floor_of_a_table_pools_each_label_over_the_groups():
    labels = np.repeat([0, 1], [400, 200])
    predictions = np.concatenate([np.arange(400) % 10 < 9, np.arange(200) % 10 >= 5]).astype(int) ^ 1
    predictions[400:] ^= 1
    groups = np.arange(600) % 2
    table = fm.group_table(labels, predictions, groups, label_names=["a", "b", "c"])
    floor = table.noise_floor()
    rates = [np.mean(predictions[labels == label] == label) for label in (0, 1)]
    expected = fm.noise_floor(np.array([[200, 100], [200, 100]]), rates)
    assert floor.tprd.value == pytest.approx(expected.tprd.value, abs=0.01)
    assert floor.tprd.n == 600
    alone = fm.group_table([1, 0], [1, 0], ["a", "a"]).noise_floor()
    assert math.isnan(alone.tprd.value)
    assert alone.max_fnr.value == 0.0
    for n, rate in (([], 0.5), ([-1], 0.5), ([5], 1.5)):
        with pytest.raises(BadInput, match="noise_floor"):
            fm.noise_floor(n, rate)
