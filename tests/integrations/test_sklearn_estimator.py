"""FairweightClassifier keeps scikit-learn's conventions, alone and inside other people's tools."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator
from torch import nn

import fairweight as fw
from fairweight.errors import BadInput, OneGroup, UnknownName

EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "batches are drawn at random: a sample that is there twice meets "
    "other samples than one with a weight of 2, so the two agree in the mean and not to the last digit",
}


# What a model that was trained too briefly could hide; the other checks look at what comes before and after training.
TRAINED_WELL = (
    *("check_classifiers_train", "check_classifiers_classes", "check_fit_idempotent", "check_estimators_pickle"),
    *("check_methods_sample_order_invariance", "check_methods_subset_invariance", "check_fit2d_1feature"),
)


def own_checks():
    """scikit-learn's checks; how an array arrives is left to the quick estimator, for both read it alike."""
    judged, quick = fw.FairweightClassifier(epochs=6, lr=0.03), fw.FairweightClassifier(method="uniform", epochs=20)
    yield from estimator_checks_generator(quick, expected_failed_checks=EXPECTED, mark="xfail")
    briefly = clone(judged).set_params(epochs=1)
    for every, few in zip(*(estimator_checks_generator(e, expected_failed_checks=EXPECTED, mark="xfail")
                            for e in (judged, briefly)), strict=True):  # fmt: skip
        check = getattr(every, "values", every)[1]
        if "readonly_memmap" not in check.keywords:
            yield every if check.func.__name__ in TRAINED_WELL else few


def named(value) -> str:
    return value.func.__name__ if isinstance(value, partial) else value.method or "judged"


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "check"), list(own_checks()), ids=named)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def people(size: int = 300, seed: int = 0):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], size)
    y = rng.choice(["no", "yes"], size)
    x = rng.normal(size=(size, 4))
    x[:, 0] += 2 * (y == "yes")
    x[:, 1] += group == "b"
    return x, y, group


def quick(**options) -> fw.FairweightClassifier:
    return fw.FairweightClassifier(**{"method": "forml", "epochs": 5, "random_state": 0, **options})


def test_fitted_attributes():
    x, y, group = people()
    found = quick().fit(x, y, sensitive_features=group)
    assert found.classes_.tolist() == ["no", "yes"]
    assert found.groups_ == ("a", "b")
    assert found.sample_weights_.shape == (300,)
    assert found.sample_weights_.mean() == pytest.approx(1.0)
    assert found.sample_weights_.std() > 0
    assert found.scores_.shape == (300,)
    trained = np.nonzero(~np.isnan(found.scores_))[0]
    assert found.score_path_.shape == (5, len(trained))
    np.testing.assert_array_equal(found.score_path_rows_, trained)
    np.testing.assert_allclose(found.score_path_[-1], found.scores_[trained], atol=2e-3)  # kept in half precision
    assert found.n_iter_ == 5
    assert found.predict_proba(x).sum(axis=1) == pytest.approx(np.ones(300))
    assert found.score(x, y) > 0.8


def test_methods_without_scores_have_even_weights_and_no_path():
    x, y, _ = people()
    found = quick(method="uniform").fit(x, y)
    np.testing.assert_array_equal(found.sample_weights_, np.ones(300))
    assert found.scores_ is None
    assert found.score_path_ is None


def test_samples_kept_out_have_the_mean_weight_of_their_cell():
    x, y, group = people(1200)
    found = quick().fit(x, y, sensitive_features=group)
    out = np.isnan(found.scores_)
    assert 200 <= out.sum() <= 260  # for validation and as exemplars
    for cell in np.unique(np.char.add(y, group)):
        member = np.char.add(y, group) == cell
        expected = found.sample_weights_[member & ~out].mean()
        np.testing.assert_allclose(found.sample_weights_[member & out], expected)
    assert not set(found.score_path_rows_) & set(np.nonzero(out)[0])
    assert not np.isnan(quick(validation_fraction=0, exemplar_inside=True).fit(x, y).scores_).any()


def test_the_share_of_exemplars_still_works_and_says_what_replaces_it():
    x, y, group = people()
    with pytest.warns(FutureWarning, match="exemplar_size"):
        found = quick(exemplar_fraction=0.2, validation_fraction=0).fit(x, y, sensitive_features=group)
    assert not np.isnan(found.scores_).any()
    named = quick(exemplar_size=15, exemplar_inside=True, validation_fraction=0).fit(x, y, sensitive_features=group)
    np.testing.assert_array_equal(found.scores_, named.scores_)


