"""A small run in a process of its own, for a test that kills it: run_for_kill.py FOLDER SECONDS_PER_STEP."""

import sys
import time
from pathlib import Path

import torch

import fairweight as fw
from fairweight.training.state import save


class Slow(fw.Observer):
    """Leaves time to be killed in, and says that steps are being taken."""

    def __init__(self, seconds: float, sign: Path) -> None:
        self.seconds, self.sign = seconds, sign

    def on_step(self, step: int, record: fw.StepRecord) -> None:
        self.sign.write_text(str(step))
        time.sleep(self.seconds)


def main(folder: Path, seconds: float) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(3)
    n, classes = 96, 3
    labels = torch.arange(n) % classes
    inputs = torch.randn(n, 6) + labels[:, None]
    train = fw.Batch(inputs, labels)
    held = fw.Batch(inputs[:30] + 0.1, labels[:30], groups=torch.arange(30) % 2)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(8, 3)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
    forml = fw.FORML(model, n, tie="label", agreement_every=4)
    dynamics = fw.Dynamics(n)
    folder.mkdir(parents=True, exist_ok=True)
    record = fw.fit(
        model,
        optimizer,
        forml,
        train,
        held,
        5,
        [fw.EarlyStopping("loss", patience=50), Slow(seconds, folder / "sign")],
        validation=held,
        scheduler=scheduler,
        augment=lambda x, g: x + 0.01 * torch.randn(x.shape, generator=g),
        dynamics=dynamics,
        out=folder,
        resume=True,
        options=fw.FitOptions(batch_size=16, per_cell=2, seed=5, accumulate=2, checkpoint_every=0.0, clip_norm=1.0),
    )
    history = [{k: v for k, v in epoch.items() if k != "seconds"} for epoch in record.history]
    save(
        {
            "model": model.state_dict(),
            "scores": forml.scores,
            "optimizer": optimizer.state_dict(),
            "dynamics": dynamics.state_dict(),
            "history": history,
            "best_epoch": record.best_epoch,
        },
        folder / "final.safetensors",
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
