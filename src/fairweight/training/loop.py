"""The loop of a run, from the step it stands at to its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fairweight.errors import BadInput, LossNotFinite, MissingExemplar
from fairweight.fast.cuda_graph import CapturedStep
from fairweight.metagradient.passes import trainable, unwrap
from fairweight.methods import Reweighter
from fairweight.sampling import ExemplarSampler, TrainSampler, generator
from fairweight.step import update
from fairweight.training.callbacks import EarlyStopping, Observer, Watch
from fairweight.training.checkpoint import Checkpoint
from fairweight.training.epoch_sums import EpochSums
from fairweight.training.history import Dynamics
from fairweight.training.log import Log
from fairweight.training.options import Augment, FitOptions, Scheduler
from fairweight.training.predict import predict
from fairweight.training.reader import Reader
from fairweight.training.schedule import advance, check_schedule
from fairweight.training.snapshot import restore, snapshot
from fairweight.training.validation import validation_numbers
from fairweight.types import Batch, Cells, RunRecord, Samples, StepRecord, sent


class Training:
    """One run: draws, steps, watches and keeps; `go` does it all."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        reweighter: Reweighter,
        train: Samples,
        exemplar: Samples | None,
        epochs: int,
        observers: tuple[Observer, ...],
        validation: Samples | None,
        scheduler: Scheduler | None,
        augment: Augment | None,
        dynamics: Dynamics | None,
        out: Path | None,
        resume: bool,
        options: FitOptions,
    ) -> None:
        if reweighter.num_samples != len(train):
            raise BadInput(
                f"{type(reweighter).__name__} was made for {reweighter.num_samples} samples and train has "
                f"{len(train)}; give num_samples=len(train)."
            )
        if unwrap(reweighter.model) is not unwrap(model):
            raise BadInput(f"{type(reweighter).__name__} was made for another model; make it with the model you train.")
        if epochs < 1:
            raise BadInput(f"epochs={epochs}; train for at least 1.")
        check_schedule(scheduler, validation is not None)
        self.model, self.optimizer, self.reweighter = model, optimizer, reweighter
        self.train, self.exemplar, self.epochs, self.validation = train, exemplar, epochs, validation
        self.scheduler, self.augment, self.options = scheduler, augment, options
        self.device = next(iter(trainable(unwrap(model)).values())).device
        self.watch = next((o for o in observers if isinstance(o, Watch)), None) or Watch()
        self.observers = observers if self.watch in observers else (*observers, self.watch)
        self.early = next((o for o in observers if isinstance(o, EarlyStopping)), None)
        self.dynamics = dynamics
        where = train.labels.device
        self.sampler = TrainSampler(
            len(train), options.batch_size, options.seed, drop_last=options.drop_last, device=where
        )
        self.draws = self._exemplar_sampler()
        compared = train.labels if train.groups is None else train.groups
        self.groups = int(compared.max()) + 1 if len(compared) else 1
        self.sums = EpochSums(self.groups, self.device)
        self.log = None if out is None else Log(out)
        self.checkpoint = None if out is None else Checkpoint(out, self._identity(), options.checkpoint_every)
        self.resume = resume
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, Tensor] | None = None
        self.stopped = "interrupted"
        self.seconds = 0.0
        self.reader = Reader(train, self._rows, len(self.sampler))
        self.weighted: tuple[int, Tensor] | None = None  # (epoch, rows) where the method draws its own
        self.captured: CapturedStep | None = None
        self._warned = 0  # warnings that are in the log

    def _identity(self) -> dict[str, Any]:
        return {
            "method": type(self.reweighter).__name__,
            "num_samples": len(self.train),
            "parameters": sum(p.numel() for p in unwrap(self.model).parameters()),
            "batch_size": self.options.batch_size,
            "seed": self.options.seed,
            "optimizer": type(self.optimizer).__name__,
        }

    def _exemplar_sampler(self) -> ExemplarSampler | None:
        if not self.reweighter.needs & {"exemplar", "exemplar groups"}:
            return None
        if self.exemplar is None:
            raise MissingExemplar(
                f"{type(self.reweighter).__name__} learns from an exemplar set; pass exemplar= to fit."
            )
        cells = Cells.of(self.exemplar.labels, self.exemplar.groups)
        return ExemplarSampler(
            cells,
            self.options.per_cell,
            self.options.seed,
            at_least=self.options.exemplar_batch,
            device=self.exemplar.labels.device,
        )

    # -- the line -------------------------------------------------------------------------------

    def go(self) -> RunRecord:
        """Train from where the run stands to its end."""
        started = time.monotonic()
        torch.manual_seed(self.options.seed)
        self.reweighter.begin(self.train, self.exemplar)
        step = self._restored_step() if self.resume else 0
        if step:
            self._warned = len(self.watch.warnings)
        if self.log is not None:
            self.log.start(step)
            self.log.add("resume" if step else "start", step, epochs=self.epochs, **self._identity())
        for observer in self.observers:
            observer.on_start(self.epochs, len(self.sampler), step)
        if self.options.compile:
            self.reweighter.compile()
        taker = self._taker()
        self.model.train()
        spent = self.seconds
        with closing(self.reader), nullcontext() if self.checkpoint is None else closing(self.checkpoint):
            while step < self.epochs * len(self.sampler) and self.stopped == "interrupted":
                batch = self._batch(step)
                record = self._take(taker, batch, step)
                self.sums.add(step, batch, record)
                if self.dynamics is not None and batch.rows is not None:
                    self.dynamics.on_step(batch.rows, record)
                for observer in self.observers:
                    observer.on_step(step, record)
                step += 1
                self.seconds = spent + time.monotonic() - started
                if step % len(self.sampler) == 0:
                    self._end_epoch(step)
                elif self.checkpoint is not None and self.checkpoint.due():
                    self._keep(step)
        if self.stopped == "interrupted":
            self.stopped = "finished"
        if self.best is not None:
            unwrap(self.model).load_state_dict(self.best)
        if self.log is not None:
            self.log.add("end", step, stopped=self.stopped, seconds=self.seconds)
        return RunRecord(
            epochs=step // len(self.sampler),
            steps=step,
            stopped=self.stopped,
            best_epoch=None if self.early is None else self.early.best_epoch,
            history=self.history,
            warnings=list(self.watch.warnings),
            seconds=self.seconds,
        )

    def _restored_step(self) -> int:
        saved = None if self.checkpoint is None else self.checkpoint.load()
        return 0 if saved is None else restore(self, saved)

    def _batch(self, step: int) -> Batch:
        return self._augmented(self.reader.batch(step).to(self.device), "augment", step)

    def _augmented(self, batch: Batch, stream: str, step: int) -> Batch:
        if self.augment is None:
            return batch
        return replace(batch, inputs=self.augment(batch.inputs, generator(stream, self.options.seed, step)))

    def _rows(self, step: int) -> Tensor:
        epoch, position = divmod(step, len(self.sampler))
        if self.weighted is None or self.weighted[0] != epoch:
            weights = self.reweighter.sampling_weights()
            drawn = torch.empty(0, dtype=torch.int64)
            if weights is not None:
                stream = generator("weighted", self.options.seed, epoch)
                drawn = torch.multinomial(weights.cpu().double(), len(self.train), replacement=True, generator=stream)
            self.weighted = (epoch, sent(drawn, self.train.labels.device))
        drawn = self.weighted[1]
        if len(drawn) == 0:
            return self.sampler.rows(step)
        return drawn[position * self.sampler.batch_size : (position + 1) * self.sampler.batch_size]

    def _taker(self) -> Callable[[Batch, Batch | None, int], StepRecord]:
        options = self.options
        if options.accumulate > 1:
            return self._accumulate
        if options.capture and self.device.type == "cuda":
            self.captured = captured = CapturedStep(self.reweighter, self.optimizer, clip_norm=options.clip_norm)
            return lambda batch, exemplar, step: captured(batch, exemplar)
        return lambda batch, exemplar, step: self.reweighter.step(
            batch, exemplar, self.optimizer, clip_norm=options.clip_norm
        )

    def _accumulate(self, batch: Batch, exemplar: Batch | None, step: int) -> StepRecord:
        k = self.options.accumulate
        position, last = step % len(self.sampler), len(self.sampler) - 1
        if position % k == 0:
            self.optimizer.zero_grad()
        members = min(k, last + 1 - position // k * k)  # the last group of an epoch may be smaller
        record = self.reweighter.backward(batch, exemplar, self.optimizer, scale=1.0 / members)
        if position % k == members - 1:
            update(self.optimizer, self.options.clip_norm)
        return record

    def _take(self, taker: Callable[[Batch, Batch | None, int], StepRecord], batch: Batch, step: int) -> StepRecord:
        exemplar = None
        if self.draws is not None and self.exemplar is not None:
            exemplar = self.draws.batch(self.exemplar, step).to(self.device)
            if self.options.augment_exemplars:
                exemplar = self._augmented(exemplar, "augment exemplars", step)
        try:
            with self._casting():
                return taker(batch, exemplar, step)
        except LossNotFinite as error:
            self._not_finite(step, str(error))
            raise AssertionError from error

    def _casting(self) -> AbstractContextManager[Any]:
        if self.options.autocast is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.options.autocast)

    def _not_finite(self, step: int, what: str) -> None:
        rows = self._rows(step)[:8].tolist()
        kept = (
            "no folder was given, so no checkpoint was written"
            if self.checkpoint is None
            else self.checkpoint.describe()
        )
        self.stopped = "loss not finite"
        raise LossNotFinite(f"Stopped at step {step} (batch rows {rows} ...): {what} For going back, {kept}.")

    # -- the end of an epoch --------------------------------------------------------------------

    def _end_epoch(self, step: int) -> None:
        epoch = step // len(self.sampler)
        bad = self.sums.bad_step()
        if bad is not None:
            self._not_finite(bad, "The loss is not finite. Lower the learning rate or clip the gradient.")
        summary = {
            "epoch": epoch,
            "lr": max(float(g["lr"]) for g in self.optimizer.param_groups),
            **self.sums.summary(),
        }
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
            with self._casting():
                summary["validation"] = validation_numbers(
                    self.model, self.reweighter, self.validation, grouped=grouped
                )
        summary["seconds"] = round(self.seconds, 3)
        self.history.append(summary)
        with self._casting():
            self.reweighter.on_epoch(epoch, lambda samples: predict(self.model, samples))
        if self.captured is not None and (failure := self.captured.failure) is not None:
            self.watch.warn(f"slow steps: they could not be captured as a CUDA graph ({failure}), so each is launched.")
        reasons = [reason for o in self.observers if (reason := o.on_epoch(epoch, summary))]
        if self.early is not None and self.early.improved:
            self.best = {k: v.detach().clone() for k, v in unwrap(self.model).state_dict().items()}
        if self.scheduler is not None:
            advance(self.scheduler, summary)
        self.sums = EpochSums(self.groups, self.device)
        if reasons:
            self.stopped = reasons[0]
        if self.log is not None:
            self.log.add("epoch", step, **summary)
            for warning in self.watch.warnings[self._warned :]:
                self.log.add("warning", step, text=warning)
            self._warned = len(self.watch.warnings)
        self._keep(step)

    def _keep(self, step: int) -> None:
        if self.checkpoint is not None:
            self.checkpoint.save(step, snapshot(self, step))
