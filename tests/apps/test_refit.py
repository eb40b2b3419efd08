"""What a second training takes over from the first, and what it leaves as it was."""

from __future__ import annotations

import json

import pytest

from fairweight.apps.refit import prepare_refit
from fairweight.errors import MissingData
from fairweight.runs.folder import RUN, RunFolder
from fairweight.runs.run import run


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
