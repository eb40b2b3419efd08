"""Hugging Face transformers: a Trainer whose loss is weighed by a method that learns from exemplars."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from fairweight.errors import BadInput, MissingDependency
from fairweight.integrations.accelerate import Accelerated
from fairweight.metagradient.model import unwrap
from fairweight.methods import Reweighter
from fairweight.methods.forml import FORML
from fairweight.metrics import group_table
from fairweight.sampling import Cells, ExemplarSampler
from fairweight.training import state
from fairweight.training.loader import LoaderSamples, begin, number_of
from fairweight.training.predict import predict
from fairweight.training.with_rows import Stream, to_batch, with_rows
from fairweight.types import Batch, ObjectiveFunction, StepRecord

try:
    from transformers import Trainer, TrainerCallback
except ImportError:  # pragma: no cover - said in a sentence where it is missing
    raise MissingDependency("FormlTrainer needs transformers; run pip install 'fairweight[transformers]'.") from None

FILE = "fairweight.safetensors"  # beside the optimizer's state in a checkpoint
_OURS = ("rows", "groups")


class _Epochs(TrainerCallback):  # type: ignore[misc]
    """Shows the method what the model predicts after each epoch, if it asks for that."""

    def __init__(self, trainer: FormlTrainer) -> None:
        self.trainer = trainer

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        method = self.trainer.reweighter
        method.on_epoch(round(state.epoch), partial(predict, method.model, ranks=method.ranks))


class FormlTrainer(Trainer):  # type: ignore[misc]
    """A Trainer for classifiers: micro-batches of one update, of all processes, are weighed as one batch.

    exemplar_dataset: held-out samples, dicts with labels and, where there are any, groups. per_cell: of each label (and
    group) in an exemplar batch. objective: what to lower on them. method: (model, num_samples) -> a method, in the
    place of FORML. num_samples: of the training set, where it does not say. Scores lie beside each checkpoint, and
    resume_from_checkpoint goes on from them.
    """

    def __init__(
        self,
        model: Any = None,
        args: Any = None,
        *,
        train_dataset: Any = None,
        exemplar_dataset: Any = None,
        objective: ObjectiveFunction | None = None,
        per_cell: int = 4,
        method: Callable[[nn.Module, int], Reweighter] | None = None,
        num_samples: int | None = None,
        **others: Any,
    ) -> None:
        rowed = None if train_dataset is None else with_rows(train_dataset)
        rowed = rowed.undivided() if isinstance(rowed, Stream) else rowed  # accelerate divides it over processes
        super().__init__(model, args, train_dataset=rowed, **others)
        if self.args.label_smoothing_factor or others.get("compute_loss_func") is not None:
            raise BadInput(
                "FormlTrainer weighs each sample's own loss; leave label_smoothing_factor and compute_loss_func out, "
                "and give another loss by method=lambda model, n: fw.FORML(model, n, loss=...)."
            )
        self._make_method = method or partial(FORML, objective=objective)
        self._exemplars, self._per_cell, self._num_samples = exemplar_dataset, per_cell, num_samples
        self._sampler: ExemplarSampler | None = None
        self._exemplar: Batch | None = None  # this process's part of the exemplars of the update
        self._accelerated: Accelerated | None = None
        self._last: Any = None  # the last batch of the epoch
        self._groups: list[Tensor] = []  # of what is being evaluated
        self.record: StepRecord | None = None  # of the last step
        self.add_callback(_Epochs(self))

    @property
    def reweighter(self) -> Reweighter:
        """The method, with its scores; made for the model when it is first asked for."""
        if self._accelerated is None:
            if self.train_dataset is None:
                raise BadInput("FormlTrainer has no train_dataset to weigh; give one.")
            number = number_of(self.train_dataset, "FormlTrainer") if self._num_samples is None else self._num_samples
            method = self._make_method(unwrap(self.model), number)
            begin(method, self._samples(self.train_dataset).loader, self._exemplar_samples)
            self._accelerated = Accelerated(self.accelerator, method)
        return self._accelerated.method

    def call_model_init(self, trial: Any = None) -> Any:
        """A new model, of another training or trial, gets a method of its own."""
        self._accelerated = None
        return super().call_model_init(trial)

    def _samples(self, rowed: Any) -> LoaderSamples:
        """A dataset's samples by row, collated as the Trainer does, without columns that nobody knows."""
        collate = self._get_collator_with_removed_columns(self.data_collator)
        return LoaderSamples(DataLoader(rowed, collate_fn=collate), self._num_samples or 0)

    @cached_property
    def _exemplar_samples(self) -> LoaderSamples | None:
        return None if self._exemplars is None else self._samples(with_rows(self._exemplars))

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: Any) -> Any:
        """The micro-batches of an update, read before the first of them is run; which of them ends the epoch."""
        batches_and_count = super().get_batch_samples(epoch_iterator, num_batches, device)
        batches, state = batches_and_count[0], self.accelerator.gradient_state
        self._last = batches[-1] if batches and (len(batches) < num_batches or state.end_of_dataloader) else None
        return batches_and_count

    def training_step(self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """Weigh the batch, or let it wait for the others of its update, and go backward."""
        method = self.reweighter
        assert self._accelerated is not None
        assert method._accumulation is not None
        model.train()
        batch = to_batch(self._prepare_inputs(inputs))
        if not method._accumulation.batches and "exemplar" in method.needs:
            self._exemplar = self._draw_exemplars(method)
        self.record = self._accelerated.backward(batch, self._exemplar, self.optimizer, last=inputs is self._last)
        return self.record.loss.detach().to(self.args.device)

    def _draw_exemplars(self, method: Reweighter) -> Batch:
        """This process's part of the exemplars of an update: those of all its micro-batches, padded alike."""
        samples = self._exemplar_samples
        if samples is None:
            raise BadInput(f"{type(method).__name__} learns from held-out samples; give FormlTrainer exemplar_dataset.")
        if self._sampler is None:
            per_cell = self._per_cell * self.args.gradient_accumulation_steps
            self._sampler = ExemplarSampler(Cells.of(samples.labels, samples.groups), per_cell, self.args.seed)
        rows = torch.arange(len(self._sampler)).tensor_split(self.args.world_size)[self.args.process_index]
        return self._sampler.batch(samples, method.steps, rows).to(self.args.device)

    def compute_loss(self, model: nn.Module, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The model's own loss, for evaluation, without what the model does not know."""
        return super().compute_loss(model, _model_inputs(inputs), *args, **kwargs)

    def prediction_step(self, model: nn.Module, inputs: Any, prediction_loss_only: bool, **kwargs: Any) -> Any:
        """Leave out what the model does not know; keep groups, and the predictions that their table needs."""
        if "groups" in inputs:
            groups = self._prepare_inputs({"groups": inputs["groups"]})["groups"]
            self._groups.append(self.accelerator.gather_for_metrics(groups).cpu())
            prediction_loss_only = False
        return super().prediction_step(model, _model_inputs(inputs), prediction_loss_only, **kwargs)

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Also the table by group, where the dataset has groups."""
        self._groups = []
        output = super().evaluation_loop(*args, **kwargs)
        if self._groups and output.predictions is not None and output.label_ids is not None:
            logits = output.predictions[0] if isinstance(output.predictions, tuple) else output.predictions
            predictions, groups = torch.as_tensor(logits).argmax(-1), torch.cat(self._groups)
            table = group_table(torch.as_tensor(output.label_ids), predictions, groups)
            prefix = kwargs.get("metric_key_prefix", "eval")
            numbers = {"accuracy": table.accuracy, "tprd": table.tprd, "max_fnr": table.max_fnr}
            output.metrics.update({f"{prefix}_{name}": float(value) for name, value in numbers.items()})
        return output

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Add the objective and the effective size of the last update."""
        if self.record is not None and "loss" in logs and len(self.record.weights):
            logs["effective_size"] = float(self.record.effective_size)
            if self.record.objective is not None:
                logs["objective"] = float(self.record.objective)
        super().log(logs, *args, **kwargs)

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        known: list[str] = list(getattr(self, "_signature_columns", ()))
        self._signature_columns = [*known, *(name for name in _OURS if name not in known)]

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        scores = self.reweighter.state_dict()  # on every process: scores may lie on several
        if self.args.should_save:
            state.save(scores, Path(output_dir) / FILE)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        self._load_scores(checkpoint)

    def _load_best_model(self) -> None:
        super()._load_best_model()
        self._load_scores(self.state.best_model_checkpoint)  # those that made this model

    def _load_scores(self, checkpoint: str | None) -> None:
        if checkpoint is not None and (path := Path(checkpoint) / FILE).is_file():
            self.reweighter.load_state_dict(state.move(state.load(path), self.args.device))


def _model_inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in inputs.items() if name not in _OURS}
