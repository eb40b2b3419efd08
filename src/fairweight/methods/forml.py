"""FORML: one score per training sample, kept for the whole run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from fairweight.errors import BadInput, ScoresMismatch
from fairweight.fast.compiled import compiled
from fairweight.fast.step_graphs import StepGraphs, Trace, compiling, pass_of, record_of, traceable
from fairweight.fast.traced_step import TracedSolution
from fairweight.metagradient import (
    DirectionMemory,
    Displacement,
    ForwardPass,
    Mode,
    Scope,
    Solution,
    WeightForm,
    check_slope,
    classification_loss,
    solve,
    train_slopes,
    weight_form,
)
from fairweight.metagradient.passes import Parameters, check_labels, trainable, unwrap
from fairweight.metagradient.scope import in_scope
from fairweight.methods import current_lr
from fairweight.methods._agreement import agreement
from fairweight.methods._exemplar_method import ExemplarLearner
from fairweight.methods.look_ahead import LookAhead
from fairweight.methods.score_step import AdaptiveStep, ScoreStep
from fairweight.methods.ties import Tie, TiedScores
from fairweight.objectives.mean import MeanLoss
from fairweight.objectives.variance import LossVariance
from fairweight.step import check_finite
from fairweight.types import Batch, Loss, StepRecord, Weighing
from fairweight.types import Objective as ObjectiveFunction


class FORML(ExemplarLearner):
    """Learns one score per training sample from the gradient of an objective on the exemplar set.

    objective: any f(losses, groups) -> scalar; by default MeanLoss() + LossVariance(), chosen by experiment
    (records/, "score_step"). look_ahead: None takes the objective's gradient at θ, an
    approximation. tie: samples also share a score by "label", "group" or "cell"; own=False leaves that alone.
    direction_memory: decay of a running average of the objective's gradient, 0 for none.
    agreement_every: how often the two halves of the exemplar batch are compared, 0 for never.
    every: scores move at every so-many-th step alone; the steps between cost what a plain step costs.
    scope: the virtual step and the pull are those of submodules, by name ("layer4,fc"), or of "head", the last linear
    layer (which needs neither a second pass nor a derivative of the rest); an approximation that costs little.
    trace: run the passes of a step as one graph, the same arithmetic without repetition; "compile" (torch.compile)
    or a function of your own compiles that graph.
    """

    paper = "Yan, Seto, Apostoloff 2022, arXiv 2202.01719"

    def __init__(
        self,
        model: nn.Module,
        num_samples: int,
        objective: ObjectiveFunction | None = None,
        look_ahead: LookAhead | None = LookAhead(),  # noqa: B008 - frozen
        score_step: ScoreStep | None = None,
        gradient: str = "auto",
        tie: Tie | None = None,
        *,
        own: bool = True,
        form: str | WeightForm = "softmax",
        loss: Loss = classification_loss,
        direction_memory: float = 0.0,
        agreement_every: int = 100,
        every: int = 1,
        scope: str | None = None,
        trace: Trace = False,
    ) -> None:
        super().__init__(
            model, num_samples, MeanLoss() + LossVariance() if objective is None else objective, gradient, loss=loss
        )
        if not own and tie is None:
            raise BadInput("own=False leaves no score to learn without a tie; give tie='label' or tie='group'.")
        if not 0 <= direction_memory < 1:
            raise BadInput(f"direction_memory={direction_memory}: give a decay from 0 (none) to below 1.")
        if every < 1:
            raise BadInput(f"every={every}: scores move at every step (1), every second (2), and so on.")
        if score_step is not None and score_step.heeds and agreement_every < 1:
            raise BadInput("A score step that heeds agreement needs looks at it; give agreement_every=100 or so.")
        if tie in ("group", "cell"):
            self.needs = self.needs | {"train groups"}
        self.at_rest = look_ahead is None
        self.look_ahead = LookAhead() if look_ahead is None else look_ahead
        self.score_step = AdaptiveStep() if score_step is None else score_step.fresh()
        self.form = weight_form(form)
        self.own = own
        self._scope = None if scope is None else Scope(model, scope)
        self.agreement_every, self.every = agreement_every, every
        first = next(iter(trainable(unwrap(model)).values()))
        device, dtype = first.device, torch.promote_types(first.dtype, torch.float32)
        self._own = torch.full((num_samples,), self.form.start, dtype=dtype, device=device)  # [N]
        self._visits = torch.zeros((), device=device)  # [] how often each sample has been seen, on average
        self._ties = None if tie is None else TiedScores(tie, num_samples, self.score_step, device, dtype)
        self._memory = DirectionMemory(direction_memory) if direction_memory > 0 else None
        self._graphs = None if trace is False else StepGraphs(compiling(trace))

    def compile(self) -> None:
        """Have the step traced and compiled; where it cannot be one graph, the model's passes."""
        if traceable(self):
            self._graphs = StepGraphs(compiled)
        if self.every > 1 or not traceable(self):
            super().compile()

    @property
    def scores(self) -> Tensor:
        """Every sample's score: its own plus the one it shares."""  # [N]
        return self._own.clone() if self._ties is None else self.form.limit(self._own + self._ties.per_sample())

    def weights(self) -> Tensor:
        """Every sample's weight over the whole training set, mean 1."""  # [N]
        # In float64: a float32 sum over ten million samples is off by a percent.
        return (self.form.weights(self.scores.double()) * self.num_samples).to(self._own.dtype)

    def prepare(self, batch: Batch, exemplar: Batch | None, optimizer: torch.optim.Optimizer, check: bool) -> Mode:
        """Check the rows too."""
        self.rows(batch, check)
        if self._scope is not None:
            self._scope.settle(self.model, batch, self.loss)
            if check:
                self._scope.check_moved(optimizer, self._moving(trainable(unwrap(self.model))))
        mode = super().prepare(batch, exemplar, optimizer, check)
        if self._scope is not None and mode.name == "head" and mode.layer is None:  # a mode that was saved
            mode = self._mode = replace(mode, layer=self._scope.layer)
        return mode if self.phase == "move" else Mode("none")

    @property
    def scope(self) -> str | None:
        """What the virtual step moves, by its name in the model; None: everything."""
        return None if self._scope is None else self._scope.name

    def _moving(self, parameters: Parameters) -> Parameters:
        return in_scope(parameters, self._scope)

    @property
    def phase(self) -> str:
        """Whether the next step moves scores, or only weighs by them."""
        return "weigh" if self.steps % self.every else "move"

    def weigh(
        self, done: ForwardPass, exemplar: Batch | None, optimizer: torch.optim.Optimizer, check: bool
    ) -> Weighing:
        """Move the batch's scores by their gradient, then weigh the batch by its new scores."""
        assert exemplar is not None
        assert self._mode is not None
        rows = self.rows(done.batch, check=False)
        shared = None if self._ties is None else self._ties.of(done.batch, check)
        before = self._batch_scores(rows, shared)
        if self.phase == "weigh":
            total = self.form.total(before, done.logits, done.losses, done.batch.labels, done.loss)
            return Weighing(self.form.weights(before), total, mode="scores at rest")
        displacement = self._displacement(done, before, optimizer)
        found = solve(
            done,
            exemplar,
            before,
            self.objective,
            displacement,
            self._mode,
            self.form,
            running_statistics=self.look_ahead.statistics == "running",
            at_rest=self.at_rest,
            memory=self._memory,
            check=check,
        )
        agreed = self._agreement(done, exemplar, displacement)
        self._move(rows, shared, found, before, current_lr(optimizer))
        self._hear(agreed)
        after = self._batch_scores(rows, shared)
        total = self.form.total(after, done.logits, done.losses, done.batch.labels, done.loss)
        return Weighing(
            weights=self.form.weights(after),
            total=total,
            objective=found.objective,
            exemplar_losses=found.exemplar_losses,
            pull=found.pull,
            gradient=found.gradient,
            agreement=agreed,
            mode=str(self._mode) + ("" if self.scope is None else f", scope {self.scope}"),
        )

    def whole(
        self, batch: Batch, exemplar: Batch | None, optimizer: torch.optim.Optimizer, scale: float, check: bool
    ) -> StepRecord | None:
        """The step as one graph where that was asked for and works on this batch; None otherwise."""
        assert self._mode is not None
        if (
            self._graphs is None
            or exemplar is None
            or self.phase == "weigh"
            or (self._looks and self._mode.name != "forward")  # other ways to look go through the pass's graph
            or not self._graphs.suits(self, batch, exemplar, self._mode)
        ):
            return None
        rows = self.rows(batch, check=False)
        shared = None if self._ties is None else self._ties.of(batch, check)
        parameters = trainable(unwrap(self.model))
        moving = self._moving(parameters)
        displacement = self.look_ahead.displacement(moving, None, optimizer)
        traced = self._graphs.of(self, batch, exemplar, moving)
        if traced is None:
            return None
        if check:
            check_labels(traced.like, batch.labels, "train")
            check_labels(traced.like, exemplar.labels, "exemplar")
        before = self._batch_scores(rows, shared)
        found = traced.solve(parameters, before, self._graphs.rates(moving, displacement), batch, exemplar)
        if check:
            check_finite(found.losses, batch)
            check_slope([found.gradient])
        done = pass_of(self, batch, found, self._mode)
        if not self._graphs.agrees(self, found, done, exemplar, displacement, self._mode):
            return None
        self._move(rows, shared, found, before, current_lr(optimizer))
        weights = self.form.weights(self._batch_scores(rows, shared))
        for name, slope in traced.gradients(found, weights).items():
            grad = slope if scale == 1.0 else slope * scale
            p = parameters[name]
            p.grad = grad if p.grad is None else p.grad + grad
        found = replace(found, rest=())  # what the second graph needed: a look has that memory
        agreed = self._agreement(done, exemplar, displacement)
        self._hear(agreed)
        traced.move_statistics(found)
        mode = "forward, traced" + ("" if self.scope is None else f", scope {self.scope}")
        return record_of(found, weights, batch, exemplar, agreed, mode)

    def _batch_scores(self, rows: Tensor, shared: Tensor | None) -> Tensor:
        own = self._own[rows]
        return own if self._ties is None or shared is None else self.form.limit(own + self._ties.scores[shared])

    def _displacement(self, done: ForwardPass, scores: Tensor, optimizer: torch.optim.Optimizer) -> Displacement:
        slope, moving = None, self._moving(done.parameters)
        if self.look_ahead.direction == "optimizer":
            assert self._mode is not None
            slope = train_slopes(done, scores, self.form, moving, self._mode)
        return self.look_ahead.displacement(moving, slope, optimizer)

    def _move(
        self, rows: Tensor, shared: Tensor | None, found: Solution | TracedSolution, before: Tensor, lr: float
    ) -> None:
        weights = self.form.weights(before)
        gradient = found.gradient.to(self._own.dtype)
        if self.own:
            # Added rather than written, so that a row drawn twice in one batch moves by both gradients.
            self._own.index_add_(0, rows, self.score_step.move(gradient, weights, lr, self._visits))
            moved = self.form.limit(self.score_step.limit(self._own[rows], self.form.start))
            self._own[rows] = moved
        if self._ties is not None and shared is not None:
            self._ties.remember(rows, shared)
            self._ties.move(shared, gradient, weights, lr, self._visits)
        self._visits += len(rows) / self.num_samples

    @property
    def _looks(self) -> bool:
        """Whether the next step looks at how far the halves of the exemplar batch agree."""
        return self.agreement_every > 0 and self.steps % self.agreement_every == 0

    def _agreement(self, done: ForwardPass, exemplar: Batch, displacement: Displacement) -> Tensor | None:
        if not self._looks or self._mode is None:
            return None
        return agreement(done, exemplar, self.objective, displacement, self._mode)

    def _hear(self, agreed: Tensor | None) -> None:
        if agreed is not None:
            self.score_step.hear(agreed)
            if self._ties is not None:
                self._ties.step.hear(agreed)

    def state_dict(self) -> dict[str, Any]:
        """Scores, the score step's memory, the shared scores and the gradient mode."""
        state: dict[str, Any] = {
            **super().state_dict(),
            "own": self._own.clone(),
            "visits": self._visits.clone(),
            "form": self.form.name,
            "scope": None if self._scope is None else self._scope.asked,
            "score_step": self.score_step.state_dict(),
        }
        if self._ties is not None:
            state["ties"] = self._ties.state_dict()
        if self._memory is not None:
            state["memory"] = self._memory.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put everything back, bit for bit; refuse what another setting saved before anything is changed."""
        if "own" not in state or len(state["own"]) != self.num_samples:
            raise ScoresMismatch(
                f"The saved scores are of {len(state.get('own', ()))} samples and this FORML is for "
                f"{self.num_samples}: resume with the training set of that run, or start a new one."
            )
        here = self.state_dict()
        for key, same in (
            ("form", here["form"] == state["form"]),
            ("scope", here["scope"] == state.get("scope")),
            ("score_step", here["score_step"].keys() == state["score_step"].keys()),
            ("tie", here.get("ties", {}).get("tie") == state.get("ties", {}).get("tie")),
            ("direction_memory", ("memory" in here) == ("memory" in state)),
        ):
            if not same:
                raise ScoresMismatch(f"The saved scores were learned with another {key}; give the same as that run.")
        super().load_state_dict(state)
        self._own.copy_(state["own"])
        self._visits.copy_(state["visits"])
        self.score_step.load_state_dict(state["score_step"])
        if self._ties is not None:
            self._ties.load_state_dict(state["ties"])
        if self._memory is not None:
            self._memory.load_state_dict(state["memory"])
