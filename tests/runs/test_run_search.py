"""Runs that are many trainings."""

import json

import pytest
import torch

from fairweight.errors import BadInput, UnknownName
from fairweight.runs import run_search as module
from fairweight.runs.pool._job import Settings, perform
from fairweight.runs.run import run
from fairweight.runs.run_search import search_of
from fairweight.runs.spec_data import dataset_for


@pytest.fixture
def label_bias(tiny):
    """LB as in its MNIST notebook, in small."""
    data = {**tiny.data, "corruptions": ["one-class:label=2,fraction=0.2"]}
    options = {"constraint": "rate", "target": {"2": 0.1}, "through": "sampling", "online": False}
    return tiny.with_(
        data=data, method="label-bias", method_options=options, search={"name": "multiplier", "iterations": 3}
    )


def test_multipliers_move_by_what_the_last_training_violates(label_bias, tmp_path):
    done = run(label_bias, tmp_path / "run")
    state = json.loads((tmp_path / "run" / "search.json").read_text())
    first, second, third = (asked["options"]["multipliers"] for asked in state["asked"])
    assert first is None
    violation = dict(state["results"])[0]["violation"]
    assert torch.tensor(second).equal(torch.tensor(violation))
    assert second[2][0] != 0.0
    assert all(line == [0.0] for k, line in enumerate(second) if k != 2)
    assert third[2][0] == pytest.approx(second[2][0] + dict(state["results"])[1]["violation"][2][0])
    assert done.metrics["search"] == {"trainings": 3, "chosen": "002"}
    assert not (tmp_path / "run" / "candidates").exists()
    weights = done.folder.read_weights()
    train = dataset_for(label_bias).train
    assert len(weights) == len(train)
    others = weights.loc[weights["label"] != "2", "weight"]
    twos = weights.loc[weights["label"] == "2", "weight"]
    ratio = torch.sigmoid(torch.tensor(2 * third[2][0])) / 0.5
    assert float(twos.iloc[0] / others.iloc[0]) == pytest.approx(float(ratio), rel=1e-5)


def test_a_search_that_was_stopped_goes_on_and_ends_as_if_it_had_not(label_bias, tmp_path, monkeypatch):
    trained = []
    whole = run(label_bias, tmp_path / "whole")

    class Stop(Exception):
        pass

    original = module.run

    def counted(spec, out, **options):
        trained.append(out.name)
        if len(trained) == 3:
            raise Stop
        return original(spec, out, **options)

    monkeypatch.setattr(module, "run", counted)
    with pytest.raises(Stop):
        run(label_bias, tmp_path / "broken")
    broken = run(label_bias, tmp_path / "broken")
    assert trained == ["000", "001", "002", "002", "002"]  # the last: a look at what the outcome left
    assert (whole.folder.path / "model.safetensors").read_bytes() == (
        broken.folder.path / "model.safetensors"
    ).read_bytes()
    assert run(label_bias, tmp_path / "broken").reused


def test_time_is_that_of_all_trainings(label_bias, tmp_path):
    done = run(label_bias, tmp_path / "run")
    results = json.loads((tmp_path / "run" / "search.json").read_text())["results"]
    assert done.metrics["run"]["seconds"] == pytest.approx(sum(result["seconds"] for _, result in results))


def test_alphas_are_searched_by_short_trainings_and_the_best_is_trained_whole(tiny, tmp_path):
    spec = tiny.with_(
        method="moew",
        search={"name": "alpha", "rounds": 2, "per_round": 2, "short": {"epochs": 1}, "retrain": True, "points": 50},
    )
    done = run(spec, tmp_path / "run")
    state = json.loads((tmp_path / "run" / "search.json").read_text())
    losses = [result["loss"] for _, result in state["results"]]
    best = min(range(4), key=lambda k: losses[k])
    assert state["asked"][4]["options"] == state["asked"][best]["options"]
    assert len(state["asked"][0]["options"]["alpha"]) == 10
    assert done.metrics["run"]["epochs"] == 2
    assert done.metrics["search"]["trainings"] == 5


@pytest.mark.parametrize("metric", ["max_fnr", "tprd"])
def test_a_candidate_is_judged_by_the_metric_that_was_asked_for(metric, tiny, tmp_path):
    """On the exemplar set, from the recalls of its classes."""
    asked = {} if metric == "max_fnr" else {"metric": metric}
    spec = tiny.with_(method="moew", search={"name": "alpha", "rounds": 1, "per_round": 1, **asked})
    done = run(spec, tmp_path / "run")
    logits, labels, _ = done.folder.read_logits("exemplar")
    right = logits.argmax(dim=1) == labels
    recalls = [float(right[labels == k].double().mean()) for k in labels.unique()]
    expected = {"max_fnr": 1 - min(recalls), "tprd": max(recalls) - min(recalls)}
    ((_, result),) = json.loads((tmp_path / "run" / "search.json").read_text())["results"]
    assert result["loss"] == pytest.approx(expected[metric])


