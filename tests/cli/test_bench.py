import json

import pytest
import torch
from tests.command import fairweight


def run(folder, *words):
    return fairweight(folder, "bench", "--device", "cpu", *words)


@pytest.mark.slow
def test_bench_prints_a_table_and_keeps_a_record(tmp_path):
    (tmp_path / "nets.py").write_text(
        "from torch import nn\nNet = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))\n"
    )
    done = run(tmp_path, "--model", "nets.py:Net", "--batch", "9", "--exemplars", "6", "--repeats", "3")
    assert done.returncode == 0, done.stderr
    assert "× plain" in done.stdout
    record = json.loads((tmp_path / "runs" / "bench" / "bench.json").read_text())
    found = {(r["name"], r["regime"]): r for r in record["results"]}
    assert found["plain", "eager"]["median_ms"] > 0
    assert found["forward, traced", "eager"]["refusal"] is None
    assert {"versions", "commit", "device", "command", "date"} <= record.keys()
    for way in found.values():
        assert way["n"] >= 3


@pytest.mark.slow
def test_a_way_that_does_not_work_says_why_and_the_others_go_on(tmp_path):
    (tmp_path / "nets.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.rnn, self.head = nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 2)\n"
        "    def forward(self, x):\n"
        "        return self.head(self.rnn(x)[0][:, -1])\n"
    )
    done = run(tmp_path, "--model", "nets.py:Net", "--batch", "4", "--exemplars", "4", "--repeats", "2", "--json")
    assert done.returncode == 0, done.stderr
    found = {r["name"]: r for r in json.loads(done.stdout)["results"]}
    assert found["forward"]["median_ms"] is None
    assert "use gradient=" in found["forward"]["refusal"]
    assert found["difference"]["median_ms"] > 0


@pytest.mark.slow
def test_a_model_that_is_not_there_leaves_no_folder(tmp_path):
    done = run(tmp_path, "--model", "nothere:Net", "--out", "bench")
    assert done.returncode == 2
    assert not (tmp_path / "bench").exists()


def test_ways_that_the_time_does_not_suffice_for_say_so_in_plain_words():
    from torch import nn

    from fairweight import Batch
    from fairweight.apps.bench import bench

    rows = torch.arange(9)
    batch, exemplar = Batch(torch.randn(9, 4), rows % 2, None, rows), Batch(torch.randn(6, 4), rows[:6] % 2)
    found = bench(nn.Linear(4, 2), batch, exemplar, repeats=2, seconds=0.0)
    assert {r.refusal for r in found[1:]} == {"left out: 0 seconds are spent"}
