"""GroupDRO's exponentiated update by hand, and a game whose solution is known."""

from __future__ import annotations

import math

import pytest
import torch
from tests.methods.one_sample_models import BiasOnly, sgd

from fairweight.errors import BadInput, MissingGroups, NotBegun
from fairweight.methods.group_dro import GroupDRO
from fairweight.methods.uniform import Uniform
from fairweight.types import Batch


def samples(labels, groups) -> Batch:
    return Batch(torch.zeros(len(labels), 1).double(), torch.tensor(labels), torch.tensor(groups))


def test_the_exponentiated_update_by_hand():
    """Losses at logit log 4: −log .8 for label 1, −log .2 for label 0."""
    model = BiasOnly()
    with torch.no_grad():
        model.b.fill_(math.log(4))
    train = samples([1, 1, 1, 0], [0, 0, 0, 1])
    method = GroupDRO(model, 4, by="group", rate=0.1)
    method.begin(train)
    easy, hard = -math.log(0.8), -math.log(0.2)
    q = [math.exp(0.1 * easy), math.exp(0.1 * hard)]
    q = [value / sum(q) for value in q]
    record = method.step(train, None, sgd(model, 1e-12))
    assert record.weights.tolist() == pytest.approx([q[0] / 3] * 3 + [q[1]], rel=1e-9)
    assert float(record.loss) == pytest.approx(q[0] * easy + q[1] * hard)
    q = [q[0] * math.exp(0.1 * easy), q[1] * math.exp(0.1 * hard)]
    q = [value / sum(q) for value in q]
    method.step(train, None, sgd(model, 1e-12))
    assert method.group_weights()[0, 1:].tolist() == pytest.approx(q)


def test_a_group_that_is_absent_keeps_its_share():
    model = BiasOnly()
    train = samples([1, 1, 0, 0], [0, 0, 1, 1])
    paper, whole = (GroupDRO(model, 4, by="group", rate=1.0, normalised=flag) for flag in (False, True))
    for method in (paper, whole):
        method.begin(train)
    batch = train.take(torch.tensor([0, 1]))
    loss = math.log(2)
    q = math.exp(loss) / (math.exp(loss) + 1)
    assert float(paper.step(batch, None, sgd(model, 1e-12)).loss) == pytest.approx(q * loss)
    assert float(whole.step(batch, None, sgd(model, 1e-12)).loss) == pytest.approx(loss)
    assert paper.group_weights()[0].tolist() == pytest.approx([0.0, q, 1 - q])


def test_the_adjustment_lifts_small_groups():
    model = BiasOnly()
    train = samples([1, 1, 1, 1, 0], [0, 0, 0, 0, 1])
    method = GroupDRO(model, 5, by="group", rate=1.0, adjustment=2.0)
    method.begin(train)
    method.step(train, None, sgd(model, 1e-12))
    ratio = float(method.group_weights()[0, 2] / method.group_weights()[0, 1])
    assert ratio == pytest.approx(math.exp(2 / 1 - 2 / math.sqrt(4)))


def test_cells_are_the_default():
    method = GroupDRO(BiasOnly(), 4)
    method.begin(samples([0, 0, 1, 1], [0, 1, 0, 0]))
    q = method.group_weights()
    assert q.tolist() == [[0.0, pytest.approx(1 / 3), pytest.approx(1 / 3)], [0.0, pytest.approx(1 / 3), 0.0]]


@pytest.mark.slow
def test_the_worst_group_s_loss_is_minimised():
    """Group 0, 9 in 10, has label 1 in 90 %, group 1 label 0 in 90 %: the fair logit is 0, the plain one is not."""
    labels, groups = [], []
    for group, size in ((0, 180), (1, 20)):
        positives = round(size * (0.9 if group == 0 else 0.1))
        labels += [1] * positives + [0] * (size - positives)
        groups += [group] * size
    train = samples(labels, groups)
    logits, weights = [], None
    for make in (Uniform, lambda m, n: GroupDRO(m, n, by="group", rate=0.05)):
        model = BiasOnly()
        method, optimizer = make(model, 200), sgd(model, 0.1)
        method.begin(train)
        for _ in range(1500):
            weights = method.step(train, None, optimizer).weights
        logits.append(model.b.item())
    p = (0.9 * 180 + 0.1 * 20) / 200
    assert logits[0] == pytest.approx(math.log(p / (1 - p)), abs=1e-3)
    assert logits[1] == pytest.approx(0.0, abs=0.02)
    assert float(weights[180:].sum()) == pytest.approx(0.5, abs=0.02)  # the multiplier of the minimax game


