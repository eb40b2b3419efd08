"""Rows chosen by what other runs found."""

import pytest
import torch

from fairweight.errors import BadInput, MissingData
from fairweight.runs.folder import RunFolder
from fairweight.runs.other_runs import prerequisites
from fairweight.runs.run import run
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import dataset_for


@pytest.fixture
def asked(tiny, tmp_path):
    """A finished run, in a pool."""
    run(tiny, tmp_path / tiny.folder_name)
    return tiny


def chosen(spec, pool, **rules):
    return dataset_for(spec.with_(rows=rules), beside=pool)


def test_the_lowest_leave_and_the_rest_are_numbered_anew(asked, tmp_path):
    whole = dataset_for(asked)
    rule = {"drop": 0.25, "lowest": "ema_loss", "runs": [asked.to_dict()]}
    less = chosen(asked, tmp_path, train=rule)
    weights = RunFolder(tmp_path / asked.folder_name).read_weights()
    kept = weights.sort_values("ema_loss").iloc[round(0.25 * len(weights)) :]
    assert sorted(less.rows["train"].tolist()) == sorted(kept["row"].tolist())
    assert len(less.train) == len(whole.train) - round(0.25 * len(whole.train))
    assert less.train.rows is None  # as load gives it: position is identity
    place = {row: k for k, row in enumerate(whole.rows["train"].tolist())}
    index = torch.tensor([place[row] for row in less.rows["train"].tolist()])
    assert torch.equal(less.train.inputs, whole.train.inputs[index])
    assert torch.equal(less.train.labels, whole.train.labels[index])
    assert any("rows stay" in note for note in less.notes)


def test_random_rows_follow_their_seed_and_can_take_another_rules_counts(asked, tmp_path):
    first = chosen(asked, None, train={"drop": 0.1, "random": 1})
    again = chosen(asked, None, train={"drop": 0.1, "random": 1})
    other = chosen(asked, None, train={"drop": 0.1, "random": 2})
    assert torch.equal(first.rows["train"], again.rows["train"])
    assert not torch.equal(first.rows["train"], other.rows["train"])
    rule = {"drop": 0.1, "lowest": "ema_loss", "runs": [asked.to_dict()]}
    lowest = chosen(asked, tmp_path, train=rule)
    alike = chosen(asked, tmp_path, train={"drop": 0.1, "random": 1, "like": rule})
    counts = [torch.bincount(d.train.labels, minlength=10).tolist() for d in (lowest, alike)]
    assert counts[0] == counts[1]
    assert not torch.equal(lowest.rows["train"], alike.rows["train"])
    assert prerequisites(asked.with_(rows={"train": {"drop": 0.1, "random": 1, "like": rule}})) == (asked,)


def test_exemplars_are_the_lowest_of_each_class_and_stay_in_train(asked, tmp_path):
    rule = {"size": 30, "lowest": "forgetting_events", "runs": [asked.to_dict()]}
    found = chosen(asked, tmp_path, exemplar=rule)
    assert torch.bincount(found.exemplar.labels).tolist() == [3] * 10
    assert set(found.rows["exemplar"].tolist()) <= set(found.rows["train"].tolist())
    weights = RunFolder(tmp_path / asked.folder_name).read_weights()
    zeros = weights[weights["label"] == "0"].sort_values(["forgetting_events", "ema_loss", "row"], kind="stable")
    picked = [row for row in found.rows["exemplar"].tolist() if row in set(zeros["row"])]
    assert sorted(picked) == sorted(zeros["row"].iloc[:3].tolist())
    assert torch.equal(
        chosen(asked, tmp_path, exemplar={**rule, "balanced": True}).rows["exemplar"], found.rows["exemplar"]
    )


