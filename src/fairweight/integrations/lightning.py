"""Lightning: a callback that holds the method and draws exemplars, and the training step of manual optimization."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from fairweight.errors import BadInput, MissingDependency
from fairweight.integrations.accelerate import MANY
from fairweight.methods import Reweighter
from fairweight.methods._accumulation import Accumulation
from fairweight.methods.forml import FORML
from fairweight.sampling import Cells, ExemplarSampler
from fairweight.training.loader import begin, number_of
from fairweight.training.predict import predict
from fairweight.training.state import move
from fairweight.training.with_rows import to_batch
from fairweight.types import Batch, ObjectiveFunction, Samples, StepRecord

try:
    from lightning.pytorch import Callback
except ImportError:  # pragma: no cover - said in a sentence where it is missing
    raise MissingDependency("FormlCallback needs lightning; run pip install 'fairweight[lightning]'.") from None

_log = logging.getLogger("fairweight")


class FormlCallback(Callback):  # type: ignore[misc]
    """Holds the method of a training: makes it, draws its exemplars, keeps it in checkpoints and logs what it does.

    exemplars: held-out samples. objective: what to lower on them. per_cell: of each label (and group) in an exemplar
    batch. accumulate: batches that make one step, weighed as one. method: (model, num_samples) -> a method, in the
    place of FORML. num_samples: of the training set, where its loader does not say. gradient_clip_val: largest norm of
    the gradient, or with gradient_clip_algorithm="value" its largest entry; Lightning takes the Trainer's for automatic
    optimization alone.
    """

    def __init__(
        self,
        exemplars: Samples | None = None,
        *,
        objective: ObjectiveFunction | None = None,
        per_cell: int = 10,
        accumulate: int = 1,
        seed: int = 0,
        method: Callable[[nn.Module, int], Reweighter] | None = None,
        num_samples: int | None = None,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str = "norm",
    ) -> None:
        if accumulate < 1:
            raise BadInput(f"FormlCallback(accumulate={accumulate}): give the batches of a step, 1 or more.")
        self.exemplars, self.per_cell, self.accumulate, self.seed = exemplars, per_cell, accumulate, seed
        self._make_method = method or partial(FORML, objective=objective)  # Lightning pickles it to start processes
        self._num_samples = num_samples
        self._clip = gradient_clip_val, gradient_clip_algorithm
        self._method: Reweighter | None = None
        self._sampler: ExemplarSampler | None = None
        self._saved: dict[str, Any] | None = None
        self._batches_drawn = 0  # exemplar batches

    @property
    def method(self) -> Reweighter:
        """The method, with its scores; there from the start of a training on."""
        if self._method is None:
            raise BadInput("FormlCallback has no method before the training begins; call trainer.fit first.")
        return self._method

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Refuse what would be stepped twice."""
        if stage == "fit" and pl_module.automatic_optimization:
            raise BadInput("FORML steps the optimizer itself; set automatic_optimization = False in the module.")

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Make the method where it lives, or put back what a checkpoint holds."""
        if self._method is None or self._method.model is not pl_module:
            loader = trainer.train_dataloader
            if not isinstance(loader, DataLoader):
                raise BadInput(
                    "FormlCallback knows one DataLoader over fw.with_rows(dataset); give fit that one alone."
                )
            number = number_of(loader.dataset, "FormlCallback") if self._num_samples is None else self._num_samples
            self._method, self._batches_drawn = self._make_method(pl_module, number), 0
            begin(self._method, loader, self.exemplars)
        if self._saved is not None:
            self._method.load_state_dict(move(self._saved["method"], pl_module.device))
            self._batches_drawn, self._saved = int(self._saved["drawn"]), None

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Let the method look at what the model predicts, where it asks to."""
        self.method.on_epoch(trainer.current_epoch + 1, partial(predict, pl_module, ranks=self.method.ranks))

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Say so where the module never asked for a step: in manual optimization nobody else takes one."""
        if self.method.steps == 0:
            _log.warning("no batch went through FORML: call forml_step(self, batch) in the module's training_step")

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Clip the gradient, which a precision plugin has unscaled by now."""
        if self._clip[0] is not None:
            pl_module.clip_gradients(optimizer, *self._clip)

    def exemplar(self, trainer: Any, device: torch.device) -> Batch | None:
        """This process's part of the next exemplar batch."""
        if "exemplar" not in self.method.needs:
            return None
        if self.exemplars is None:
            raise BadInput("This method learns from held-out samples; give FormlCallback(exemplars=...).")
        if self._sampler is None:
            cells = Cells.of(self.exemplars.labels, self.exemplars.groups)
            self._sampler = ExemplarSampler(cells, self.per_cell, self.seed, device=self.exemplars.labels.device)
        rows = torch.arange(len(self._sampler)).tensor_split(trainer.world_size)[trainer.global_rank]
        self._batches_drawn += 1
        batch = self._sampler.batch(self.exemplars, self._batches_drawn - 1, rows).to(device)
        # Lightning converts training batches itself.
        return replace(batch, inputs=trainer.precision_plugin.convert_input(batch.inputs))

    def step(self, module: Any, batch: Any) -> Tensor | None:
        """One batch of a module's training step; the loss where a step was made."""
        trainer, method = module.trainer, self.method
        optimizer = module.optimizers()
        if isinstance(optimizer, list):
            raise BadInput("forml_step knows one optimizer; for several, call method.backward and step each yourself.")
        accumulation = method._accumulation = method._accumulation or Accumulation(MANY)
        if not accumulation.batches:
            optimizer.zero_grad()
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        exemplar = self.exemplar(trainer, module.device)
        method.backward(to_batch(batch, module.device), exemplar, optimizer.optimizer, scaler=scaler)
        if len(accumulation.batches) < self.accumulate and not trainer.is_last_batch:
            return None
        record = method._backward_held(accumulation)
        optimizer.step()
        if method.steps % max(1, trainer.log_every_n_steps) == 0 or trainer.is_last_batch:  # each costs a millisecond
            module.log_dict({f"forml/{name}": value for name, value in _numbers(record).items()})  # alike on every rank
        return record.loss

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {} if self._method is None else {"method": self._method.state_dict(), "drawn": self._batches_drawn}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep what a checkpoint held until the method is there."""
        self._saved = state_dict or None


@torch.compiler.disable  # type: ignore[untyped-decorator]  # Lightning compiles a compiled module's training_step
def forml_step(module: Any, batch: Any) -> Tensor | None:
    """The training step of a module with manual optimization, right under every strategy that replicates the model."""
    callbacks = [c for c in module.trainer.callbacks if isinstance(c, FormlCallback)]
    if len(callbacks) != 1:
        raise BadInput("forml_step takes its method from a callback; give the Trainer callbacks=[FormlCallback(...)].")
    return callbacks[0].step(module, batch)


def _numbers(record: StepRecord) -> dict[str, Tensor]:
    """What is logged of a step; gap: largest mean loss of a group of exemplars minus the smallest."""
    numbers = {"loss": record.loss, "effective_size": record.effective_size, "objective": record.objective}
    losses, groups = record.exemplar_losses, record.exemplar_groups
    if losses is not None and groups is not None and bool((groups >= 0).any()):
        means = torch.stack([losses[groups == g].mean() for g in torch.unique(groups[groups >= 0])])
        numbers["gap"] = means.max() - means.min()
    return {name: value for name, value in numbers.items() if value is not None}
