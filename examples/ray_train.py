"""FORML in a loop of Ray Train, on two workers, with checkpoints: `python examples/ray_train.py`."""

import tempfile
from pathlib import Path
from typing import Any

import ray.train as rt
import torch
from ray.train.torch import TorchConfig, TorchTrainer, prepare_data_loader, prepare_model
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

import fairweight as fw


def loop(settings: dict[str, Any]) -> None:
    x, y = (torch.tensor(a) for a in load_digits(return_X_y=True))
    held, dataset = fw.Batch(x[:300] / 16, y[:300]), fw.with_rows(TensorDataset(x[300:1324] / 16, y[300:1324]))
    rank, size = rt.get_context().get_world_rank(), rt.get_context().get_world_size()
    torch.manual_seed(0)
    model = prepare_model(fw.MLP(64, 10).double())  # DistributedDataParallel, where there are several workers
    optimizer, forml = torch.optim.SGD(model.parameters(), lr=0.1), fw.FORML(model, num_samples=len(dataset))
    cells = fw.ExemplarSampler(fw.Cells.of(held.labels), per_cell=4)
    mine = torch.arange(len(cells)).tensor_split(size)[rank]
    for _ in range(settings["epochs"]):
        for batch in prepare_data_loader(DataLoader(dataset, 64 // size), move_to_device=False):
            record = forml.step(fw.to_batch(batch), cells.batch(held, forml.steps, mine), optimizer)
        with tempfile.TemporaryDirectory() as folder:
            torch.save({"model": model.state_dict(), "forml": forml.state_dict()}, Path(folder, "state.pt"))
            rt.report({"loss": float(record.loss)}, checkpoint=rt.Checkpoint(folder) if rank == 0 else None)


def main(workers: int = 2, epochs: int = 2, out: str = "runs/ray") -> rt.Result:
    how = {"scaling_config": rt.ScalingConfig(num_workers=workers), "torch_config": TorchConfig(backend="gloo")}
    kept = rt.RunConfig(storage_path=str(Path(out).resolve()))
    return TorchTrainer(loop, train_loop_config={"epochs": epochs}, run_config=kept, **how).fit()


if __name__ == "__main__":
    print(main())
