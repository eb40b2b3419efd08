"""Lightning, transformers and accelerate: two processes give what one gives, and a training resumes where it stood."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = 1e-12  # in float64
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # frameworks warn about themselves


def _needs(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


def _start(code: str, processes: int = 1) -> None:
    """Run a script once, or on several processes by torchrun."""
    many = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)] if processes > 1 else []
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "examples"), str(ROOT)])
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, *many, code], env=env, capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


def _same(one: Path, two: Path, tolerance: float = TOLERANCE) -> None:
    first, second = (torch.load(path, weights_only=True) for path in (one, two))
    assert float(first[0].std()) > 0.01  # scores: something was learned
    for a, b in zip(first, second, strict=True):
        torch.testing.assert_close(b, a, rtol=tolerance, atol=tolerance)


ACCELERATE = """
import os, torch
from accelerate_loop import main
size = int(os.environ.get("WORLD_SIZE", "1"))
scores = main(1, 64 // size)
if os.environ.get("RANK", "0") == "0":
    torch.save([scores], f"{out}/{{size}}.pt")
if size == 1:
    main(1, 64, save="{out}/state")
    torch.save([main(1, 64, load="{out}/state")], "{out}/resumed.pt")
    torch.save([main(2, 64)], "{out}/whole.pt")
"""

TRANSFORMERS = """
import os, torch
torch.set_default_dtype(torch.float64)
from transformers_trainer import main
size = int(os.environ.get("WORLD_SIZE", "1"))
how = dict(per_device_train_batch_size=16 // size, gradient_accumulation_steps=2)
how |= dict(optim="sgd", lr_scheduler_type="constant")
def kept(trainer, name):
    if trainer.args.process_index == 0:
        numbers = [trainer.reweighter.scores, *(p.detach() for p in trainer.model.parameters())]
        torch.save(numbers, f"{out}/{{name}}.pt")
trainer = main(f"{out}/run_{{size}}", 8, **how)
kept(trainer, size)
found = trainer.evaluate()
assert set(found) >= {{"eval_loss", "eval_accuracy", "eval_tprd", "eval_max_fnr"}}, found
if size == 1:
    assert os.path.isfile("{out}/run_1/checkpoint-8/fairweight.safetensors")
    kept(main("{out}/run_1", 12, resume=True, **how), "resumed")
    kept(main("{out}/whole", 12, **how), "whole")
"""


@pytest.mark.parametrize(("package", "script"), [("accelerate", ACCELERATE), ("transformers", TRANSFORMERS)])
def test_two_processes_and_a_resume(package: str, script: str, tmp_path: Path) -> None:
    _needs(package)
    code = tmp_path / "run.py"
    code.write_text(script.format(out=tmp_path))
    _start(str(code))
    _start(str(code), 2)
    _same(tmp_path / "1.pt", tmp_path / "2.pt")
    _same(tmp_path / "whole.pt", tmp_path / "resumed.pt", 0.0)


def test_lightning_on_two_processes(tmp_path: Path) -> None:
    _needs("lightning")
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "examples"), str(ROOT)])
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    for devices in (1, 2):
        run = str(ROOT / "tests" / "integrations" / "lightning_run.py")
        command = [sys.executable, run, str(devices), str(tmp_path / f"{devices}.pt")]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=150, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    _same(tmp_path / "1.pt", tmp_path / "2.pt")


def test_lightning_resumes_with_its_scores(tmp_path: Path) -> None:
    _needs("lightning")
    from tests.integrations.lightning_run import train

    whole, forml = train(1, epochs=4)
    first, _ = train(1, epochs=2)
    first.save_checkpoint(tmp_path / "two.ckpt")
    again, resumed = train(1, epochs=4, resume=str(tmp_path / "two.ckpt"))
    assert again.global_step == whole.global_step == forml.method.steps
    assert torch.equal(resumed.method.scores, forml.method.scores)
    assert {"forml/objective", "forml/gap", "forml/effective_size"} <= set(whole.callback_metrics)


def test_lightning_refuses_automatic_optimization() -> None:
    _needs("lightning")
    from fairweight.errors import BadInput
    from fairweight.integrations.lightning import FormlCallback

    class Module:
        automatic_optimization = True

    with pytest.raises(BadInput, match="automatic_optimization"):
        FormlCallback().setup(None, Module(), "fit")


def test_a_step_inside_accelerates_accumulation_is_refused() -> None:
    import fairweight as fw
    from fairweight.errors import BadInput

    class State:
        num_steps, sync_gradients = 4, False

    model: Any = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.gradient_state = State()  # type: ignore[attr-defined]
    batch = fw.Batch(torch.zeros(2, 2), torch.tensor([0, 1]), rows=torch.arange(2))
    with pytest.raises(BadInput, match="accumulate"):
        fw.Uniform(model, 2).step(batch, None, optimizer)