def test_the_seed_decides_and_torchs_own_stream_is_left_alone():
    x, y, group = people()
    torch.manual_seed(7)
    before = torch.get_rng_state()
    one = quick().fit(x, y, sensitive_features=group)
    assert torch.equal(torch.get_rng_state(), before)
    threads = torch.get_num_threads()
    two = quick().fit(x, y, sensitive_features=group)
    assert torch.get_num_threads() == threads
    np.testing.assert_array_equal(one.predict_proba(x), two.predict_proba(x))
    np.testing.assert_array_equal(one.sample_weights_, two.sample_weights_)
    other = quick(random_state=1).fit(x, y, sensitive_features=group)
    assert not np.array_equal(one.predict_proba(x), other.predict_proba(x))


@pytest.mark.parametrize("size", [4, 7, 20])
def test_small_data_and_tiny_batches(size):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(size, 2)), np.arange(size) % 2
    found = quick(batch_size=1, epochs=2).fit(x, y, sensitive_features=np.arange(size) // 2 % 2)
    assert np.isfinite(found.predict_proba(x)).all()


class Net(nn.Module):
    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, classes))

    def forward(self, x):
        return self.layers(x)


def one_logit() -> nn.Module:
    return nn.Linear(4, 1)


@pytest.mark.parametrize("module", [Net, one_logit, nn.Linear(4, 2)])
def test_any_module(module):
    x, y, group = people()
    before = {k: v.clone() for k, v in module.state_dict().items()} if isinstance(module, nn.Module) else {}
    found = quick(module=module, lr=0.05).fit(x, y, sensitive_features=group)
    assert found.score(x, y) > 0.8
    assert found.predict_proba(x).shape == (300, 2)
    assert all(torch.equal(value, module.state_dict()[key]) for key, value in before.items())
    assert pickle.loads(pickle.dumps(found)).score(x, y) == found.score(x, y)  # noqa: S301 - our own bytes


class Pictures(nn.Module):
    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, classes))

    def forward(self, x):
        return self.layers(x)


def test_images_with_a_module_of_ones_own():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = rng.normal(size=(60, 1, 6, 6)) + y[:, None, None, None]
    assert quick(module=Pictures, epochs=20).fit(x, y).score(x, y) > 0.6


def test_groups_may_be_a_frame_and_may_be_missing():
    x, y, group = people()
    frame = pd.DataFrame({"group": group, "old": np.arange(300) % 2 > 0})
    found = quick().fit(x, y, sensitive_features=frame)
    assert found.groups_ == ("a & False", "a & True", "b & False", "b & True")
    partly = pd.Series(group).where(np.arange(300) % 3 > 0)
    assert quick().fit(x, y, sensitive_features=partly).groups_ == ("a", "b")


def test_groups_on_a_trusted_set_alone():
    x, y, group = people()
    trusted = people(60, seed=1)
    found = quick().fit(x, y, exemplar=trusted)
    assert found.groups_ == ("a", "b")
    assert found.sample_weights_.std() > 0
    assert quick().fit(x, y, sensitive_features=group, exemplar=trusted).groups_ == ("a", "b")


@pytest.mark.slow
def test_given_weights_count():
    x, y, group = people()
    rng = np.random.default_rng(3)
    wrong = rng.random(300) < 0.45
    noisy = np.where(wrong, np.where(y == "yes", "no", "yes"), y)
    asked = quick(epochs=40, validation_fraction=0)  # validation has wrong labels, too
    trusting = asked.fit(x, noisy, sensitive_features=group).score(x, y)
    told = asked.fit(x, noisy, sensitive_features=group, sample_weight=~wrong).score(x, y)
    assert told > trusting
    plain = quick(method="uniform").fit(x, y)
    same = quick(method="uniform").fit(x, y, sample_weight=np.full(300, 5.0))
    np.testing.assert_allclose(plain.predict_proba(x), same.predict_proba(x), atol=1e-6)


