from dataclasses import replace

import numpy as np
import pytest
from tests import audits

from fairweight.report.movement import movement


def test_means_are_those_of_the_weights_at_every_epoch():
    frame = audits.weights(300)
    made = audits.trained(frame, epochs=3)
    found = movement(made, "cell")
    assert found is not None
    assert found.means.shape == (4, 4)
    assert found.means[0].tolist() == [1.0] * 4
    for name, count, last in zip(found.names, found.counts, found.means[-1], strict=True):
        label, group = name.split(" · ")
        members = (frame["label"] == label) & (frame["group"] == group)
        assert count == members.sum()
        assert last == pytest.approx(frame.loc[members, "weight"].mean())
    everything = np.average(found.means[-1], weights=found.counts)
    assert everything == pytest.approx(1.0)


def test_fixed_weights_start_where_they_are():
    frame = audits.weights(300)
    made = audits.trained(frame, epochs=3)
    fixed = replace(made, weight_path=np.stack([made.weight_path[-1]] * 3))
    assert fixed.weights_are_fixed
    assert not made.weights_are_fixed
    found = movement(fixed, "group")
    assert found is not None
    assert found.means.shape == (4, 2)
    assert np.ptp(found.means, axis=0).tolist() == [0.0, 0.0]


def test_unknown_groups_are_in_no_part():
    frame = audits.weights(100)
    frame["group"] = frame["group"].where(frame["row"] > 50)
    found = movement(audits.trained(frame), "group")
    assert found is not None
    assert sum(found.counts) == int(frame["group"].notna().sum())


def test_even_weights_have_not_moved():
    assert movement(audits.trained(audits.weights(scores=False)), "group") is None


def test_labels_keep_their_order_and_those_that_moved_most_come_first():
    frame = audits.weights(400, labels=("2", "10", "1"), groups=("F",))
    frame["weight"] = np.where(frame["label"] == "10", 3.0, 0.9)
    frame["weight"] /= frame["weight"].mean()
    found = movement(audits.trained(frame), "label")
    assert found is not None
    assert found.names == ("2", "10", "1")
    assert found.most_moved(1).names == ("10",)
    assert found.ends()[0][0] == "10"
