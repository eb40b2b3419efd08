"""Trees stored as arrays predict what scikit-learn predicts, and a run of them is a run."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from tests.tables import people

from fairweight.apps.train import TrainRequest, prepare, train
from fairweight.data import load
from fairweight.runs import trees
from fairweight.runs.build import network_for
from fairweight.runs.folder import RunFolder
from fairweight.runs.linear import fit_linear
from fairweight.runs.run import run
from fairweight.runs.spec import Spec
from fairweight.runs.trees import columns_of, fit_trees
from fairweight.training.predict import logits


def chances(module, part):
    return module(part.inputs).softmax(dim=-1).numpy()


def staged(module, part):
    return module.staged(part.inputs).softmax(dim=-1).numpy()


@pytest.mark.parametrize("label", ["income", "job"])
def test_the_module_equals_scikit_learn(label, tmp_path, monkeypatch):
    monkeypatch.setattr(trees, "installed_library", lambda: "scikit-learn")
    data = load(people(600), label=label, group="sex")
    module, _ = fit_trees(data.train, None, data, 30)
    train, test = (part.inputs.double().numpy() @ module.mix.numpy() for part in (data.train, data.test))
    assert max(len(np.unique(column)) for column in train.T) > 255, "some columns have more values than bins"
    theirs = HistGradientBoostingClassifier(
        max_iter=30, max_leaf_nodes=15, early_stopping=False, random_state=0
    )  # fmt: skip
    grown = np.stack(list(theirs.fit(train, data.train.labels.numpy()).staged_predict_proba(test)))
    np.testing.assert_allclose(chances(module, data.test), grown[-1], atol=1e-12)
    np.testing.assert_allclose(staged(module, data.test), grown, atol=1e-12)
    folder = RunFolder(tmp_path)
    folder.write_model(module)
    again = network_for(data.preprocessing, trees.network_of(module))
    folder.read_model(again)
    torch.testing.assert_close(again(data.test.inputs), module(data.test.inputs), rtol=0, atol=0)


def test_with_weights_the_bins_stay_those_of_rows_that_count_alike(monkeypatch):
    monkeypatch.setattr(trees, "installed_library", lambda: "scikit-learn")
    data = load(people(600), label="income", group="sex")
    weights = torch.rand(len(data.train), generator=torch.Generator().manual_seed(0)) + 0.5
    module, boosted = fit_trees(data.train, weights, data, 30)
    train, test = (part.inputs.double().numpy() @ module.mix.numpy() for part in (data.train, data.test))
    edges = [trees._edges(column) for column in train.T]
    theirs = boosted.predict_proba(trees.binned(test, edges))
    np.testing.assert_allclose(chances(module, data.test), theirs, atol=1e-12)


@pytest.mark.parametrize("label", ["income", "job"])
def test_the_module_equals_lightgbm(label):
    pytest.importorskip("lightgbm", reason="trees are scikit-learn's without LightGBM")
    data = load(people(600), label=label, group="sex")
    module, boosted = fit_trees(data.train, None, data, 30)
    train, test = (part.inputs.double().numpy() @ module.mix.numpy() for part in (data.train, data.test))
    columns = trees.binned(test, [trees._edges(column) for column in train.T])
    for turn in (1, 30):
        said = boosted.predict(columns, num_iteration=turn)
        expected = np.stack([1 - said, said], axis=1) if len(data.label_names) == 2 else said
        np.testing.assert_allclose(staged(module, data.test)[turn - 1], expected, atol=1e-9)


def test_a_class_that_no_row_has_is_never_predicted():
    data = load(people(600), label="job", group="sex")
    module, _ = fit_trees(data.train.take(data.train.labels != 1), None, data, 10)
    found = chances(module, data.test)
    assert found.shape[1] == len(data.label_names)
    assert found[:, 1].max() < 1e-6
    np.testing.assert_allclose(staged(module, data.test)[-1], found, atol=1e-12)


def test_one_column_per_category_orders_its_values_by_their_share_of_positives():
    data = load(people(600), label="income", group="sex")
    module, _ = fit_trees(data.train, None, data, 5)
    assert module.mix.shape == (data.input_shape[0], len(data.preprocessing.columns))
    block = next((a, b) for a, b in columns_of(data) if b - a > 1)
    inputs, labels = data.train.inputs[:, slice(*block)].numpy(), data.train.labels.numpy()
    share = [labels[inputs[:, k] == 1].mean() for k in range(inputs.shape[1])]
    place = next(k for k, one in enumerate(columns_of(data)) if one == block)
    assert np.argsort(share).tolist() == np.argsort(module.mix.numpy()[slice(*block), place]).tolist()


def test_weights_move_the_trees():
    data = load(people(600), label="income", group="sex")
    heavy = torch.where(data.train.labels == 1, 5.0, 1.0)
    plain, more = (chances(fit_trees(data.train, w, data, 20)[0], data.test)[:, 1].mean() for w in (None, heavy))
    assert more > plain + 0.05


def test_a_spec_with_trees_becomes_a_run(tmp_path):
    people(500).to_csv(tmp_path / "p.csv", index=False)
    spec = Spec(str(tmp_path / "p.csv"), "income", "sex", network={"name": "trees"}, method="reweighing", epochs=20)
    done = run(spec, tmp_path / "run")
    assert done.metrics["accuracy"] > 0.6
    model = network_for(done.folder.read_preprocessing(), done.folder.read_spec().network)
    done.folder.read_model(model)
    said, _, _ = done.folder.read_logits("test")
    data = load(str(tmp_path / "p.csv"), label="income", group="sex")
    torch.testing.assert_close(logits(model, data.test), said)
    assert done.folder.read_weights()["weight"].nunique() == 4
    assert run(spec, tmp_path / "run").reused


@pytest.mark.parametrize("learner", ["linear", "trees"])
def test_a_delivered_model_is_trained_again_by_its_own_spec(learner, tmp_path):
    people(500).to_csv(tmp_path / "p.csv", index=False)
    wanted = TrainRequest(
        str(tmp_path / "p.csv"), "income", "sex", learner=learner, candidates=("reweighing",), budget=20
    )
    train(prepare(wanted), tmp_path / "run")
    for part in (tmp_path / "run", tmp_path / "run" / "uniform"):
        if part.exists():
            first = RunFolder(part)
            again = run(first.read_spec(), tmp_path / f"{part.name} again").folder
            chances, same = (one.read_logits("test")[0].softmax(dim=-1) for one in (first, again))
            assert float((chances - same).abs().max()) < 0.02  # columns are scaled by all rows now, not by train's
            assert again.read_weights()["ema_loss"].notna().all()


def test_the_linear_learner_is_scikit_learn_s_regression():
    data = load(people(600), label="income", group="sex")
    weights = torch.rand(len(data.train), generator=torch.Generator().manual_seed(1)) + 0.2
    ours = fit_linear(data.train, weights)
    x, y = data.train.inputs.double().numpy(), data.train.labels.numpy()
    theirs = LogisticRegression(C=1.0, max_iter=2000, tol=1e-10).fit(x, y, sample_weight=weights.double().numpy())
    np.testing.assert_allclose(ours.layers[-1].weight[1].detach().numpy(), theirs.coef_[0], atol=1e-3)
    alone = fit_linear(data.train.take(data.train.labels == 1), None)  # a fold may lack a class
    assert bool((alone(data.test.inputs).argmax(dim=1) == 1).all())
