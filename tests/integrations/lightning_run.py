"""One Lightning training on so many processes; leaves its numbers in a file. python ... DEVICES FILE CHECKPOINTS"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import lightning as L
import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import fairweight as fw
from fairweight.integrations.lightning import FormlCallback

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
from lightning_adult import Net

N = 260


def train(devices: int, *, epochs: int = 3, resume: str | None = None, **more: Any) -> tuple[L.Trainer, FormlCallback]:
    g = torch.Generator().manual_seed(0)
    x, y, a = torch.randn(N, 6, generator=g), torch.randint(2, (N,), generator=g), torch.randint(2, (N,), generator=g)
    held = fw.Batch(x[:60].double(), y[:60], a[:60])
    dataset = fw.with_rows(TensorDataset(x[60:], y[60:]))
    L.seed_everything(0)
    forml = FormlCallback(held, accumulate=2, per_cell=3)
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    sampler = DistributedSampler(dataset, devices, rank, shuffle=False) if devices > 1 else None
    trainer = L.Trainer(
        max_epochs=epochs, devices=devices, strategy="ddp" if devices > 1 else "auto", accelerator="cpu", logger=False,
        use_distributed_sampler=False, enable_progress_bar=False, enable_model_summary=False, callbacks=[forml],
        **{"enable_checkpointing": False, **more},
    )  # fmt: skip
    trainer.fit(Net(6), DataLoader(dataset, 20 // devices, sampler=sampler), ckpt_path=resume)
    return trainer, forml


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    trainer, forml = train(int(sys.argv[1]))
    if trainer.global_rank == 0:
        parameters = [p.detach() for p in trainer.lightning_module.parameters()]
        torch.save([forml.method.scores, *parameters], sys.argv[2])
