"""FORML: one score per training sample, kept for the whole run."""

from __future__ import annotations

import logging
import warnings
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from fairweight.constraints import FLAG, Kind, constrained, either, one_of, whole
from fairweight.errors import BadInput
from fairweight.fast.traced import Backend, TracedSteps
from fairweight.metagradient import ForwardPass, Mode, Rates, Scope, Softmax, WeightForm, forward, solve, weight_form
from fairweight.metagradient.agreement import agreement
from fairweight.metagradient.model import Parameters, trainable, unwrap
from fairweight.metagradient.passes import classification_loss
from fairweight.metagradient.solve import own_total
from fairweight.methods import ExemplarMethod, current_lr
from fairweight.methods._ranks import find_ranks
from fairweight.methods._saved_state import check_saved
from fairweight.methods.look_ahead import LookAhead
from fairweight.methods.score_step import AdaptiveStep, ScoreStep
from fairweight.methods.ties import Tie, TiedScores
from fairweight.objectives.mean import MeanLoss
from fairweight.objectives.variance import LossVariance
from fairweight.ranks import Group, Shard
from fairweight.types import Batch, Loss, ObjectiveFunction, Weighing

_log = logging.getLogger("fairweight")


@constrained(
    look_ahead=either(Kind((LookAhead,), "a LookAhead")),
    score_step=either(Kind((ScoreStep,), "an AdaptiveStep or a PlainStep")), own=FLAG, agreement_every=whole(0),
    tie=one_of("label", "group", "cell", None), every=whole(1), scores=one_of("replicated", "sharded"),
)  # fmt: skip
class FORML(ExemplarMethod):
    """Learns one score per training sample from the gradient of an objective on the exemplar set.

    objective: any f(losses, groups) -> scalar; by default MeanLoss() + LossVariance(), chosen by experiment
    (records/, "score_step"). look_ahead: None takes the objective's gradient at θ, an approximation.
    score_step: how scores follow their gradient; None: AdaptiveStep(). gradient: "auto" takes the cheapest exact mode.
    tie: samples also share a score by "label", "group" or "cell". own: False leaves them no other score than that.
    agreement_every: after how many steps the two halves of the exemplar batch are compared; 0 for never.
    every: scores move at every so-many-th step only; a step between costs what a plain step costs.
    scope: the virtual step and the pull are those of submodules, by name ("layer4,fc"), or of "head", the last linear
    layer; an approximation that costs less.
    process_group: ranks that train together, each with its part of the batches; "auto" takes what torch.distributed was
    started with, None this process alone. scores: "replicated", all of them on every rank; or "sharded", each on one,
    for a billion samples: then `scores`, `weights()` and `state_dict()` gather them and must be called on every rank.

    Examples:
        >>> import torch, fairweight as fw
        >>> _ = torch.manual_seed(0)
        >>> train = fw.Batch(torch.randn(32, 4), torch.randint(2, (32,)))
        >>> held = fw.Batch(torch.randn(16, 4), torch.randint(2, (16,)))
        >>> model = torch.nn.Linear(4, 2)
        >>> forml = fw.FORML(model, num_samples=len(train), objective=fw.MeanLoss() + fw.LossVariance())
        >>> record = forml.step(train, held, torch.optim.SGD(model.parameters(), lr=0.1))
        >>> forml.scores.shape, round(float(forml.weights().mean()), 4)
        (torch.Size([32]), 1.0)
    """

    paper = "Yan, Seto, Apostoloff 2022, arXiv 2202.01719"

    def __init__(
        self, model: nn.Module, num_samples: int, objective: ObjectiveFunction | None = None,
        look_ahead: LookAhead | None = LookAhead(),  # noqa: B008 - frozen
        score_step: ScoreStep | None = None, gradient: str = "auto", tie: Tie | None = None, *,
        own: bool = True, form: str | WeightForm = "softmax", loss: Loss = classification_loss,
        agreement_every: int = 100, every: int = 1, scope: str | None = None, trace: Any = None,
        process_group: Group = "auto", scores: Literal["replicated", "sharded"] = "replicated",
    ) -> None:  # fmt: skip
        objective = MeanLoss() + LossVariance() if objective is None else objective
        super().__init__(model, num_samples, objective, gradient, loss=loss)
        if not own and tie is None:
            raise BadInput("own=False leaves no score to learn without a tie; give tie='label' or tie='group'.")
        if score_step is not None and score_step.heeds and agreement_every < 1:
            raise BadInput("A score step that heeds agreement needs looks at it; give agreement_every=100 or so.")
        if tie in ("group", "cell"):
            self.needs = self.needs | {"train groups"}
        self.process_group = process_group
        self.at_rest = look_ahead is None
        self.look_ahead = LookAhead() if look_ahead is None else look_ahead
        self.score_step = AdaptiveStep() if score_step is None else score_step.fresh()
        self.form, self.own = weight_form(form), own
        self._scope = None if scope is None else Scope(model, scope)
        self.agreement_every, self.every = agreement_every, every
        parameter = next(iter(trainable(unwrap(model)).values()))
        device, dtype = parameter.device, torch.promote_types(parameter.dtype.to_real(), torch.float32)
        self._shard = Shard(num_samples, find_ranks(process_group, model) if scores == "sharded" else None)
        self._own = torch.full((len(self._shard),), self.form.start, dtype=dtype, device=device)  # [N], or its part
        # [] How often each sample has been seen, on average; in float32 its root would depend on the processor.
        self._visits = torch.zeros((), dtype=torch.float64, device=device)
        self._ties = None if tie is None else TiedScores(tie, len(self._shard), self.score_step, device, dtype)
        self._traced: TracedSteps | None = None
        self._known_rates: tuple[Any, Rates] | None = None  # of the optimizer's groups as they were
        if trace is not None:
            warnings.warn("FORML(trace=...) is deprecated; call compile() instead.", DeprecationWarning, stacklevel=2)
        if trace not in (None, False):
            self.compile(backend="eager" if trace is True else "inductor" if trace == "compile" else trace)

    def compile(self, backend: Backend = "inductor") -> None:
        """Run the passes of a step as one compiled graph; where that cannot be, compile the model's passes.

        backend: of torch.compile; "eager" leaves the graph as it is; or a function that compiles a graph module.
        """
        bare = isinstance(self.form, Softmax) and self.look_ahead.statistics == "batch"
        several = self.ranks is not None
        if bare and not several:
            self._traced = TracedSteps(backend)
        else:
            why = "is that of one process" if several else "has softmax weights and the batch's statistics"
            _log.info("passes run one by one: a step as one graph %s", why)
        if several or ((self.every > 1 or not bare) and backend != "eager"):
            super().compile()

    @property
    def scores(self) -> Tensor:
        """Every sample's score: its own plus the one it shares."""  # [N]
        scores = self._own.clone() if self._ties is None else self.form.limit(self._own + self._ties.per_sample())
        return self._shard.whole(scores).to(scores.device)

    def weights(self) -> Tensor:
        """Every sample's weight over the whole training set, mean 1."""  # [N]
        # In float64: a float32 sum over ten million samples is off by a percent.
        return (self.form.weights(self.scores.double()) * self.num_samples).to(self._own.dtype)

    @property
    def scope(self) -> str | None:
        """What the virtual step moves, by its name in the model; None: everything."""
        return None if self._scope is None else self._scope.name

    @property
    def phase(self) -> str:
        if self.steps % self.every:
            return "weigh"
        return "move, with a look at agreement" if self._agreement_due else "move"

    @property
    def _agreement_due(self) -> bool:
        return self.agreement_every > 0 and self.steps % self.agreement_every == 0

    def check_values(self, batch: Batch, exemplar: Batch | None) -> None:
        super().check_values(batch, exemplar)
        self.check_rows(batch)
        if self._ties is not None:
            self._ties.check(batch)

    def forward(
        self, batch: Batch, exemplar: Batch | None, optimizer: torch.optim.Optimizer, *, check: bool = True
    ) -> ForwardPass:
        if self.phase == "weigh":
            return forward(self.model, batch, self.loss, check=check)
        mode = self.settled(batch)
        alone = self.ranks is None and self._accumulation is None and mode.name != "per-layer-frozen"
        needs_graph = self._agreement_due and mode.name != "forward"
        if self._traced is not None and alone and exemplar is not None and not needs_graph:
            done = self._traced.forward(  # one graph for one batch of one process
                self.model, batch, exemplar, self.loss, self.objective, self._batch_scores(batch),
                self._rates(optimizer), mode, at_rest=self.at_rest, check=check,
            )  # fmt: skip
            if done is not None:
                return done
        return super().forward(batch, exemplar, optimizer, check=check)

    def weigh(self, done: ForwardPass, exemplar: Batch | None, optimizer: torch.optim.Optimizer) -> Weighing:
        """Move the batch's scores by their gradient, then weigh the batch by its new scores."""
        batch = done.batch
        before = self._batch_scores(batch)
        if self.phase == "weigh":
            return Weighing(self.form.weights(before), own_total(self.form, before, done), mode="scores at rest")
        assert exemplar is not None
        assert self.mode is not None
        rates = self._rates(optimizer, done.parameters)
        solution = done.solution or solve(
            done, exemplar, before, self.objective, rates, self.mode, self.form, at_rest=self.at_rest,
            running_statistics=self.look_ahead.statistics == "running",
        )  # fmt: skip
        if done.loss_scale is not None:  # too large a one leaves nothing to move by
            solution = replace(solution, gradient=solution.gradient.where(solution.gradient.isfinite().all(), 0.0))
        self._move(batch, solution.gradient, before, current_lr(optimizer))
        after = self._batch_scores(batch)
        measure = partial(self._measure_agreement, done, exemplar, rates, self.mode)
        return Weighing(
            self.form.weights(after), own_total(self.form, after, done), solution.objective, solution.exemplar_losses,
            solution.pull, solution.gradient, measure_agreement=measure if self._agreement_due else None,
            mode=(done.ran_as or str(self.mode)) + ("" if self.scope is None else f", scope {self.scope}"),
        )  # fmt: skip

    def _measure_agreement(self, done: ForwardPass, exemplar: Batch, rates: Rates, mode: Mode) -> Tensor | None:
        """Compare the halves of the exemplar batch and tell the score steps; it counts from the next step."""  # []
        cosine = agreement(done, exemplar, self.objective, rates, mode)
        if cosine is not None:
            self.score_step.hear(cosine)
            if self._ties is not None:
                self._ties.step.hear(cosine)
        return cosine

    def _rates(self, optimizer: torch.optim.Optimizer, parameters: Parameters | None = None) -> Rates:
        moving = trainable(unwrap(self.model)) if parameters is None else parameters
        moving = moving if self._scope is None else self._scope.within(moving)
        groups = [(id(g), len(g["params"]), g["lr"], g.get("maximize")) for g in optimizer.param_groups]
        key = self.look_ahead, {name: id(p) for name, p in moving.items()}, groups
        fixed = not any(isinstance(lr, Tensor) for _, _, lr, _ in groups)
        if not fixed or self._known_rates is None or self._known_rates[0] != key:
            self._known_rates = (key if fixed else None), self.look_ahead.rates(moving, optimizer)
        return self._known_rates[1]

    def _batch_scores(self, batch: Batch) -> Tensor:
        rows = self.rows(batch)
        scores = self._own[rows] if self._shard.ranks is None else self._shard.read(self._own, rows)
        return scores if self._ties is None else self.form.limit(scores + self._ties.scores[self._ties.of(batch)])

    def _move(self, batch: Batch, gradient: Tensor, before: Tensor, lr: float) -> None:
        rows = self.rows(batch)
        here, places = (slice(None), rows) if self._shard.ranks is None else self._shard.held(rows)
        weights, gradient = self.form.weights(before), gradient.to(self._own.dtype)
        if self.own:
            # Added rather than written, so that a row drawn twice in one batch moves by both gradients.
            self._own.index_add_(0, places, self.score_step.move(gradient, weights, lr, self._visits)[here])
            self._own[places] = self.form.limit(self.score_step.limit(self._own[places], self.form.start))
        if self._ties is not None:
            shared = self._ties.of(batch)
            self._ties.index[places] = shared[here].to(torch.int32)
            self._ties.move(shared, gradient, weights, lr, self._visits)
        self._visits += len(batch) / self.num_samples

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {
            **super().state_dict(),
            "own": self._shard.whole(self._own.clone()),
            "visits": self._visits.clone(),
            "form": self.form.name,
            "scope": None if self._scope is None else self._scope.asked,
            "score_step": self.score_step.state_dict(),
        }
        if self._ties is not None:
            state["ties"] = self._ties.state_dict()
            state["ties"]["index"] = self._shard.whole(state["ties"]["index"])
        return state

    def _state_of_all_ranks(self) -> dict[str, Any]:
        whole = self._shard.ranks is None
        return self.state_dict() if whole else {"form": self.form.name, "score_step": self.score_step.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_saved(state, self.state_dict(), self.num_samples)
        super().load_state_dict(state)
        self._own.copy_(self._shard.part(state["own"]))
        self._visits.copy_(state["visits"])
        self.score_step.load_state_dict(state["score_step"])
        if self._ties is not None:
            self._ties.load_state_dict({**state["ties"], "index": self._shard.part(state["ties"]["index"])})
