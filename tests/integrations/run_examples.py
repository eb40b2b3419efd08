"""The examples, one after the other: alone, killed and resumed, or on several processes; leaves their numbers.

python -m tests.integrations.run_examples FOLDER NAME...        or by torchrun
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, DistributedSampler

from fairweight.methods import Reweighter

ROOT = Path(__file__).resolve().parents[2]
SIZE, RANK = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
Numbers = list[torch.Tensor]


def accelerate(folder: Path) -> Numbers:
    """Two epochs of eight steps, with a checkpoint after each."""
    return [importlib.import_module("accelerate_loop").main(2, 64, str(folder))]


def transformers(folder: Path) -> Numbers:
    """Eight steps, with a checkpoint after four."""
    torch.set_default_dtype(torch.float64)
    how = {"per_device_train_batch_size": 16 // SIZE, "gradient_accumulation_steps": 2}
    how |= {"optim": "sgd", "lr_scheduler_type": "constant"}
    resume = (folder / "checkpoint-4").is_dir()
    trainer = importlib.import_module("transformers_trainer").main(str(folder), 8, resume=resume, **how)
    assert (folder / "checkpoint-8" / "fairweight.safetensors").is_file()
    found = trainer.evaluate()
    assert {"eval_loss", "eval_accuracy", "eval_tprd", "eval_max_fnr"} <= set(found), found
    torch.set_default_dtype(torch.float32)
    return [trainer.reweighter.scores, *(p.detach() for p in trainer.model.parameters())]


def lightning(folder: Path) -> Numbers:
    """Two epochs of eight steps, with a checkpoint after each."""
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "max_epochs": 2}
    quiet |= {"devices": SIZE, "strategy": "ddp" if SIZE > 1 else "auto", "default_root_dir": str(folder)}
    saved = sorted(folder.glob("**/*.ckpt"))
    example: Any = importlib.import_module("lightning_adult")
    if SIZE > 1:  # in the order of one process: Lightning would shuffle
        quiet["use_distributed_sampler"] = False
        example.DataLoader = lambda data, size: DataLoader(
            data, size, sampler=DistributedSampler(data, SIZE, RANK, False)
        )
    forml = example.main(1024, str(saved[-1]) if saved else None, **quiet)
    module: Any = forml.method.model
    assert module.trainer.global_step == forml.method.steps == 16
    assert {"forml/objective", "forml/gap", "forml/effective_size"} <= set(module.trainer.callback_metrics)
    if RANK == 0:
        kept = torch.load(sorted(folder.glob("**/*.ckpt"))[-1], weights_only=False)  # our own file
        (held,) = [state for key, state in kept["callbacks"].items() if "Forml" in key]
        assert torch.equal(held["method"]["own"], forml.method.scores)
    return [forml.method.scores, *(p.detach() for p in module.parameters())]


STEP = {"accelerate": 12, "transformers": 6, "lightning": 12}  # in which the training is killed


def killed(run: Callable[[Path], Numbers], folder: Path, step: int) -> None:
    """The same in a process that ends in the middle of a step, as by a loss of power."""
    child = os.fork()
    if child == 0:
        whole = Reweighter._backward_held

        def last(method: Reweighter, held: Any) -> Any:
            if method.steps == step - 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return whole(method, held)

        Reweighter._backward_held = last  # type: ignore[method-assign]
        run(folder)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL, status


def main(folder: Path, names: list[str]) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.path.insert(0, str(ROOT / "examples"))
    for name in names:
        run = globals()[name]
        if SIZE == 1:
            killed(run, folder / f"{name}_killed", STEP[name])
            torch.save(run(folder / f"{name}_killed"), folder / f"{name}_resumed.pt")
        began = time.monotonic()
        found = run(folder / f"{name}_{SIZE}")
        if RANK == 0:
            torch.save(found, folder / f"{name}_{SIZE}.pt")
            (folder / f"{name}_{SIZE}.txt").write_text(str(time.monotonic() - began))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
