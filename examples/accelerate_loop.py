"""FORML in a loop of accelerate, with accumulation: `accelerate launch examples/accelerate_loop.py`."""

from pathlib import Path

import torch
from accelerate import Accelerator, PartialState
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

import fairweight as fw


def main(epochs: int = 2, batch_size: int = 64, folder: str | None = None) -> torch.Tensor:
    x, y = (torch.tensor(a) for a in load_digits(return_X_y=True))
    held, dataset = fw.Batch(x[:300] / 16, y[:300]), fw.with_rows(TensorDataset(x[300:1324] / 16, y[300:1324]))
    accelerator, _ = Accelerator(gradient_accumulation_steps=2, cpu=True), torch.manual_seed(0)
    model = fw.MLP(64, 10).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(dataset, batch_size // accelerator.num_processes)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    forml = fw.prepare(accelerator, fw.FORML(model, num_samples=len(dataset)))
    cells = fw.ExemplarSampler(fw.Cells.of(held.labels), per_cell=4)
    mine = torch.arange(len(cells)).tensor_split(accelerator.num_processes)[accelerator.process_index]
    if folder is not None and Path(folder).is_dir():
        accelerator.load_state(folder)  # model, optimizer, random state, and the scores
    for _ in range(forml.method.steps * 2 // len(loader), epochs):
        for batch in loader:
            with accelerator.accumulate(model):  # two batches make one step
                forml.backward(fw.to_batch(batch), cells.batch(held, forml.method.steps, mine), optimizer)
                optimizer.step()
                optimizer.zero_grad()
        accelerator.save_state(folder) if folder is not None else None
    accelerator.print(f"standard deviation of the scores {forml.scores.std():.4f}")
    return forml.scores


if __name__ == "__main__":
    main()
    PartialState().wait_for_everyone()  # a rank that leaves while another still works may be aborted by torch
    PartialState().destroy_process_group()