@pytest.mark.parametrize(
    "learner", ["linear", *(pytest.param(name, marks=pytest.mark.slow) for name in ("trees", "mlp"))]
)
def test_given_weights_count_where_the_best_of_several_is_taken(learner):
    x, y, group = people()
    wrong = (y == "yes") & (np.random.default_rng(3).random(300) < 0.7)
    noisy = np.where(wrong, "no", y)
    asked = fw.FairweightClassifier(learner=learner, epochs=20, random_state=0)
    trusting = asked.fit(x, noisy, sensitive_features=group).predict_proba(x)
    right = asked.score(x, y)
    told = asked.fit(x, noisy, sensitive_features=group, sample_weight=~wrong)
    assert told.search_ is not None
    assert told.chosen_.endswith(f"({learner})")
    assert told.score(x, y) > right + 0.05
    same = asked.fit(x, noisy, sensitive_features=group, sample_weight=np.full(300, 5.0)).predict_proba(x)
    np.testing.assert_allclose(same, trusting, atol=1e-6)


@pytest.mark.slow
def test_pipeline_grid_search_and_cross_validation():
    x, y, group = people()
    pipe = make_pipeline(StandardScaler(), quick(epochs=2))
    pipe.fit(x, y, fairweightclassifier__sensitive_features=group)
    assert pipe[-1].groups_ == ("a", "b")
    search = GridSearchCV(quick(epochs=2), {"lr": [1e-3, 1e-2]}, cv=2).fit(x, y, sensitive_features=group)
    assert search.best_estimator_.groups_ == ("a", "b")
    assert len(search.best_estimator_.sample_weights_) == 300
    scores = cross_val_score(quick(epochs=2), x, y, cv=2, params={"sensitive_features": group})
    assert scores.shape == (2,)
    assert clone(quick(lr=0.5)).lr == 0.5


@pytest.mark.slow
def test_metadata_routing_passes_the_groups_on():
    x, y, group = people()
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(StandardScaler(), quick(epochs=2)).fit(x, y, sensitive_features=group)
        search = GridSearchCV(quick(epochs=2), {"lr": [1e-3]}, cv=2).fit(x, y, sensitive_features=group)
        cross_val_score(quick(epochs=2), x, y, cv=2, params={"sensitive_features": group})
    assert pipe[-1].groups_ == search.best_estimator_.groups_ == ("a", "b")


@pytest.mark.filterwarnings("ignore:Setting a")  # fairlearn's own, of pandas
def test_fairlearns_metric_frame_and_reductions():
    metrics = pytest.importorskip("fairlearn.metrics", reason="fairlearn is an extra")
    reductions = pytest.importorskip("fairlearn.reductions", reason="fairlearn is an extra")
    x, y, group = people()
    found = quick().fit(x, y, sensitive_features=group)
    frame = metrics.MetricFrame(
        metrics=lambda t, p: (t == p).mean(), y_true=y, y_pred=found.predict(x), sensitive_features=group
    )
    table = fw.group_table(y, found.predict(x), group)
    assert frame.by_group["a"] == pytest.approx(table.by_group("accuracy")["a"])
    parity = reductions.TruePositiveRateParity()
    reduced = reductions.ExponentiatedGradient(quick(method="uniform", epochs=2), parity, max_iter=2)
    assert len(reduced.fit(x, (y == "yes").astype(int), sensitive_features=group).predict(x)) == 300


@pytest.mark.slow
def test_weights_lower_the_gap_that_the_exemplars_show():
    rng = np.random.default_rng(0)
    x, y, group = people(2000)
    x[:, 0] *= 0.6
    hidden = (y == "yes") & (group == "b") & (rng.random(2000) < 0.5)
    recorded = np.where(hidden, "no", y)
    new_x, new_y, new_group = people(2000, seed=5)
    new_x[:, 0] *= 0.6
    trusted = people(200, seed=6)
    trusted[0][:, 0] *= 0.6

    def gap(model):
        model.fit(x, recorded, sensitive_features=group, exemplar=trusted)
        return fw.group_table(new_y, model.predict(new_x), new_group, positive="yes").tprd

    assert gap(quick(epochs=15)) < 0.6 * gap(quick(method="uniform", epochs=15))


