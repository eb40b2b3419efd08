"""The last words of a training that nothing stands beside."""

import shlex
from types import SimpleNamespace

import pytest
from tests import audits

from fairweight.apps._train_text import _calibration, closing, ending, in_words, next_steps
from fairweight.cli import in_flags
from fairweight.metrics import group_table
from fairweight.runs.spec import Spec


@pytest.mark.parametrize(
    ("method", "says"), [("uniform", "this is plain training"), ("forml", "leave out --no-baseline")]
)
def test_without_plain_training_beside_it_there_is_no_verdict_and_the_rest_is_said(method, says):
    table = audits.table([0.6, 0.9])
    spec = SimpleNamespace(method=method, title=method, network={"name": "mlp"})
    result = SimpleNamespace(
        spec=spec, metrics={"run": {"epochs": 9, "best_epoch": 4}}, folder=SimpleNamespace(path="run"), reused=False
    )
    done = SimpleNamespace(verdict=None, table=table, result=result, baseline=None, differences=None)
    lines = ending(done)
    assert lines["Kept"] == f"{method}, epoch 4 of 9"
    assert lines["How sure"].startswith("one seed, 800 test rows")
    screen = closing(done, 3.0, in_flags)
    assert screen.lstrip().startswith("No verdict: ")
    assert says in screen
    assert "fairweight audit run  a page" in screen


def test_commands_to_go_on_with_can_be_pasted_whatever_the_folder_is_called():
    folder = "my run; touch $(id)"
    steps = next_steps(SimpleNamespace(result=SimpleNamespace(folder=SimpleNamespace(path=folder))))
    assert [shlex.split(command)[2] for command in steps] == [folder, folder]


@pytest.mark.parametrize(("network", "training"), [("trees", "7 rounds of trees"), ("linear", "solved for")])
def test_what_takes_no_steps_along_gradients_has_no_optimizer(network, training):
    spec = Spec("people.csv", method="reweighing", network={"name": network}, epochs=7)
    said = in_words(spec, SimpleNamespace())
    assert said["training"].startswith(training)
    assert not {"optimizer", "epochs", "batch"} & set(said)
    result = SimpleNamespace(spec=spec, metrics={"run": {"epochs": 7}})
    done = SimpleNamespace(verdict=None, table=audits.table([0.6, 0.9]), result=result)
    assert ending(done)["Kept"] == ("reweighing, 7 rounds of trees" if network == "trees" else "reweighing")


def test_one_round_is_no_plural_and_rows_without_a_group_are_counted():
    spec = Spec("people.csv", method="uniform", network={"name": "trees"}, epochs=1)
    table = group_table([0, 1] * 50, [0, 1] * 50, ["a", "b"] * 48 + [None] * 4, missing="ignore")
    result = SimpleNamespace(spec=spec, metrics={"run": {"epochs": 1}})
    lines = ending(SimpleNamespace(verdict=None, table=table, result=result))
    assert lines["Kept"].endswith(", 1 round of trees")
    assert lines["How sure"].startswith("one seed, 96 test rows whose group is known (of 100): ")


@pytest.mark.parametrize(
    ("labels", "says"), [(["even", "odd"], "labelled odd"), (list("abc"), "labelled as predicted")]
)
def test_calibration_says_which_label_it_counts(labels, says):
    codes = [k % len(labels) for k in range(30)]
    share = {"n": 30, "predicted": 0.5, "observed": 0.5, "error": 0.0}
    before = group_table(codes, codes, label_names=labels)
    calibration = {when: {"all": share} for when in ("before", "after")}
    verdict = SimpleNamespace(before=before, calibration=calibration, chosen="forml", kept_plain=False)
    assert says in _calibration(verdict).splitlines()[0]
