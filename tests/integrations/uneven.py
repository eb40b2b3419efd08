"""Two epochs whose last batch does not fill every process: accelerate repeats rows there, and none may count twice.

python -m tests.integrations.uneven NAME..., as one rank or alone; leaves the numbers of each in FOLDER
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import fairweight as fw

SIZE, RANK = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
N, E = 58, 40


class Stream(IterableDataset[Any]):
    """Samples one after the other, without a length."""

    def __init__(self, samples: Any) -> None:
        self.samples = samples

    def __iter__(self) -> Iterator[Any]:
        yield from self.samples


def accelerate(*, stream: bool = False) -> list[Tensor]:
    from accelerate import Accelerator

    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(N + E, 6, generator=g), torch.randint(3, (N + E,), generator=g)
    held, data = fw.Batch(x[N:], y[N:]), TensorDataset(x[:N], y[:N])
    accelerator, _ = Accelerator(gradient_accumulation_steps=2, cpu=True), torch.manual_seed(0)
    model = fw.MLP(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(fw.with_rows(Stream(data) if stream else data), 8 // SIZE)
    shown, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    forml = fw.prepare(accelerator, fw.FORML(shown, num_samples=N))
    for _ in range(2):
        for batch in loader:
            with accelerator.accumulate(shown):
                exemplar = held.take(torch.arange(E).tensor_split(SIZE)[RANK])
                forml.backward(fw.to_batch(batch), exemplar, optimizer)
                optimizer.step()
                optimizer.zero_grad()
    return [forml.scores, *(p.detach() for p in model.parameters())]  # type: ignore[list-item]


def transformers(*, stream: bool = False) -> list[Tensor]:
    import transformers as tf

    from fairweight.integrations.transformers import FormlTrainer

    words = torch.randint(1, 40, (N + E, 6), generator=torch.Generator().manual_seed(0)).tolist()
    people = [{"input_ids": ids, "labels": k % 2, "groups": k // 2 % 2} for k, ids in enumerate(words)]
    shape = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    shape |= {"intermediate_size": 32, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    tf.set_seed(0)
    model = tf.BertForSequenceClassification(tf.BertConfig(**shape))
    how: dict[str, Any] = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "use_cpu": True}
    how |= {"per_device_train_batch_size": 8 // SIZE, "optim": "sgd", "lr_scheduler_type": "constant"}
    how |= {"gradient_accumulation_steps": 2, "learning_rate": 0.05, "max_steps": 10}
    how |= {"train_sampling_strategy": "sequential"}
    args = tf.TrainingArguments(os.environ["FOLDER"], **how)
    train = Stream(people[:N]) if stream else people[:N]
    trainer = FormlTrainer(model, args, train_dataset=train, exemplar_dataset=people[N:], num_samples=N)
    trainer.train()
    found = trainer.evaluate(people[N:-1])
    gaps = torch.tensor([found["eval_accuracy"], found["eval_tprd"], found["eval_max_fnr"]])
    return [trainer.reweighter.scores, gaps, *(p.detach() for p in model.parameters())]


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    found = {f"{name} {stream}": globals()[name](stream=stream) for name in names for stream in (False, True)}
    torch.save(found, Path(os.environ["FOLDER"]) / f"{RANK}.pt")
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
