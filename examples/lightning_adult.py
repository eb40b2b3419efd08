"""FORML on Adult in Lightning, on two processes: `python examples/lightning_adult.py` (data: FAIRWEIGHT_DATA)."""

from typing import Any

import lightning as L
from torch import Tensor, optim
from torch.utils.data import DataLoader, TensorDataset

import fairweight as fw
from fairweight.integrations.lightning import FormlCallback, forml_step


class Net(L.LightningModule):
    automatic_optimization = False  # forml_step steps the optimizer

    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = fw.MLP(width, 2).double()

    def forward(self, inputs: Tensor) -> Tensor:
        return self.net(inputs.double())

    def training_step(self, batch: Any, batch_idx: int) -> Tensor | None:
        return forml_step(self, batch)

    def configure_optimizers(self) -> optim.Optimizer:
        return optim.SGD(self.parameters(), lr=0.1)


def main(rows: int = 4096, resume: str | None = None, devices: int = 1, **more: Any) -> FormlCallback:
    data, _ = fw.data.load("adult"), L.seed_everything(0)
    forml = FormlCallback(data.exemplar, objective=fw.MeanLoss() + fw.MaxLossDiscrepancy(), accumulate=2)
    dataset = fw.with_rows(TensorDataset(data.train.inputs[:rows], data.train.labels[:rows]))
    trainer = L.Trainer(accelerator="cpu", devices=devices, callbacks=[forml], logger=False, **more)
    trainer.fit(Net(data.train.inputs.shape[1]), DataLoader(dataset, 64 // devices), ckpt_path=resume)
    return forml


if __name__ == "__main__":
    print(main(devices=2, strategy="ddp", max_epochs=1).method.scores.std())
