"""Ray Train: two workers on a local Ray give what one process gives, and the scores are in the checkpoint."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch
from sklearn.datasets import load_digits

import fairweight as fw

ROOT = Path(__file__).resolve().parents[2]


def one_process(epochs: int) -> fw.FORML:
    """The example's training, without Ray."""
    x, y = (torch.tensor(a) for a in load_digits(return_X_y=True))
    held, train = fw.Batch(x[:300] / 16, y[:300]), fw.Batch(x[300:1324] / 16, y[300:1324], rows=torch.arange(1024))
    torch.manual_seed(0)
    model = fw.MLP(64, 10).double()
    optimizer, forml = torch.optim.SGD(model.parameters(), lr=0.1), fw.FORML(model, num_samples=len(train))
    cells = fw.ExemplarSampler(fw.Cells.of(held.labels), per_cell=4)
    for rows in torch.arange(1024).repeat(epochs).split(64):
        forml.step(train.take(rows), cells.batch(held, forml.steps), optimizer)
    return forml


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # Ray warns about itself
def test_two_workers_give_what_one_process_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="ray is not installed")
    pytest.importorskip("ray.train.torch", reason="Ray Train is not installed")
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    # Set for Ray's own processes: an environment for its workers alone would have each of them started twice.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT / "examples")]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    try:
        from ray_train import main

        result = main(2, 1, str(tmp_path))
    finally:
        ray.shutdown()
        sys.modules.pop("ray_train", None)
    kept = torch.load(Path(result.checkpoint.path, "state.pt"), weights_only=True)
    expected = one_process(1)
    assert float(expected.scores.std()) > 0.1
    torch.testing.assert_close(kept["forml"]["own"], expected.scores, rtol=1e-12, atol=1e-12)
    parameters = dict(expected.model.named_parameters())
    for name, value in kept["model"].items():
        torch.testing.assert_close(value, parameters[name.removeprefix("module.")].detach(), rtol=1e-12, atol=1e-12)
