from dataclasses import replace

import numpy as np
import pytest
from tests import audits

from fairweight.report.table_rows import movement


def test_means_are_those_of_the_weights_at_every_epoch():
    frame = audits.weights(300)
    made = audits.trained(frame, epochs=3)
    found = movement(made, "cell")
    assert len(found) == 4
    for part in found:
        assert len(part.means) == 4
        assert part.means[0] == 1.0
        label, group = part.name.split(" · ")
        members = (frame["label"] == label) & (frame["group"] == group)
        assert part.n == members.sum()
        assert part.end == pytest.approx(frame.loc[members, "weight"].mean())
    assert np.average([part.end for part in found], weights=[part.n for part in found]) == pytest.approx(1.0)


def test_fixed_weights_start_where_they_are():
    frame = audits.weights(300)
    made = audits.trained(frame, epochs=3)
    fixed = replace(made, weight_path=np.stack([made.weight_path[-1]] * 3))
    assert fixed.weights_are_fixed
    assert not made.weights_are_fixed
    found = movement(fixed, "group")
    assert [len(part.means) for part in found] == [4, 4]
    assert [np.ptp(part.means) for part in found] == [0.0, 0.0]


def test_unknown_groups_are_in_no_part():
    frame = audits.weights(100)
    frame["group"] = frame["group"].where(frame["row"] > 50)
    found = movement(audits.trained(frame), "group")
    assert sum(part.n for part in found) == int(frame["group"].notna().sum())


def test_even_weights_have_not_moved():
    assert movement(audits.trained(audits.weights(scores=False)), "group") == []


def test_labels_keep_their_order_and_those_that_moved_most_come_first():
    frame = audits.weights(400, labels=("2", "10", "1"), groups=("F",))
    frame["weight"] = np.where(frame["label"] == "10", 3.0, 0.9)
    frame["weight"] /= frame["weight"].mean()
    found = movement(audits.trained(frame), "label")
    assert [part.name for part in found] == ["10", "2", "1"]