def test_errors_of_a_short_training_are_weighed_up_in_the_next(tiny, tmp_path):
    spec = tiny.with_(method="jtt", search={"name": "error", "short": {"epochs": 1}})
    done = run(spec, tmp_path / "run")
    errors = dict(json.loads((tmp_path / "run" / "search.json").read_text())["results"])[0]["errors"]
    weights = done.folder.read_weights()["weight"]
    assert errors
    assert weights.iloc[errors].min() > weights.drop(index=errors).max()


def test_another_search_in_the_same_folder_starts_anew(label_bias, tmp_path):
    run(label_bias.with_(search={"name": "multiplier", "iterations": 1}), tmp_path / "run")
    again = run(label_bias.with_(seed=1), tmp_path / "run")
    assert again.metrics["search"]["trainings"] == 3


def test_searches_without_meaning_are_refused(tiny, tmp_path):
    with pytest.raises(UnknownName, match="searches"):
        run(tiny.with_(search={"name": "luck"}), tmp_path / "a")
    with pytest.raises(BadInput, match="no option 'colour'"):
        run(tiny.with_(method="label-bias", search={"name": "multiplier", "colour": 1}), tmp_path / "b")
    with pytest.raises(BadInput, match="choose from: max_fnr, tprd"):
        run(tiny.with_(method="moew", search={"name": "alpha", "metric": "accuracy"}), tmp_path / "d")
    with pytest.raises(BadInput, match=r"no option 'multipliers'.*label-bias"):
        run(tiny.with_(search={"name": "multiplier"}), tmp_path / "c")


def test_multipliers_stay_within_a_training_without_being_told(label_bias, tmp_path):
    options = {key: value for key, value in label_bias.method_options.items() if key != "online"}
    told, untold = (
        run(label_bias.with_(method_options=chosen, search={"name": "multiplier", "iterations": 2}), tmp_path / name)
        for name, chosen in (("told", label_bias.method_options), ("untold", options))
    )
    models = [(done.folder.path / "model.safetensors").read_bytes() for done in (told, untold)]
    assert models[0] == models[1]


def test_alpha_has_a_number_for_each_number_of_the_embedding(tiny, tmp_path):
    options = {"embedding": "autoencoder", "dimension": 3, "embedding_steps": 5}
    spec = tiny.with_(method="moew", method_options=options, search={"name": "alpha", "rounds": 1, "per_round": 1})
    run(spec, tmp_path / "run")
    (asked,) = json.loads((tmp_path / "run" / "search.json").read_text())["asked"]
    assert len(asked["options"]["alpha"]) == 3


def test_other_rows_in_the_same_folder_start_the_search_anew(label_bias, tmp_path):
    one, other = (dataset_for(label_bias.with_(data_seed=seed)) for seed in (1, 2))
    run(label_bias, tmp_path / "run", dataset=one)
    again = run(label_bias, tmp_path / "run", dataset=other)
    assert not again.reused
    assert run(label_bias, tmp_path / "run", dataset=other).reused


def test_a_folder_called_candidates_that_no_search_made_stays(tiny, tmp_path):
    kept = tmp_path / "run" / "candidates" / "people.csv"
    kept.parent.mkdir(parents=True)
    kept.write_text("age\n7\n")
    run(tiny, tmp_path / "run")
    assert run(tiny, tmp_path / "run").reused
    run(tiny.with_(seed=1), tmp_path / "run")
    assert kept.read_text() == "age\n7\n"


def test_what_a_stopped_search_has_left_goes_with_it(label_bias, tiny, tmp_path):
    run(label_bias, tmp_path / "run")
    left = tmp_path / "run" / "candidates" / "001"
    left.mkdir(parents=True)
    run(tiny, tmp_path / "run")
    assert not left.parent.exists()
    assert not (tmp_path / "run" / "search.json").exists()


def test_the_search_of_a_method():
    assert search_of("moew", {}) == {"name": "alpha", "rounds": 3, "per_round": 4}
    assert search_of("moew", {}, {"rounds": 10}) == {"name": "alpha", "rounds": 10, "per_round": 4}
    assert search_of("moew", {"alpha": [0.1, 0.2]}) == {}
    assert search_of("label-bias", {}) == {}
    assert search_of("label-bias", {}, {"name": "multiplier"}) == {"name": "multiplier"}
    with pytest.raises(BadInput, match="leave one of them out"):
        search_of("moew", {"alpha": [0.1]}, {"rounds": 2})
    with pytest.raises(BadInput, match="say which"):
        search_of("label-bias", {}, {"iterations": 3})


def test_progress_counts_over_all_trainings(tiny, tmp_path):
    spec = tiny.with_(method="moew", search={"name": "alpha", "rounds": 1, "per_round": 3})
    told = []
    outcome = perform(spec, Settings(str(tmp_path), "cpu"), lambda _, epoch, epochs: told.append((epoch, epochs)))
    assert outcome.error is None
    assert told == [(epoch, 6) for epoch in range(1, 7)]  # three trainings of two epochs
