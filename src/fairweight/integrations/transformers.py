"""Hugging Face transformers: a Trainer whose loss is weighed by a method that learns from exemplars."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fairweight.errors import BadInput, MissingDependency
from fairweight.integrations.accelerate import Accelerated
from fairweight.metagradient.model import unwrap
from fairweight.methods import Reweighter
from fairweight.methods.forml import FORML
from fairweight.metrics import group_table
from fairweight.sampling import Cells, ExemplarSampler
from fairweight.training import state
from fairweight.training.with_rows import to_batch, with_rows
from fairweight.types import Batch, ObjectiveFunction, StepRecord

try:
    from transformers import Trainer
except ImportError:  # pragma: no cover - said in a sentence where it is missing
    raise MissingDependency("FormlTrainer needs transformers; run pip install 'fairweight[transformers]'.") from None

FILE = "fairweight.safetensors"  # beside the optimizer's state in a checkpoint
_OURS = ("rows", "groups")


class FormlTrainer(Trainer):  # type: ignore[misc]
    """A Trainer for classifiers: micro-batches of one update, of all processes, are weighed as one batch.

    exemplar_dataset: held-out samples, dicts with labels and, where there are any, groups. per_cell: of each label (and
    group) in an exemplar batch. objective: what to lower on them. method: (model, num_samples) -> a method, in the
    place of FORML. Scores lie beside each checkpoint, and resume_from_checkpoint goes on from them.
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
        **others: Any,
    ) -> None:
        rowed = None if train_dataset is None else with_rows(train_dataset)
        super().__init__(model, args, train_dataset=rowed, **others)
        self._made = method or (lambda net, number: FORML(net, number, objective))
        self._exemplars, self._per_cell = exemplar_dataset, per_cell
        self._cells: ExemplarSampler | None = None
        self._running: Accelerated | None = None
        self.record: StepRecord | None = None  # of the last step

    @property
    def reweighter(self) -> Reweighter:
        """The method, with its scores; made for the model when it is first asked for."""
        if self._running is None:
            if self.train_dataset is None:
                raise BadInput("FormlTrainer has no train_dataset to weigh; give one.")
            self._running = Accelerated(self.accelerator, self._made(unwrap(self.model), len(self.train_dataset)))
        return self._running.method

    def training_step(self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """Weigh the batch, or let it wait for the others of its update, and go backward."""
        method = self.reweighter
        assert self._running is not None
        model.train()
        batch = to_batch(self._prepare_inputs(inputs))
        exemplar = self._exemplar(method) if method.needs & {"exemplar", "exemplar groups"} else None
        self.record = self._running.backward(batch, exemplar, self.optimizer)
        return self.record.loss.detach().to(self.args.device)

    def _exemplar(self, method: Reweighter) -> Batch:
        """This process's part of the exemplars of the update."""
        if self._exemplars is None:
            raise BadInput(f"{type(method).__name__} learns from held-out samples; give FormlTrainer exemplar_dataset.")
        if self._cells is None:
            labels, groups = _labels(self._exemplars)
            self._cells = ExemplarSampler(Cells.of(labels, groups), self._per_cell, self.args.seed)
        # Each micro-batch of an update brings exemplars of its own.
        held = method._accumulation
        step = method.steps * self.args.gradient_accumulation_steps + (0 if held is None else len(held.batches))
        drawn = self._cells.rows(step).tensor_split(self.args.world_size)[self.args.process_index]
        items = [dict(self._exemplars[int(k)]) for k in drawn]
        return to_batch({**self._prepare_inputs(self.data_collator(items)), "rows": drawn.to(self.args.device)})

    def compute_loss(self, model: nn.Module, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The model's own loss, for evaluation, without what the model does not know."""
        return super().compute_loss(model, _known(inputs), *args, **kwargs)

    def prediction_step(self, model: nn.Module, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Without what the model does not know."""
        return super().prediction_step(model, _known(inputs), *args, **kwargs)

    def evaluation_loop(self, dataloader: Any, description: str, *args: Any, **kwargs: Any) -> Any:
        """Also the table by group, where the dataset has groups."""
        prefix = kwargs.get("metric_key_prefix", "eval")
        _, groups = _labels(dataloader.dataset)
        if groups is not None:
            kwargs["prediction_loss_only"], args = False, args[1:]
        found = super().evaluation_loop(dataloader, description, *args, **kwargs)
        if groups is not None and found.predictions is not None and len(groups) == found.num_samples:
            logits = found.predictions[0] if isinstance(found.predictions, tuple) else found.predictions
            table = group_table(torch.as_tensor(found.label_ids), torch.as_tensor(logits).argmax(-1), groups)
            numbers = {"accuracy": table.accuracy, "tprd": table.tprd, "max_fnr": table.max_fnr}
            found.metrics.update({f"{prefix}_{name}": float(value) for name, value in numbers.items()})
        return found

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
        kept = self.reweighter.state_dict()  # on every process: scores may lie on several
        if self.args.should_save:
            state.save(kept, Path(output_dir) / FILE)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None and (path := Path(checkpoint) / FILE).is_file():
            self.reweighter.load_state_dict(state.move(state.load(path), self.args.device))


def _known(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in inputs.items() if name not in _OURS}


def _labels(dataset: Any) -> tuple[Tensor, Tensor | None]:
    """The label of each sample, and its group where there are groups."""
    items = [dataset[k] for k in range(len(dataset))]
    if not items or not isinstance(items[0], Mapping):
        raise BadInput("FormlTrainer's datasets give dicts, with 'labels' and where there are any 'groups'.")
    name = next((n for n in ("labels", "label") if n in items[0]), None)
    if name is None:
        raise BadInput(f"A sample has no 'labels' but {', '.join(map(str, items[0]))}; name its label so.")
    groups = torch.tensor([int(item["groups"]) for item in items]) if "groups" in items[0] else None
    return torch.tensor([int(item[name]) for item in items]), groups