def test_every_normalised_loss_can_be_dropped_by(asked, tmp_path):
    weights = RunFolder(tmp_path / asked.folder_name).read_weights()
    for measure in ("ema_relative_weighted_loss", "ema_set_weighted_loss", "ema_relative_loss"):
        rule = {"drop": 0.25, "lowest": measure, "runs": [asked.to_dict()]}
        kept = weights.sort_values(measure, kind="stable").iloc[round(0.25 * len(weights)) :]
        assert sorted(chosen(asked, tmp_path, train=rule).rows["train"].tolist()) == sorted(kept["row"].tolist())


def test_a_run_on_chosen_rows_has_so_many_weights(asked, tmp_path):
    spec = asked.with_(rows={"train": {"drop": 0.5, "lowest": "ema_loss", "runs": [asked.to_dict()]}})
    done = run(spec, tmp_path / spec.folder_name)
    whole = RunFolder(tmp_path / asked.folder_name).read_weights()
    assert len(done.folder.read_weights()) == len(whole) - round(0.5 * len(whole))


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"test": {"drop": 0.1}}, "no part 'test'"),
        ({"train": {"drop": 0.1, "colour": 1, "random": 0}}, "no 'colour'"),
        ({"train": {"drop": 0.1, "lowest": "beauty", "runs": []}}, "choose from"),
        ({"train": {"drop": 2, "random": 0}}, "between 0 and 1"),
        ({"train": {"drop": 0.1}}, "give one of"),
        ({"train": {"drop": 0.1, "random": 0, "within": "class"}}, "over all classes"),
        ({"exemplar": {"size": 10, "lowest": "ema_loss", "runs": [], "balanced": False}}, "as many exemplars of each"),
        ({"exemplar": {"size": 31, "lowest": "ema_loss", "runs": []}}, "name them"),
        ({"train": {"drop": 0.1, "lowest": "ema_loss", "runs": []}}, "name them"),
    ],
)
def test_rules_without_meaning_are_refused(asked, tmp_path, rules, words):
    with pytest.raises(BadInput, match=words):
        chosen(asked, tmp_path, **rules)


def test_runs_that_are_not_there_or_keep_no_such_measure_are_named(asked, tmp_path):
    other = asked.with_(seed=9)
    with pytest.raises(MissingData, match=other.folder_name):
        chosen(asked, tmp_path, train={"drop": 0.1, "lowest": "ema_loss", "runs": [other.to_dict()]})
    with pytest.raises(MissingData, match="beside"):
        chosen(asked, None, train={"drop": 0.1, "lowest": "ema_loss", "runs": [asked.to_dict()]})
    with pytest.raises(BadInput, match="has no score"):
        chosen(asked, tmp_path, train={"drop": 0.1, "lowest": "score", "runs": [asked.to_dict()]})


@pytest.fixture
def pictures(tmp_path):
    """A run's Spec over a folder of image files."""
    from PIL import Image

    for k, name in enumerate("ab"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for n in range(40):
            Image.new("L", (4, 4), 100 * k + n).save(tmp_path / "pictures" / name / f"{n}.png")
    network = {"name": "mlp", "hidden": [4]}
    return Spec(str(tmp_path / "pictures"), network=network, method="uniform", epochs=1, batch_size=16)


@pytest.mark.parametrize("rule", [{"drop": 0.25, "random": 1}, {"exemplars": "only"}, {"exemplars": "added"}])
def test_files_are_named_for_the_rows_that_stay(pictures, tmp_path, rule):
    whole = dict(zip(dataset_for(pictures).rows["train"].tolist(), dataset_for(pictures).files, strict=True))
    spec = pictures.with_(rows={"train": rule})
    found = chosen(spec, tmp_path, train=rule)
    run(spec, tmp_path / spec.folder_name)
    written = RunFolder(tmp_path / spec.folder_name).read_weights()
    assert written["row"].tolist() == found.rows["train"].tolist()
    if "exemplars" in rule:  # whose files are not known
        assert "file" not in written
    else:
        assert written["file"].tolist() == [whole[row] for row in found.rows["train"].tolist()]