@pytest.mark.parametrize(
    ("options", "fitted", "error", "words"),
    [
        ({"method": "formal"}, {}, UnknownName, "is not one of fairweight's methods"),
        ({"objective": "meen"}, {}, UnknownName, "objectives"),
        ({"method_options": {"tye": "cell"}}, {}, UnknownName, "has no option 'tye'"),
        ({"optimizer": "adamm"}, {}, UnknownName, "choose sgd, adam or adamw"),
        ({"module": lambda features, classes: "net"}, {}, BadInput, "not a torch.nn.Module"),
        ({"epochs": 0}, {}, BadInput, "epochs=0"),
        ({"batch_size": 0}, {}, BadInput, "batch_size=0"),
        ({"patience": -1}, {}, BadInput, "patience=-1"),
        ({"hidden": (64, 0)}, {}, BadInput, "each from 1"),
        ({"hidden": 64}, {}, BadInput, r"such as \(64, 64\)"),
        ({"hidden": ("a",)}, {}, BadInput, r"such as \(64, 64\)"),
        ({"criterion": 3}, {}, BadInput, "criterion=3.*give a name, or None"),
        ({"bound": "x"}, {}, BadInput, "bound=x.*give a number from 0 to 100, or None"),
        ({"budget": [2]}, {}, BadInput, r"budget=\[2\]"),
        ({"learner": np.ones(2)}, {}, BadInput, "learner="),
        ({"device": 0}, {}, BadInput, "device=0"),
        ({"module": "net"}, {}, BadInput, "module=net.*give a model, or what makes one"),
        ({"method_options": ("tie",)}, {}, BadInput, "method_options="),
        ({"exemplar_fraction": 0}, {}, BadInput, "exemplar_fraction=0"),
        ({}, {"sensitive_features": ["a"] * 300}, OneGroup, "one group only"),
        ({}, {"sensitive_features": [None] * 300}, BadInput, "sensitive_features"),
        ({}, {"sensitive_features": ["a"] * 3}, ValueError, "inconsistent numbers of samples"),
        ({}, {"sample_weight": np.zeros(300)}, ValueError, "non-zero number|0 for every sample"),
        ({}, {"exemplar": (1,)}, BadInput, "a tuple"),
    ],
)
def test_bad_input_is_one_sentence(options, fitted, error, words):
    x, y, _ = people()
    with pytest.raises(error, match=words):
        quick(**options).fit(x, y, **fitted)


def test_labels_of_the_trusted_set_must_be_known():
    x, y, group = people()
    with pytest.raises(BadInput, match="holds the label 'maybe'"):
        quick().fit(x, y, exemplar=(x[:4], ["yes", "no", "maybe", "no"], group[:4]))


def test_the_scale_comes_from_training_samples_alone():
    x, y, group = people(1200)
    trusted = people(60, seed=1)
    first = quick(epochs=1).fit(x, y, sensitive_features=group, exemplar=trusted)
    out = np.isnan(first.scores_)
    x[out] *= 1000  # samples kept out for validation
    again = quick(epochs=1, patience=1).fit(x, y, sensitive_features=group, exemplar=trusted)
    np.testing.assert_array_equal(first.scores_, again.scores_)


def test_a_group_that_only_the_trusted_set_has_is_a_group():
    x, y, group = people()
    trusted = (x[:60], y[:60], np.resize(["a", "b", "c"], 60))
    assert quick(epochs=1).fit(x, y, sensitive_features=group, exemplar=trusted).groups_ == ("a", "b", "c")


@pytest.mark.parametrize("kind", ["string", "Int64", "float"])
def test_groups_may_be_missing_in_every_way_that_pandas_has(kind):
    x, y, _ = people()
    values = pd.Series([None if k % 7 == 0 else k % 2 for k in range(len(y))], dtype=kind)
    trusted = (x[:60], y[:60], np.arange(60) % 2)
    found = quick(epochs=1).fit(x, y, sensitive_features=values, exemplar=trusted)
    assert found.groups_ == ("0", "1"), "one spelling, so that 1.0 there and 1 here are one group"


@pytest.mark.slow
def test_large_numbers_with_small_differences_are_told_apart():
    draw = np.random.default_rng(0)
    x = draw.normal(size=(400, 1))
    y = x[:, 0] > 0
    seconds = 1.7e9 + 50 * x  # a time of day, as many tables have it: single precision is 128 seconds coarse there
    assert quick(epochs=20).fit(seconds, y).score(seconds, y) > 0.95
