"""What people put around the adapters: precision, clipping, other methods, other columns, uneven parts."""

from __future__ import annotations

import importlib.util
import os
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from tests.distributed.launch import ranks
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import fairweight as fw
from fairweight.errors import BadInput

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # frameworks warn about themselves
HERE = [name for name in ("accelerate", "transformers") if importlib.util.find_spec(name) is not None]


@pytest.mark.skipif(not HERE, reason="neither accelerate nor transformers is installed")
def test_rows_that_accelerate_repeats_do_not_count_twice(tmp_path: Path) -> None:
    folders = [tmp_path / str(size) for size in (1, 2)]
    for folder in folders:
        folder.mkdir()
    (one,), two = (ranks(size, folder, HERE, "tests.integrations.uneven") for size, folder in enumerate(folders, 1))
    for found in two:
        for name, numbers in one.items():
            assert float(numbers[0].std()) > 0.01
            for a, b in zip(numbers, found[name], strict=True):
                torch.testing.assert_close(b, a, rtol=1e-12, atol=1e-12, msg=name)


# -- Lightning -----------------------------------------------------------------------------------------

G = torch.Generator().manual_seed(0)
X, Y, A = torch.randn(100, 6, generator=G), torch.randint(3, (100,), generator=G), torch.randint(2, (100,), generator=G)
HELD, TRAIN = fw.Batch(X[60:], Y[60:], A[60:]), TensorDataset(X[:60], Y[:60], A[:60])


def lightning(loader: Any = None, callback: Any = None, **more: Any) -> tuple[Any, Any]:
    """The module and the callback of a training of two epochs."""
    L = pytest.importorskip("lightning", reason="lightning is not installed")
    from fairweight.integrations.lightning import FormlCallback, forml_step

    class Net(L.LightningModule):  # type: ignore[name-defined, misc]
        automatic_optimization = False

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.net = fw.MLP(6, 3)

        def forward(self, x: Tensor) -> Any:
            return self.net(x)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return forml_step(self, batch)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    callback = callback or FormlCallback(HELD, per_cell=2)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "max_epochs": 2}
    trainer = L.Trainer(accelerator="cpu", callbacks=[callback], enable_checkpointing=False, **quiet, **more)
    module = Net()
    trainer.fit(module, DataLoader(fw.with_rows(TRAIN), 16) if loader is None else loader)
    return module, callback


@pytest.mark.parametrize("precision", ["64-true", "bf16-true", "bf16-mixed"])
def test_exemplars_come_in_the_precision_of_the_plugin(precision: str) -> None:
    _, callback = lightning(precision=precision)
    assert float(callback.method.scores.std()) > 0.01


def test_lightning_clips_what_the_scaler_has_unscaled() -> None:
    pytest.importorskip("lightning", reason="lightning is not installed")
    from lightning.pytorch.plugins import MixedPrecision

    from fairweight.integrations.lightning import FormlCallback

    scaler = MixedPrecision("bf16-mixed", "cpu")
    scaler.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    found = [
        lightning(callback=FormlCallback(HELD, per_cell=2, gradient_clip_val=clip), plugins=[plugin])[0]
        for clip, plugin in ((0.05, scaler), (0.05, MixedPrecision("bf16-mixed", "cpu")), (None, scaler))
    ]
    scaled, plain, free = (torch.cat([p.detach().flatten() for p in module.parameters()]) for module in found)
    torch.testing.assert_close(scaled, plain, rtol=1e-3, atol=1e-4)
    assert float((free - plain).abs().max()) > 0.01


def test_a_callback_follows_the_module_that_it_is_given() -> None:
    first, callback = lightning()
    second, _ = lightning(callback=callback)
    assert first is not second
    assert callback.method.model is second
    assert callback.method.steps == 8


def test_methods_that_count_and_look_do_so_in_lightning() -> None:
    pytest.importorskip("lightning", reason="lightning is not installed")
    from fairweight.integrations.lightning import FormlCallback

    _, balanced = lightning(callback=FormlCallback(method=lambda m, n: fw.ClassBalanced(m, n, beta=1.0)))
    counts = torch.bincount(Y[:60])
    expected = 1.0 / counts[Y[:60]].double()
    torch.testing.assert_close(balanced.method.weights().double(), expected / expected.mean(), rtol=1e-5, atol=1e-6)
    _, jtt = lightning(callback=FormlCallback(method=lambda m, n: fw.JTT(m, n)))
    assert len(jtt.method.errors) > 0
    with pytest.raises(BadInput, match="draws its own rows"):
        lightning(callback=FormlCallback(method=lambda m, n: fw.ClassBalanced(m, n, through="sampling")))


def test_lightning_says_what_it_does_not_know() -> None:
    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Any:
            return iter(zip(X[:60], Y[:60], strict=True))

    with pytest.raises(BadInput, match="num_samples"):
        lightning(DataLoader(fw.with_rows(Stream()), 16))
    with pytest.raises(BadInput, match="one DataLoader"):
        lightning({"a": DataLoader(fw.with_rows(TRAIN), 16)})


def test_a_compiled_module_trains_as_it_does_plainly() -> None:
    """Lightning compiles its whole training_step."""
    L = pytest.importorskip("lightning", reason="lightning is not installed")
    plain, callback = lightning()
    fit = L.Trainer.fit
    with patch.object(
        L.Trainer, "fit", lambda self, module, *given: fit(self, torch.compile(module, backend="eager"), *given)
    ):
        again, other = lightning()
    assert torch.equal(callback.method.scores, other.method.scores)
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), again.parameters(), strict=True))


