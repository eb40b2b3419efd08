"""Exemplars used plainly: alone, added, and after another run."""

import warnings

import pytest
import torch
from safetensors.torch import load_file

from fairweight.errors import BadInput
from fairweight.runs.folder import MODEL
from fairweight.runs.other_runs import prerequisites
from fairweight.runs.pool import _job
from fairweight.runs.run import run
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import dataset_for

DATA = {
    "corruptions": ["one-class:label=2,fraction=0.2"],
    "split": {"test": 0.25, "validation": 0.0},
    "exemplar": {"source": "train", "size": 5},
}
BASE = Spec("digits", data=DATA, network={"name": "mlp", "hidden": [8]}, method="uniform", epochs=1, seed=3)


def with_train(**rule):
    return dataset_for(BASE.with_(rows={"train": rule}))


def test_alone_added_and_kept_back():
    plain = dataset_for(BASE)
    only, added = with_train(exemplars="only"), with_train(exemplars="added")
    assert sorted(only.rows["train"].tolist()) == sorted(plain.rows["exemplar"].tolist())
    assert len(added.train) == len(plain.train) + 50
    assert torch.equal(added.train.labels[: len(plain.train)], plain.train.labels), "wrong labels stay"
    by_row = dict(zip(plain.rows["exemplar"].tolist(), plain.exemplar.labels.tolist(), strict=True))
    assert [by_row[row] for row in only.rows["train"].tolist()] == only.train.labels.tolist(), "clean labels stay"
    assert only.train.rows is None, "a sample's row counts from 0, as weights do"
    part = with_train(exemplars="only", choosing=0.2)
    assert (len(part.train), len(part.validation)) == (40, 10)
    both = torch.cat([part.train.inputs, part.validation.inputs]).flatten(1)
    assert len(both.unique(dim=0)) == len(only.train.inputs.flatten(1).unique(dim=0)), "nobody chooses and trains"


@pytest.mark.parametrize("rule", [{"exemplars": "all"}, {"exemplars": "only", "choosing": 1.0},
                                  {"exemplars": "only", "drop": 0.1}])  # fmt: skip
def test_other_rules_are_refused(rule):
    with pytest.raises(BadInput, match=r"rows\.train"):
        with_train(**rule)


def test_a_run_begins_from_another(tmp_path):
    first = run(BASE, tmp_path / BASE.folder_name)
    again = BASE.with_(start={"runs": [BASE.to_dict()]}, lr=1e-12)
    assert prerequisites(again) == (BASE,)
    assert again.fingerprint != BASE.with_(lr=1e-12).fingerprint
    second = run(again, tmp_path / again.folder_name)
    before, after = (load_file(done.folder.checked(MODEL)) for done in (first, second))
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, rtol=0, atol=1e-6)
    with pytest.raises(BadInput, match="give one"):
        run(again.with_(start={"runs": []}), tmp_path / "none")


def test_a_warning_of_torch_about_its_own_threads_is_not_shown(monkeypatch, tmp_path):
    def warning(spec, place, **options):
        warnings.warn("Attempting to run cuBLAS, but there was no current CUDA context! Attempting ...", stacklevel=1)
        raise BadInput("and no more.")

    monkeypatch.setattr(_job, "run", warning)
    settings = _job.Settings(str(tmp_path), "cpu", None, False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = _job.perform(BASE, settings, lambda *progress: None)
    assert done.error == "and no more."
