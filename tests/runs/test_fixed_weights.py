"""A second training with the weights that other runs have learned."""

import hashlib
import math

import pandas as pd
import pytest
import torch

from fairweight.errors import BadInput, MissingData
from fairweight.runs.folder import WEIGHTS, RunFolder
from fairweight.runs.other_runs import filled_by_cell, learned_weights, prerequisites
from fairweight.runs.pool import run_all
from fairweight.runs.run import run
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import dataset_for


@pytest.fixture
def learner(tiny):
    """FORML with exemplars held out."""
    step = {"name": "adaptive", "rate": 0.3}
    return tiny.with_(method="forml", method_options={"tie": "label", "score_step": step})


@pytest.fixture
def again(tiny, learner):
    """The second training, on all rows."""
    data = {**tiny.data, "exemplar": {**tiny.data["exemplar"], "inside": True}}
    return tiny.with_(data=data, method="given", weights={"runs": [learner.to_dict()]})


def test_each_row_keeps_its_weight_and_exemplars_count_like_their_label(learner, again, tmp_path):
    run(learner, tmp_path / learner.folder_name)
    dataset = dataset_for(again)
    found = learned_weights(dataset, again, tmp_path)
    table = RunFolder(tmp_path / learner.folder_name).read_weights()
    first = dict(zip(table["row"], table["weight"], strict=True))
    means = table.groupby(table["label"].astype(str))["weight"].mean()
    held = 0
    for row, label, weight in zip(dataset.rows["train"].tolist(), dataset.train.labels.tolist(), found, strict=True):
        held += row not in first
        assert float(weight) == pytest.approx(first.get(row, means[dataset.label_names[label]]), rel=1e-6)
    assert held == len(dataset_for(learner).exemplar) > 0
    assert table["weight"].std() > 0.01


def test_both_trainings_in_one_pool_the_first_one_first(learner, again, tmp_path):
    assert prerequisites(again) == (learner,)
    outcomes = run_all([again], tmp_path, jobs=1)
    assert [outcome.spec for outcome in outcomes.values()] == [learner, again]
    assert not any(outcome.error for outcome in outcomes.values())
    kept = RunFolder(tmp_path / again.folder_name).read_weights()
    dataset = dataset_for(again)
    wanted = learned_weights(dataset, again, tmp_path)
    weights = torch.tensor(kept["weight"].to_numpy())
    assert torch.allclose(weights.double(), wanted / wanted.mean(), rtol=1e-5)


def test_cells_without_a_weight_take_their_labels():
    """By hand: label and group where that cell has one, else the label, else all."""
    labels, groups = torch.tensor([0, 0, 0, 1, 1, 2]), torch.tensor([0, 0, 1, 0, -1, 0])
    nan = float("nan")
    known = torch.tensor([1.0, nan, nan, 4.0, nan, nan], dtype=torch.float64)
    assert filled_by_cell(known, labels, groups).tolist() == pytest.approx([1.0, 1.0, 1.0, 4.0, 4.0, 2.5])


def test_several_runs_are_averaged(learner, again, tmp_path):
    other = learner.with_(seed=learner.seed, lr=3e-3)
    specs = [learner, other]
    for spec in specs:
        run(spec, tmp_path / spec.folder_name)
    dataset = dataset_for(again)
    each = [learned_weights(dataset, again.with_(weights={"runs": [s.to_dict()]}), tmp_path) for s in specs]
    both = learned_weights(dataset, again.with_(weights={"runs": [s.to_dict() for s in specs]}), tmp_path)
    assert not torch.equal(*each)
    assert torch.allclose(both, (each[0] + each[1]) / 2)


def test_a_file_is_taken_as_it_was_planned_or_not_at_all(learner, again, tmp_path):
    done = run(learner, tmp_path / learner.folder_name)
    content = (done.folder.path / WEIGHTS).read_bytes()
    rule = {"file": f"{learner.folder_name}/{WEIGHTS}", "sha256": hashlib.sha256(content).hexdigest()}
    dataset = dataset_for(again)
    by_file = learned_weights(dataset, again.with_(weights=rule), tmp_path)
    assert torch.equal(by_file, learned_weights(dataset, again, tmp_path))
    with pytest.raises(BadInput, match="has changed"):
        learned_weights(dataset, again.with_(weights={**rule, "sha256": "0" * 64}), tmp_path)
    with pytest.raises(MissingData, match="cannot be read"):
        learned_weights(dataset, again.with_(weights={**rule, "file": "gone"}), tmp_path)


def test_what_is_no_rule_or_has_no_weights_is_refused(tiny, learner, again, tmp_path):
    dataset = dataset_for(again)
    for rule in ({"runs": []}, {"file": "x"}, {"runs": [learner.to_dict()], "file": "x", "sha256": ""}):
        with pytest.raises(BadInput, match="weights are those of"):
            learned_weights(dataset, again.with_(weights=rule), tmp_path)
    run(tiny, tmp_path / tiny.folder_name)  # of Uniform, which keeps none
    with pytest.raises(BadInput, match="no weight for any"):
        learned_weights(dataset, again.with_(weights={"runs": [tiny.to_dict()]}), tmp_path)
    with pytest.raises(BadInput, match="method given"):
        tiny.with_(weights={"runs": [learner.to_dict()]})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table.drop(columns="weight"), "not as a run writes it"),
        (lambda table: table.iloc[:0], "not as a run writes it"),
        (lambda table: table.assign(weight="heavy"), "not as a run writes it"),
        (lambda table: table.iloc[[0, 0, 1]], "not as a run writes it"),
        (lambda table: table.assign(weight=[math.inf, *table["weight"][1:]]), "1 rows whose weight is no number"),
        (lambda table: table.assign(weight=[math.nan, *table["weight"][1:]]), "1 rows whose weight is no number"),
        (lambda table: table.assign(weight=-table["weight"]), "no number from 0"),
        (lambda table: table.assign(weight=0.0), "no weight above 0"),
    ],
)
def test_a_table_that_no_run_writes_is_refused_not_filled_in(again, tmp_path, change, words):
    dataset = dataset_for(again)
    rows = dataset.rows["train"].tolist()
    table = pd.DataFrame({"row": rows, "label": "x", "weight": [1.0] * len(rows)})
    change(table).to_parquet(tmp_path / WEIGHTS)
    rule = {"file": WEIGHTS, "sha256": hashlib.sha256((tmp_path / WEIGHTS).read_bytes()).hexdigest()}
    with pytest.raises(BadInput, match=words):
        learned_weights(dataset, again.with_(weights=rule), tmp_path)


def test_a_spec_without_weights_has_the_name_it_had(tiny):
    assert "weights" not in tiny.to_dict()
    assert Spec.from_dict(tiny.to_dict()) == tiny
