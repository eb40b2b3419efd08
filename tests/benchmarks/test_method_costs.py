"""What methods cost in processor time, put into the record of a comparison."""

import json
import sys

import pytest

from fairweight.apps.compare import Protocol, compare, prepare
from fairweight.paper import records


@pytest.mark.slow
def test_costs_are_put_into_the_record_and_a_search_counts_all_its_trainings(tmp_path, script, monkeypatch):
    data = {"limit": 300, "split": {"test": 0.3, "validation": 0.2}}
    protocol = Protocol("digits", data=data, training={"epochs": 1, "network": {"name": "mlp", "hidden": [16]}})
    record = compare(prepare(protocol, ["moew"]), tmp_path / "runs", seeds=1, jobs=1)
    path = records.keep(record, tmp_path / "records")
    method_costs = script("method_costs")
    monkeypatch.setattr(sys, "argv", ["method_costs.py", str(path.parent), "--rounds", "1", "--epochs", "2"])
    method_costs.main()
    after = json.loads(path.read_text())
    assert after["cost"]["uniform"] == 1.0
    assert 4 < after["cost"]["moew"] < 40  # 12 trainings, each about as dear as a plain one
    assert "processor time" in after["cost_measured"]
    kept = {key: value for key, value in after.items() if key not in ("cost", "cost_measured")}
    assert kept == {key: value for key, value in json.loads(json.dumps(record)).items() if key != "cost"}


def test_the_least_epoch_counts_and_the_first_does_not(script):
    method_costs = script("method_costs")
    times = method_costs.EpochTimes()
    times.ends = [0.1, 0.6, 0.9, 1.5]
    assert times.least == pytest.approx(0.3)
