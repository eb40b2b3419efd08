"""The loop of a run, from the step it stands at to its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from fairweight import signals
from fairweight.errors import BadInput, LossNotFinite
from fairweight.fast.cuda_graph import CapturedStep
from fairweight.metagradient.model import trainable, unwrap
from fairweight.methods import Reweighter, current_lr
from fairweight.sampling import generator
from fairweight.step import update
from fairweight.training import state
from fairweight.training._ranks import check_alike
from fairweight.training.batches import Batches
from fairweight.training.callbacks import EarlyStopping, Observer, Progress, Watch
from fairweight.training.checkpoint import Checkpoint, restore, run_state
from fairweight.training.epoch_sums import EpochSums
from fairweight.training.history import Dynamics
from fairweight.training.loader import LoaderBatches, LoaderSamples
from fairweight.training.log import Log
from fairweight.training.options import Augment, FitOptions, Scheduler
from fairweight.training.predict import predict, validation_numbers
from fairweight.training.run_record import RunRecord
from fairweight.types import Batch, Samples, StepRecord

_TakeStep = Callable[[Batch, Batch | None], StepRecord]
_CURE = "Lower the learning rate or clip the gradient."


@dataclass
class Training:
    """One run: what it is given and where it stands; `go` trains to its end."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    reweighter: Reweighter
    train: Samples
    exemplar: Samples | None
    epochs: int
    observers: tuple[Observer, ...]
    validation: Samples | None
    scheduler: Scheduler | None
    augment: Augment | None
    dynamics: Dynamics | None
    out: Path | None
    resume: bool
    options: FitOptions

    def __post_init__(self) -> None:
        self._check()
        self.device = next(iter(trainable(unwrap(self.model)).values())).device
        self.ranks = self.reweighter.ranks
        self.first = self.ranks is None or self.ranks.first  # one process writes and speaks for all
        self.reweighter.gathers_logits = self.dynamics is not None  # for margins
        kind = LoaderBatches if isinstance(self.train, LoaderSamples) else Batches
        given = self.exemplar, self.reweighter, self.augment, self.options, self.device, self.ranks
        self.batches = kind(self.train, *given)
        if not self.first:
            self.observers = tuple(o for o in self.observers if not isinstance(o, Progress))
        self.watch = next((o for o in self.observers if isinstance(o, Watch)), None) or Watch()
        self.early = next((o for o in self.observers if isinstance(o, EarlyStopping)), None)
        if self.watch not in self.observers:
            self.observers = (*self.observers, self.watch)
        self.log = Log(self.out) if self.out is not None and self.first else None
        every = self.options.checkpoint_every
        self.checkpoint = None if self.out is None else Checkpoint(self.out, self._identity(), every)
        self.captured: CapturedStep | None = None
        compared = self.train.labels if self.train.groups is None else self.train.groups
        self.sums = EpochSums(int(compared.max()) + 1, self.device)
        self.step = 0  # steps taken
        self.history: list[dict[str, Any]] = []  # one summary per epoch
        self.best: dict[str, Tensor] | None = None  # the model that EarlyStopping keeps
        self.best_method: dict[str, Any] | None = None  # what the method had learned by then
        self.stopped = "interrupted"  # until the run ends in another way
        self.seconds = 0.0
        self._logged_warnings = 0
        if self.ranks is not None:
            check_alike(self.ranks, self)

    def _check(self) -> None:
        name, made_for = type(self.reweighter).__name__, self.reweighter.num_samples
        if made_for != len(self.train):
            raise BadInput(
                f"{name} was made for {made_for} samples and train has {len(self.train)}; give num_samples=len(train)."
            )
        if unwrap(self.reweighter.model) is not unwrap(self.model):
            raise BadInput(f"{name} was made for another model; make it with the model you train.")
        if any(type(p).__name__ == "DTensor" for p in self.model.parameters()):
            raise BadInput(
                "fit keeps checkpoints of whole models, and this one lies in pieces (fully_shard); train it in a loop "
                "of your own with step(batch, exemplar, optimizer), or leave fully_shard out."
            )
        if isinstance(self.scheduler, ReduceLROnPlateau) and self.validation is None:
            raise BadInput("ReduceLROnPlateau needs a number to watch; pass validation= to fit, or another scheduler.")

    def _identity(self) -> dict[str, Any]:
        return {
            "method": type(self.reweighter).__name__,
            "num_samples": len(self.train),
            "parameters": sum(p.numel() for p in unwrap(self.model).parameters()),
            "batch_size": self.options.batch_size,
            "seed": self.options.seed,
            "optimizer": type(self.optimizer).__name__,
        }

    def go(self) -> RunRecord:
        started = time.monotonic()
        self._start()
        started -= self.seconds  # of the run before it was stopped
        take_step = self._choose_step()
        self.model.train()
        open_checkpoint = nullcontext() if self.checkpoint is None else closing(self.checkpoint)
        with closing(self.batches), open_checkpoint, signals.safe_points() as asked_to_stop:
            while self.step < self.epochs * len(self.batches) and self.stopped == "interrupted":
                batch, exemplar = self.batches.train(self.step), self.batches.exemplar(self.step)
                try:
                    with self._autocast():
                        record = take_step(batch, exemplar)
                except LossNotFinite as error:
                    raise self._not_finite(self.step, str(error)) from error
                self._record_step(batch, record)
                self.step += 1
                self.seconds = time.monotonic() - started
                if self.step % len(self.batches) == 0:
                    self._end_epoch(self.step // len(self.batches))
                elif self.checkpoint is not None and self._due(self.checkpoint, asked_to_stop()):
                    self._save()
                if asked_to_stop():
                    raise KeyboardInterrupt
        return self._end()

    def _start(self) -> None:
        rank = 0 if self.ranks is None else self.ranks.rank
        torch.manual_seed(generator("rank", self.options.seed, rank).initial_seed() if rank else self.options.seed)
        self.reweighter.begin(self.train, self.exemplar)
        saved = self.checkpoint.load() if self.resume and self.checkpoint is not None else None
        if saved is not None:
            restore(self, saved)
            self._logged_warnings = len(self.watch.warnings)
        if self.log is not None:
            self.log.start(self.step)
            self.log.add("resume" if self.step else "start", self.step, epochs=self.epochs, **self._identity())
        for observer in self.observers:
            observer.on_start(self.epochs, len(self.batches), self.step)
        if self.options.compile:
            self.reweighter.compile()

    def _choose_step(self) -> _TakeStep:
        clip_norm = self.options.clip_norm
        if self.options.accumulate > 1:
            return self._accumulate
        if self.options.capture and self.device.type == "cuda" and self.ranks is None:
            self.captured = CapturedStep(self.reweighter, self.optimizer, clip_norm=clip_norm)
            return self.captured
        return lambda batch, exemplar: self.reweighter.step(batch, exemplar, self.optimizer, clip_norm=clip_norm)

    def _accumulate(self, batch: Batch, exemplar: Batch | None) -> StepRecord:
        k, position = self.options.accumulate, self.step % len(self.batches)
        if position % k == 0:
            self.optimizer.zero_grad()
        members = min(k, len(self.batches) - position // k * k)  # the last group of an epoch may be smaller
        record = self.reweighter.backward(batch, exemplar, self.optimizer, scale=1.0 / members)
        if position % k == members - 1:
            update(self.optimizer, self.options.clip_norm)
        return record

    def _autocast(self) -> AbstractContextManager[Any]:
        dtype = self.options.autocast
        return nullcontext() if dtype is None else torch.autocast(self.device.type, dtype=dtype)

    def _record_step(self, batch: Batch, record: StepRecord) -> None:
        batch = batch if record.batch is None else record.batch  # of all ranks
        self.sums.add(self.step, batch, record)
        if self.dynamics is not None and batch.rows is not None:
            self.dynamics.on_step(batch.rows, record)
        for observer in self.observers:
            observer.on_step(self.step, record)

    def _not_finite(self, step: int, what: str) -> LossNotFinite:
        self.stopped = "loss not finite"
        rows = self.batches.rows(step)[:8].tolist()
        no_checkpoint = "no folder was given, so no checkpoint was written"
        checkpoint = no_checkpoint if self.checkpoint is None else self.checkpoint.describe()
        return LossNotFinite(f"Stopped at step {step} (batch rows {rows} ...): {what} For going back, {checkpoint}.")

    def _end(self) -> RunRecord:
        if self.stopped == "interrupted":
            self.stopped = "finished"
        if self.best is not None:
            unwrap(self.model).load_state_dict(self.best)
        if self.best_method is not None:  # the weights that made this model, not those of a later epoch
            self.reweighter.load_state_dict(self.best_method)
        if self.log is not None:
            self.log.add("end", self.step, stopped=self.stopped, seconds=self.seconds)
        best, warnings = None if self.early is None else self.early.best_epoch, list(self.watch.warnings)
        epochs = self.step // len(self.batches)
        return RunRecord(epochs, self.step, self.stopped, best, self.history, warnings, self.seconds)

    def _end_epoch(self, epoch: int) -> None:
        self._check_finite()
        self._share_buffers()
        summary = self._summary(epoch)
        self.history.append(summary)
        self.sums.clear()
        method = None if self.early is None else state.cloned(self.reweighter.state_dict())
        with self._autocast():
            self.reweighter.on_epoch(epoch, lambda samples: predict(self.model, samples, ranks=self.ranks))
        if self.captured is not None and (failure := self.captured.failure) is not None:
            self.watch.warn(f"slow steps: they could not be captured as a CUDA graph ({failure}), so each is launched.")
        reasons = [reason for o in self.observers if (reason := o.on_epoch(epoch, summary))]
        self.stopped = reasons[0] if reasons else self.stopped
        if self.ranks is not None:
            reasons = self.ranks.texts(self.stopped)
            self.stopped = next((reason for reason in reasons if reason != "interrupted"), self.stopped)
        if self.early is not None and self.early.improved:
            self.best, self.best_method = state.cloned(unwrap(self.model).state_dict()), method
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(summary["validation"]["loss" if self.scheduler.mode == "min" else "accuracy"])
        elif self.scheduler is not None:
            self.scheduler.step()
        if self.log is not None:
            self.log.add("epoch", self.step, **summary)
            for warning in self.watch.warnings[self._logged_warnings :]:
                self.log.add("warning", self.step, text=warning)
            self._logged_warnings = len(self.watch.warnings)
        self._save()

    def _check_finite(self) -> None:
        bad = self.sums.bad_step()
        if bad is not None:
            raise self._not_finite(bad, f"The loss is not finite. {_CURE}")
        learned = [p.detach() for p in unwrap(self.model).parameters() if p.requires_grad and p.is_floating_point()]
        if learned and not bool(torch.stack([p.isfinite().all() for p in learned]).all()):
            # the update of an epoch's last step shows in no loss of it
            raise self._not_finite(self.step - 1, f"The model is not finite after this step's update. {_CURE}")

    def _summary(self, epoch: int) -> dict[str, Any]:
        summary = {"epoch": epoch, "lr": current_lr(self.optimizer), **self.sums.summary()}
        scores = self.reweighter.scores
        if scores is None:
            summary.pop("effective_size")
        else:
            spread = float(scores.std()) if len(scores) > 1 else 0.0
            summary |= {"score_std": spread, "score_min": float(scores.min()), "score_max": float(scores.max())}
        if self.dynamics is not None:
            self.dynamics.on_epoch(scores, self.epochs, self.reweighter.weights())
        if self.validation is not None:
            grouped = self.exemplar is not None and self.exemplar.groups is not None
            with self._autocast():
                numbers = validation_numbers(self.model, self.reweighter, self.validation, grouped=grouped)
            summary["validation"] = numbers
        summary["seconds"] = round(self.seconds, 3)
        return summary

    def _due(self, checkpoint: Checkpoint, asked: bool) -> bool:
        """Whether to save now; ranks agree on it, since saving takes all of them."""
        if self.ranks is None:
            return checkpoint.due() or asked
        return bool(self.ranks.largest([(checkpoint.due() and self.ranks.first) or asked])[0])

    def _save(self) -> None:
        if self.checkpoint is not None:
            self._share_buffers()
            tree = run_state(self)
            if self.first:
                self.checkpoint.save(self.step, tree)

    def _share_buffers(self) -> None:
        """Running statistics are each rank's own while it trains; what is looked at and kept are the first rank's."""
        buffers = [b for b in unwrap(self.model).buffers() if b.numel()]
        if self.ranks is not None and buffers:
            self.ranks.from_first(buffers)
