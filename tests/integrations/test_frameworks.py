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
from tests.tables import real

ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = 1e-12  # in float64
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # frameworks warn about themselves


NAMES = ("accelerate", "transformers", "lightning")
HERE = tuple(name for name in NAMES if importlib.util.find_spec(name) is not None)


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All examples in two launches: of one process, which is also killed and resumed, and of two."""
    folder = tmp_path_factory.mktemp("examples")
    for torchrun in ((), ("-m", "torch.distributed.run", "--nproc-per-node", "2")):
        env = {**os.environ, "OMP_NUM_THREADS": "1", "FAIRWEIGHT_DATA": str(real("adult"))}
        env["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        command = [sys.executable, *torchrun, "-m", "tests.integrations.run_examples", str(folder), *HERE]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_two_processes_and_a_killed_training_give_the_same_numbers(name: str, request: pytest.FixtureRequest) -> None:
    if name not in HERE:
        pytest.skip(f"{name} is not installed")
    folder = request.getfixturevalue("numbers")
    one, two, resumed = (
        torch.load(folder / f"{name}_{which}.pt", weights_only=True) for which in ("1", "2", "resumed")
    )
    assert float(one[0].std()) > 0.01  # scores: something was learned
    assert all(torch.equal(a, b) for a, b in zip(one, resumed, strict=True))
    for a, b in zip(one, two, strict=True):
        torch.testing.assert_close(b, a, rtol=TOLERANCE, atol=TOLERANCE)
    assert float((folder / f"{name}_1.txt").read_text()) < 30  # seconds


def test_examples_are_short() -> None:
    for name in ("accelerate_loop", "lightning_adult", "transformers_trainer", "ray_train"):
        assert len((ROOT / "examples" / f"{name}.py").read_text().splitlines()) <= 40, name


def test_bf16_gives_the_score_gradient_of_float32_but_for_rounding(tmp_path: Path) -> None:
    """The gradient, not the scores: an adaptive step makes as much of a small gradient as of a large one."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    from fairweight.integrations.transformers import FormlTrainer

    shape = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    shape |= {"intermediate_size": 64, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    quiet = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "use_cpu": True, "seed": 0, "max_steps": 1}
    found = []
    for bf16 in (False, True):
        transformers.set_seed(0)
        model = transformers.BertForSequenceClassification(transformers.BertConfig(**shape))
        with torch.no_grad():  # sure of itself, or the gradients of balanced exemplars would almost cancel
            model.classifier.bias.copy_(torch.tensor([1.5, -1.5]))
        words = torch.randint(1, 40, (96, 6)).tolist()
        people = [{"input_ids": ids, "labels": k % 2, "groups": k // 2 % 2} for k, ids in enumerate(words)]
        args = transformers.TrainingArguments(str(tmp_path), per_device_train_batch_size=32, bf16=bf16, **quiet)
        trainer = FormlTrainer(model, args, train_dataset=people[:64], exemplar_dataset=people[64:])
        trainer.train()
        found.append(trainer.record.gradient)
    assert 0 < float((found[1] - found[0]).norm() / found[0].norm()) < 0.03


def test_lightning_refuses_automatic_optimization() -> None:
    pytest.importorskip("lightning", reason="lightning is not installed")
    from fairweight.errors import BadInput
    from fairweight.integrations.lightning import FormlCallback

    class Module:
        automatic_optimization = True

    with pytest.raises(BadInput, match="automatic_optimization"):
        FormlCallback().setup(None, Module(), "fit")


@pytest.mark.parametrize("asked", [True, False])
def test_lightning_says_where_no_step_was_asked_for(asked: bool, caplog: pytest.LogCaptureFixture) -> None:
    lightning = pytest.importorskip("lightning", reason="lightning is not installed")
    import fairweight as fw
    from fairweight.integrations.lightning import FormlCallback, forml_step

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        automatic_optimization = False

        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> Any:
            return self.net(x)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

        def training_step(self, batch: Any, index: int) -> Any:
            return forml_step(self, batch) if asked else None

    held = fw.Batch(torch.randn(8, 2), torch.arange(8) % 2)
    rows = fw.with_rows(torch.utils.data.TensorDataset(held.inputs, held.labels))
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", devices=1, enable_checkpointing=False, callbacks=[FormlCallback(held)], **quiet
    )
    trainer.fit(Module(), torch.utils.data.DataLoader(rows, 4))
    assert ("forml_step" in caplog.text) != asked


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
