"""What is validated is what is trained: model, optimizer and method are made once for each run."""

from __future__ import annotations

import pytest
from tests.tables import people

from fairweight.apps.train import TrainRequest, prepare, train
from fairweight.runs import build as module
from fairweight.runs.run import run


@pytest.fixture
def wanted(tmp_path):
    people(200).to_csv(tmp_path / "p.csv", index=False)
    return TrainRequest(str(tmp_path / "p.csv"), "income", "sex", "forml", training={"epochs": 2})


def test_one_model_for_the_method_and_one_for_plain_training(wanted, tmp_path, monkeypatch):
    made = []
    original = module.network_for
    monkeypatch.setattr(module, "network_for", lambda *given: made.append(1) or original(*given))
    done = train(prepare(wanted), tmp_path / "run")
    assert len(made) == 2
    again = run(done.result.spec, tmp_path / "again")
    assert len(made) == 3
    assert again.metrics["accuracy"] == done.result.metrics["accuracy"]
    models = [(folder / "model.safetensors").read_bytes() for folder in (tmp_path / "run", tmp_path / "again")]
    assert models[0] == models[1]


def test_what_was_trained_is_not_trained_further(wanted, tmp_path):
    prepared = prepare(wanted)
    first, second = (train(prepared, tmp_path / name, baseline=False) for name in ("one", "two"))
    assert not second.result.reused
    models = [(done.result.folder.path / "model.safetensors").read_bytes() for done in (first, second)]
    assert models[0] == models[1]
