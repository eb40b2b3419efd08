"""What FORML costs in each framework, beside the framework's own plain training; on a CPU.

FAIRWEIGHT_DATA=... python benchmarks/trainers.py [STEPS]      (needs lightning, transformers and accelerate)
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
import warnings
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import fairweight as fw

ROOT = Path(__file__).parents[1]
BATCH, WARM_UP = 64, 10
STEPS = 200
Clock = list[float]  # processor time after each step: other processes do not count


def adult() -> tuple[fw.Batch, fw.Batch]:
    """Rows that come around as often as steps need them, and exemplars."""
    data: Any = fw.data.load("adult")
    train, number = data.train, BATCH * 100
    return fw.Batch(train.inputs[:number], train.labels[:number], rows=torch.arange(number)), data.exemplar


def net(width: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))


def own_loop(plain: bool, steps: int) -> Clock:
    train, held = adult()
    model = net(train.inputs.shape[1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    method = fw.Uniform(model, len(train)) if plain else fw.FORML(model, len(train))
    cells, clock = fw.ExemplarSampler(fw.Cells.of(held.labels, held.groups), 10), []
    for step in range(steps):
        at = torch.arange(BATCH) + BATCH * (step % 100)
        method.step(train.take(at), None if plain else cells.batch(held, step), optimizer)
        clock.append(time.process_time())
    return clock


def lightning(plain: bool, steps: int) -> Clock:
    import lightning as L

    from fairweight.integrations.lightning import FormlCallback, forml_step

    train, held = adult()
    clock: Clock = []

    class Module(L.LightningModule):  # type: ignore[misc, name-defined]
        automatic_optimization = plain

        def __init__(self) -> None:
            super().__init__()
            self.net = net(train.inputs.shape[1])

        def forward(self, inputs: Tensor) -> Any:
            return self.net(inputs)

        def training_step(self, batch: Any, _: int) -> Tensor | None:
            if not plain:
                return forml_step(self, batch)
            inputs, labels = batch
            return nn.functional.cross_entropy(self(inputs), labels)

        def on_train_batch_end(self, *_: Any) -> None:
            clock.append(time.process_time())

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    dataset: Any = TensorDataset(train.inputs, train.labels)
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    callbacks = [] if plain else [FormlCallback(held)]
    made = L.Trainer(max_steps=steps, accelerator="cpu", logger=False, callbacks=callbacks, **quiet)
    made.fit(Module(), DataLoader(dataset if plain else fw.with_rows(dataset), BATCH))
    return clock


def accelerate(plain: bool, steps: int) -> Clock:
    from accelerate import Accelerator

    train, held = adult()
    dataset: Any = TensorDataset(train.inputs, train.labels)
    accelerator = Accelerator(cpu=True)
    model = net(train.inputs.shape[1])
    loader = DataLoader(dataset if plain else fw.with_rows(dataset), BATCH)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), loader)
    forml = None if plain else fw.prepare(accelerator, fw.FORML(model, len(dataset)))
    cells, clock = fw.ExemplarSampler(fw.Cells.of(held.labels, held.groups), 10), []
    while len(clock) < steps:
        for batch in loader:
            if forml is None:
                accelerator.backward(nn.functional.cross_entropy(model(batch[0]), batch[1]))
            else:
                forml.backward(fw.to_batch(batch), cells.batch(held, len(clock)), optimizer)
            optimizer.step()
            optimizer.zero_grad()
            clock.append(time.process_time())
    return clock[:steps]


def transformers(plain: bool, steps: int) -> Clock:
    sys.path.insert(0, str(ROOT / "examples"))
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments
    from transformers_trainer import texts

    from fairweight.integrations.transformers import FormlTrainer

    clock: Clock = []

    class Ticks(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            clock.append(time.process_time())

    people, words = texts(4000)
    torch.manual_seed(0)
    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
    model = BertForSequenceClassification(BertConfig(vocab_size=words + 1, **shape))
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=BATCH, save_strategy="no", report_to=[], use_cpu=True,
            disable_tqdm=True, logging_steps=10**6,
        )  # fmt: skip
        kind, more = (Trainer, {}) if plain else (FormlTrainer, {"exemplar_dataset": people[3200:]})
        kind(model, args, train_dataset=people[:3200], callbacks=[Ticks()], **more).train()
    return clock


WAYS = {
    "a loop of one's own": ("MLP of 256 × 256 on Adult", own_loop),
    "Lightning": ("the same", lightning),
    "accelerate": ("the same", accelerate),
    "transformers": ("BERT of 2 layers, 64 wide, on Adult in words", transformers),
}


def main(steps: int) -> None:
    from fairweight.paper.records import keep
    from fairweight.runs.provenance import provenance

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows: dict[str, Any] = {}
    for name, (what, train) in WAYS.items():
        row: dict[str, Any] = {"what": what, "n": 0}
        for way in ("plain", "forml"):
            took: list[float] = []
            for _ in range(3):  # three trainings each
                clock = train(way == "plain", steps + WARM_UP)[WARM_UP:]
                took += [1e3 * (b - a) for a, b in pairwise(clock)]
            low, middle, high = statistics.quantiles(took, n=4)
            row |= {f"{way}_ms": middle, f"{way}_quartiles": [low, high], "n": len(took)}
        rows[name] = row
        print(name, row, flush=True)
    known = {name: version(name) for name in ("torch", "lightning", "transformers", "accelerate")}
    record = {"kind": "trainers", "name": "trainers", "rows": rows, "command": "python benchmarks/trainers.py"}
    print(keep({**record, **provenance(), "frameworks": known}, ROOT / "records"))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else STEPS)