def test_a_callback_can_be_sent_to_other_processes() -> None:
    """As ddp_spawn does."""
    pytest.importorskip("lightning", reason="lightning is not installed")
    from fairweight.integrations.lightning import FormlCallback

    assert ForkingPickler.dumps(FormlCallback(HELD, objective=fw.MeanLoss()))


# -- transformers --------------------------------------------------------------------------------------

WORDS = torch.randint(1, 40, (120, 6), generator=torch.Generator().manual_seed(0)).tolist()
PEOPLE = [{"input_ids": ids, "labels": k % 2, "groups": k // 2 % 2} for k, ids in enumerate(WORDS)]


def trainer(folder: Path, people: Any = PEOPLE, *, dropout: float = 0.0, given: Any = None, **how: Any) -> Any:
    tf = pytest.importorskip("transformers", reason="transformers is not installed")
    from fairweight.integrations.transformers import FormlTrainer

    os.environ["TQDM_DISABLE"] = "1"
    shape = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    shape |= {"intermediate_size": 32, "hidden_dropout_prob": dropout, "attention_probs_dropout_prob": 0.0}
    tf.set_seed(0)
    model = tf.BertForSequenceClassification(tf.BertConfig(**shape))
    usual: dict[str, Any] = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "use_cpu": True, "seed": 0}
    usual |= {"per_device_train_batch_size": 8, "max_steps": 6, "learning_rate": 0.01}
    args = tf.TrainingArguments(str(folder), **(usual | how))
    parts = {"train_dataset": people[:60], "exemplar_dataset": people[60:90], "eval_dataset": people[90:]}
    return FormlTrainer(model, args, **parts, **(given or {}))


def numbers(found: Any) -> list[Tensor]:
    return [found.reweighter.scores.clone(), *(p.detach().clone() for p in found.model.parameters())]


def test_a_trainer_resumes_in_the_middle_of_an_epoch_with_dropout(tmp_path: Path) -> None:
    how = {"dropout": 0.1, "save_strategy": "steps", "save_steps": 2, "gradient_accumulation_steps": 2}
    whole, again = (trainer(tmp_path, **how) for _ in range(2))
    whole.train()
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert all(torch.equal(a, b) for a, b in zip(numbers(whole), numbers(again), strict=True))


def test_columns_that_nobody_knows_and_texts_of_any_length(tmp_path: Path) -> None:
    """A collator that pads and refuses texts, as a tokenizer does; exemplars of several micro-batches fit together."""

    def padded(items: list[dict[str, Any]]) -> dict[str, Tensor]:
        assert all("text" not in item for item in items)
        longest = max(len(item["input_ids"]) for item in items)
        full = [{**item, "input_ids": item["input_ids"] + [0] * (longest - len(item["input_ids"]))} for item in items]
        return {key: torch.tensor([item[key] for item in full]) for key in items[0]}

    texts = [{**p, "input_ids": p["input_ids"][: 1 + k % 6], "text": "words"} for k, p in enumerate(PEOPLE)]  # type: ignore[index]
    given = {"data_collator": padded, "per_cell": 1}
    found = trainer(tmp_path, texts, given=given, gradient_accumulation_steps=3)
    found.train()
    assert float(found.reweighter.scores.std()) > 0.01
    assert {"eval_accuracy", "eval_tprd"} <= set(found.evaluate())


def test_exemplars_stand_for_their_natural_shares(tmp_path: Path) -> None:
    """As in fit and Lightning: drawn evenly by cell, counted as often as the cells are there."""
    uneven = [{**p, "labels": int(k % 10 == 0)} for k, p in enumerate(PEOPLE)]
    found = trainer(tmp_path, uneven)
    found.train()
    shares = found._exemplar.shares
    assert shares is not None
    positive = found._exemplar.labels == 1
    assert float(shares[positive].sum() / shares.sum()) == pytest.approx(0.1)


def test_evaluation_takes_what_has_no_labels_and_what_streams(tmp_path: Path) -> None:
    found = trainer(tmp_path)
    found.train()
    unlabelled = [{"input_ids": p["input_ids"]} for p in PEOPLE[90:]]
    assert found.predict(unlabelled).predictions.shape == (30, 2)

    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Any:
            return iter(PEOPLE[90:])

    listed, streamed = found.evaluate(), found.evaluate(Stream())
    assert all(streamed[f"eval_{name}"] == listed[f"eval_{name}"] for name in ("accuracy", "tprd", "max_fnr"))


def test_the_best_model_comes_with_its_own_scores(tmp_path: Path) -> None:
    how = {"save_strategy": "steps", "save_steps": 2, "eval_strategy": "steps", "eval_steps": 2}
    found = trainer(tmp_path, load_best_model_at_end=True, metric_for_best_model="eval_loss", **how)
    found.train()
    assert found.state.best_model_checkpoint.endswith(f"-{found.reweighter.steps}")


def test_a_new_model_of_model_init_gets_a_method_of_its_own(tmp_path: Path) -> None:
    """As each trial of hyperparameter_search does."""
    found = trainer(tmp_path, max_steps=2)
    found.model_init = lambda: trainer(tmp_path).model
    found.train()
    first, numbers_of_first = found.model, numbers(found)
    found.train()
    assert found.model is not first
    assert all(torch.equal(a, b) for a, b in zip(numbers(found), numbers_of_first, strict=True))


def test_a_loss_that_would_be_passed_over_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="label_smoothing_factor"):
        trainer(tmp_path, label_smoothing_factor=0.1)
    with pytest.raises(BadInput, match="compute_loss_func"):
        trainer(tmp_path, given={"compute_loss_func": lambda *_: None})