def test_without_begin_groups_are_known_when_seen():
    def trained(begin):
        model = BiasOnly()
        method, optimizer = GroupDRO(model, 6, by="cell", rate=0.5), sgd(model)
        whole = samples([1, 1, 0, 1, 0, 0], [0, 0, 0, 1, 1, 2])
        if begin:
            method.begin(whole)
        weights = []
        for _ in range(3):
            for rows in ([0, 1, 2], [3, 4, 5], [0, 4, 5]):
                weights.append(method.step(whole.take(torch.tensor(rows)), None, optimizer).weights)
        return torch.cat(weights)

    torch.testing.assert_close(trained(False), trained(True))


def test_balanced_draws_give_each_group_as_often():
    method = GroupDRO(BiasOnly(), 4, by="group", draws="balanced")
    method.begin(samples([0, 0, 1, 1], [0, 0, 0, 1]))
    assert method.sampling_weights().tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3, 2.0])


def test_classes_as_groups():
    method = GroupDRO(model := BiasOnly(), 3, by="label")
    assert not method.needs
    method.begin(Batch(torch.zeros(3, 1), torch.tensor([0, 0, 1])))
    record = method.step(Batch(torch.zeros(3, 1), torch.tensor([0, 0, 1])), None, sgd(model))
    assert record.weights.tolist() == pytest.approx([0.25, 0.25, 0.5])


def test_samples_of_unknown_group_are_one_more_group():
    method = GroupDRO(model := BiasOnly(), 3, by="group", rate=1e-9)
    train = samples([0, 0, 1], [0, -1, -1])
    method.begin(train)
    record = method.step(train, None, sgd(model))
    assert record.weights.tolist() == pytest.approx([0.5, 0.25, 0.25])


def test_what_it_must_know():
    with pytest.raises(MissingGroups, match="by=label"):
        GroupDRO(BiasOnly(), 2).begin(Batch(torch.zeros(2, 1), torch.tensor([0, 1])))
    for options in ({"normalised": False}, {"adjustment": 1.0}):
        with pytest.raises(NotBegun, match="begin"):
            GroupDRO(model := BiasOnly(), 2, **options).step(samples([0, 1], [0, 1]), None, sgd(model))
    with pytest.raises(NotBegun, match="begin"):
        GroupDRO(BiasOnly(), 2, draws="balanced").sampling_weights()
    with pytest.raises(BadInput, match="rate"):
        GroupDRO(BiasOnly(), 2, rate=0.0)
    method = GroupDRO(model := BiasOnly(), 2)
    method.begin(samples([0, 1], [0, 1]))
    with pytest.raises(BadInput, match="group 4"):
        method.step(samples([0, 1], [0, 4]), None, sgd(model))


def test_a_group_whose_share_has_vanished_still_trains_alone():
    """q of group 1 is e^-1000 of group 0's, below what a float holds: a batch of group 1 alone must not be 0 / 0."""
    model = BiasOnly()
    with torch.no_grad():
        model.b.fill_(-10.0)
    train = samples([1, 1, 0, 0], [0, 0, 1, 1])
    method = GroupDRO(model, 4, by="group", rate=100.0)
    method.begin(train)
    method.step(train, None, sgd(model, 1e-12))
    assert method.group_weights()[0, 2] == 0.0
    record = method.step(train.take(torch.tensor([2, 3])), None, sgd(model, 1e-12))
    assert record.weights.tolist() == [0.5, 0.5]
