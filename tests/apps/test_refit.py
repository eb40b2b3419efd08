"""What a second training takes over from the first, and what it leaves as it was."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.tables import people

from fairweight.apps.refit import prepare_refit
from fairweight.apps.train import TrainRequest, prepare, train
from fairweight.errors import MissingData
from fairweight.runs.folder import RUN, RunFolder
from fairweight.runs.run import run
from fairweight.runs.spec_data import dataset_for

# A search that leaves plain training: the model sees the group, and reweighing takes it out of the decisions.
SEEN = {"table": {"group_in_inputs": True}}
WEIGHTED = {"learner": "linear", "candidates": ("reweighing",), "budget": 50.0, "criterion": "demographic-parity"}


@pytest.fixture
def done(tiny, tmp_path):
    """FORML with exemplars held out."""
    step = {"name": "adaptive", "rate": 0.3}
    return run(tiny.with_(method="forml", method_options={"tie": "label", "score_step": step}), tmp_path / "run")


def rewrite(folder: RunFolder, change) -> None:
    about = folder.read(RUN)
    change(about)
    (folder.path / RUN).write_text(json.dumps(about))
    folder.seal()


def test_all_but_method_data_and_weights_is_the_first_runs(done):
    prepared, where = prepare_refit(done.folder.path)
    assert where == done.folder.path / "refit"
    first, second = done.spec.to_dict(), prepared.spec.to_dict()
    changed = {key for key in second if second[key] != first.get(key)}
    assert changed == {"method", "method_options", "data", "weights", "data_seed"}
    assert prepared.spec.data == {**first["data"], "exemplar": {**first["data"]["exemplar"], "inside": True}}
    assert not where.exists()


def test_a_set_with_its_own_exemplars_keeps_them(done):
    """CelebA takes them from validation where nothing is said; rows drawn from train would be others."""
    rewrite(done.folder, lambda about: about["data"]["options"]["exemplar"].update(source="validation"))
    prepared, _ = prepare_refit(done.folder.path)
    assert prepared.spec.data == done.spec.data
    assert "they are validation rows" in prepared.dataset.notes[-1]


def test_from_another_folder_the_way_to_the_data_is_told(done):
    rewrite(done.folder, lambda about: about["spec"].update(source="people.csv"))
    with pytest.raises(MissingData, match=r"was trained on 'people.csv', which is not here; start refit in the folder"):
        prepare_refit(done.folder.path)


def test_a_run_of_an_older_version_that_says_less_is_taken(done):
    rewrite(done.folder, lambda about: (about.pop("data"), about["spec"].pop("search"), about["spec"].pop("rows")))
    prepared, _ = prepare_refit(done.folder.path)
    assert len(prepared.dataset.train) > len(done.folder.read_weights())


WRONG = {"corruptions": ["uniform-flips:fraction=0.2"]}


@pytest.mark.parametrize(
    ("data", "alike"),
    [
        ({}, True),
        ({"exemplar": {"source": "validation"}}, True),
        ({"split": {"column": "part"}}, True),
        (WRONG, False),
    ],
)
def test_the_spec_of_a_chosen_model_trains_such_a_model_on_the_same_labels(tmp_path, data, alike):
    """alike: every row of the run is in its Spec; wrong labels do not let validation rows in."""
    frame = people(600)
    frame["part"] = np.random.default_rng(1).choice(
        ["train", "validation", "exemplar", "test"], 600, p=[0.5, 0.1, 0.2, 0.2]
    )
    frame.to_csv(tmp_path / "people.csv", index=False)
    more = {} if "split" in data else {"table": {"drop": ["part"]}}
    wanted = TrainRequest(
        str(tmp_path / "people.csv"), "income", "sex", data={**data, **more}, learner="linear", candidates=("plain",)
    )
    done = train(prepare(wanted), tmp_path / "run").result
    spec, weights = done.folder.read_spec(), done.folder.read_weights().set_index("row")["label"].astype(str)
    again = dataset_for(spec)
    labels = [again.label_names[code] for code in again.train.labels.tolist()]
    assert labels == weights[again.rows["train"].tolist()].tolist()
    assert (len(labels) == len(weights)) == alike
    if alike:
        found = run(spec, tmp_path / "again").metrics["accuracy"]
        assert found == pytest.approx(done.metrics["accuracy"], abs=0.05), "a linear model is trained for its epochs"


def test_a_judged_run_is_trained_again_on_validation_rows_that_a_column_names(tmp_path):
    """It was trained on them; without them the data would seem to have changed."""
    parts = ["train", "train", "train", "test", "validation"] * 100
    people(500).assign(part=parts).to_csv(tmp_path / "p.csv", index=False)
    wanted = TrainRequest(
        str(tmp_path / "p.csv"), "income", "sex", **WEIGHTED, data={**SEEN, "split": {"column": "part"}}
    )
    folder = train(prepare(wanted), tmp_path / "run").result.folder
    rows = [row for row in range(500) if parts[row] != "test"]
    assert folder.read_weights()["row"].tolist() == rows
    prepared, _ = prepare_refit(folder.path)
    assert prepared.dataset.rows["train"].tolist() == rows
    assert any("100 validation rows of column 'part' are trained on as well" in n for n in prepared.dataset.notes)


@pytest.mark.parametrize("method", [None, "forml"])
def test_the_second_training_is_judged_by_the_criterion_of_the_first(tmp_path, method):
    people(400).to_csv(tmp_path / "p.csv", index=False)
    asked = WEIGHTED if method is None else {"training": {"epochs": 1}, "criterion": "demographic-parity"}
    wanted = TrainRequest(str(tmp_path / "p.csv"), "income", "sex", method, data=SEEN, **asked)
    folder = train(prepare(wanted), tmp_path / "run").result.folder
    goal = prepare_refit(folder.path)[0].goal
    assert goal.criterion.name == "demographic-parity"
    assert goal.budget == asked.get("budget")


def test_a_judged_run_with_labels_made_wrong_on_purpose_is_trained_again(tmp_path):
    people(500).to_csv(tmp_path / "p.csv", index=False)
    wanted = TrainRequest(str(tmp_path / "p.csv"), "income", "sex", **WEIGHTED, data={**SEEN, **WRONG})
    folder = train(prepare(wanted), tmp_path / "run").result.folder
    prepared, _ = prepare_refit(folder.path)
    lost = len(folder.read_weights()) - len(prepared.dataset.train)
    assert lost > 0
    assert prepared.dataset.notes[-1].startswith(f"{lost} rows of the run are kept out")
