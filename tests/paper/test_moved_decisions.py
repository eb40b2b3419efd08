"""Moved decisions: the same positive rate, and a bias per class."""

import pytest
import torch

from fairweight.errors import BadInput, MissingData
from fairweight.paper.moved_decisions import class_bias, even_recalls, positive_margin, same_rate, within_budget
from fairweight.runs.folder import LOGITS, RunFolder
from fairweight.training import state


def folder_of(path, **parts):
    path.mkdir()
    kept = {name: {"logits": z, "labels": y, "groups": g} for name, (z, y, g) in parts.items()}
    state.save(kept, path / LOGITS)
    return RunFolder(path)


def test_threshold_moves_until_the_rates_agree(tmp_path):
    labels = torch.tensor([0, 0, 1, 1, 1, 0, 1, 0])
    groups = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    lean = torch.tensor([-4.0, -1.0, -0.5, 2.0, -2.0, -3.0, 1.0, -5.0])
    logits = torch.stack([torch.zeros(8), lean], dim=1)
    generous = torch.stack([torch.zeros(8), torch.tensor([1.0, 1, 1, 1, 1, -1, -1, -1])], dim=1)  # five positive
    plain = folder_of(tmp_path / "plain", test=(logits, labels, groups))
    other = folder_of(tmp_path / "other", test=(generous, labels, groups))
    table = same_rate(plain, other)
    said = [False, True, True, True, True, False, True, False]  # the five that lean most
    assert table.samples.predictions.tolist() == [int(s) for s in said]
    assert table.by_group("tpr") == {0: 1.0, 1: 1.0}
    assert same_rate(plain, plain).accuracy == pytest.approx(6 / 8)


def test_margin_of_one_logit_and_of_two():
    assert positive_margin(torch.tensor([[1.0], [-2.0]])).tolist() == [1.0, -2.0]
    assert positive_margin(torch.tensor([[1.0, 4.0]])).tolist() == [3.0]
    with pytest.raises(BadInput, match="two classes"):
        positive_margin(torch.zeros(2, 3))


def test_other_samples_and_missing_logits_are_refused(tmp_path):
    one = folder_of(tmp_path / "one", test=(torch.zeros(2, 2), torch.tensor([0, 1]), None))
    two = folder_of(tmp_path / "two", test=(torch.zeros(2, 2), torch.tensor([1, 1]), None))
    with pytest.raises(BadInput, match="different samples"):
        same_rate(one, two)
    with pytest.raises(MissingData, match="is not there"):
        same_rate(one, RunFolder(tmp_path / "three"))


def test_bias_evens_out_the_recalls(tmp_path):
    """Class 2 is seldom said; with a bias fitted on held-out samples its recall comes up."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(900) % 3
    logits = torch.randn(900, 3, generator=draw) + 2.0 * torch.nn.functional.one_hot(labels, 3)
    logits[:, 2] -= 2.0
    bias = even_recalls(logits, labels, steps=300, rate=1.0)
    assert float(bias[2] - bias[:2].mean()) == pytest.approx(2.0, abs=0.4)
    half = folder_of(
        tmp_path / "run", test=(logits[:450], labels[:450], None), exemplar=(logits[450:], labels[450:], None)
    )
    before = torch.bincount(labels[:450][logits[:450].argmax(dim=1) == labels[:450]], minlength=3)
    table = class_bias(half)
    assert table.tprd < 0.15
    assert float(before.max() - before.min()) / 150 > 0.4


def test_a_class_that_nobody_held_out_has_is_left_alone():
    """Its recall is not 0: a bias that rose for it would in the end make it the only answer."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(900) % 3
    logits = torch.randn(900, 4, generator=draw) + 2.0 * torch.nn.functional.one_hot(labels, 4)
    logits[:, 2] -= 2.0
    bias = even_recalls(logits, labels, steps=300, rate=1.0)
    right = (logits + bias).argmax(dim=1) == labels
    recall = torch.bincount(labels[right], minlength=3) / 300
    assert float(bias[3]) == 0.0
    assert float(recall.min()) > 0.7
    assert float(recall.max() - recall.min()) < 0.02


def test_the_fraction_is_the_most_even_one_within_the_budget(tmp_path):
    """Two classes: moving the threshold to even recalls costs accuracy, so the budget decides how far it goes."""
    draw = torch.Generator().manual_seed(0)
    labels = (torch.arange(4000) % 4 > 0).long()  # three of four are 1
    lean = torch.randn(4000, generator=draw) + 2.0 * labels - 0.5
    logits = torch.stack([torch.zeros(4000), lean], dim=1)
    assert within_budget(logits, labels, budget=1.0) >= 0.9
    assert within_budget(logits, labels, budget=-1.0) == 0.0
    some = within_budget(logits, labels, budget=0.01)
    assert 0.0 < some < within_budget(logits, labels, budget=1.0)
    folder = folder_of(tmp_path / "run", test=(logits, labels, None), exemplar=(logits, labels, None))
    plain, chosen, full = (class_bias(folder, fraction) for fraction in (0.0, None, 1.0))
    assert full.tprd < chosen.tprd < plain.tprd
    assert plain.accuracy - chosen.accuracy < 0.004
