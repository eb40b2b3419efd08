"""Forward mode with all passes of a step traced into one graph, in which what they share is done once.

The forward-mode pass repeats the whole forward pass before it adds to it. Traced together, the two are one: what
is left is a forward, two backwards, the exemplar passes and the tangents, which is all that the exact step needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp, vjp
from torch.fx import GraphModule

from fairweight.errors import NotDifferentiable
from fairweight.fast._graph import merge, split
from fairweight.metagradient._batch_norm import NormTangents
from fairweight.metagradient._context import kernels
from fairweight.metagradient.displacement import evaluate
from fairweight.metagradient.passes import Parameters, call_arguments, logits_of
from fairweight.types import Batch, Loss, Objective, map_tensors

_SEEN = ("gradient", "pull", "objective", "exemplar_losses", "losses", "logits", "weights")
_FIXED = len(_SEEN)  # outputs before the model's gradients
Compile = Callable[[GraphModule], Callable[..., Any]]


@dataclass(frozen=True)
class TracedSolution:
    """What the first graph gives; `rest` goes to the second."""

    gradient: Tensor  # [B] d objective / d score
    pull: Tensor  # [B]
    objective: Tensor  # []
    exemplar_losses: Tensor  # [E]
    losses: Tensor  # [B]
    logits: Tensor  # [B, K]
    weights: Tensor  # [B] before the scores moved
    statistics: tuple[Tensor, ...]  # mean and inverse deviation of each norm, in order
    rest: tuple[Tensor, ...]


class TracedStep:
    """The graphs of one step for fixed shapes: scores to their gradient, then new weights to the model's gradient."""

    def __init__(
        self,
        model: nn.Module,
        parameters: Parameters,
        batch: Batch,
        exemplar: Batch,
        loss: Loss,
        objective: Objective,
        compiling: Compile | None = None,
        *,
        moving: Collection[str] | None = None,
        at_rest: bool = False,
    ) -> None:
        self.model = model
        self.names = list(parameters)
        self.moving = [name for name in self.names if moving is None or name in moving]  # in the virtual step
        self.at_rest = at_rest
        self._held = list(_held(model, self.names))
        whole = _trace(self, batch, exemplar, loss, objective)
        (output,) = (node for node in whole.graph.nodes if node.op == "output")
        self.like = torch.empty(output.args[0][_SEEN.index("logits")].meta["val"].shape, device="meta")  # the logits
        norms = merge(whole, len(self.names), self._held)
        self.norms = [norm for norm, _, _ in norms]
        first, second, late = split(whole, _FIXED, [node for _, mean, inverse in norms for node in (mean, inverse)])
        self._used = [name for name, is_late in zip(self.names, late, strict=True) if is_late]
        self._first: Callable[..., Any] = first if compiling is None else compiling(first)
        self._second: Callable[..., Any] = second if compiling is None else compiling(second)
        self.operations = len(first.graph.nodes) + len(second.graph.nodes)

    def solve(
        self, parameters: Parameters, scores: Tensor, rates: Sequence[Tensor], batch: Batch, exemplar: Batch
    ) -> TracedSolution:
        """The score gradient at these parameters, with a rate for each in the virtual step; nothing is moved."""
        held = _held(self.model, self.names)
        with torch.no_grad():
            out = self._first(
                *(parameters[name].detach() for name in self.names),
                *(held[name] for name in self._held),
                scores,
                *rates,
                *_leaves(batch),
                *_leaves(exemplar),
            )
        stop = _FIXED + 2 * len(self.norms)
        seen = dict(zip(_SEEN, out, strict=False))
        return TracedSolution(**seen, statistics=tuple(out[_FIXED:stop]), rest=tuple(out[stop:]))

    def gradients(self, solution: TracedSolution, weights: Tensor) -> Parameters:
        """The gradient of the loss under new weights, over the same forward pass, by every parameter in use.

        The others get none, as from autograd: with zeros an optimizer would go on to decay them.
        """
        with torch.no_grad():
            return dict(zip(self._used, self._second(weights, *solution.rest), strict=True))

    def move_statistics(self, solution: TracedSolution) -> None:
        """Move the running statistics as the forward pass would have."""
        buffers = dict(self.model.named_buffers())
        for k, norm in enumerate(self.norms):
            mean, inverse = solution.statistics[2 * k : 2 * k + 2]
            variance = (inverse.double().pow(-2) - norm.eps) * (norm.count / max(norm.count - 1, 1))
            buffers[norm.mean].lerp_(mean.to(buffers[norm.mean].dtype), norm.momentum)
            buffers[norm.var].lerp_(variance.to(buffers[norm.var].dtype), norm.momentum)
            tracked = norm.mean.replace("running_mean", "num_batches_tracked")
            if tracked in buffers:
                buffers[tracked].add_(1)


def _held(model: nn.Module, names: Collection[str]) -> Parameters:
    """What a pass reads beside the parameters that move: buffers, and frozen parameters."""
    frozen = {name: p.detach() for name, p in model.named_parameters() if name not in set(names)}
    return {**dict(model.named_buffers()), **frozen}


def rate_type(parameter: Tensor) -> torch.dtype:
    """What a parameter's rate in the virtual step is held in."""
    return torch.promote_types(parameter.dtype, torch.float32)


def _pullback(function: Callable[[Any], Tensor], at: Any) -> tuple[Tensor, Callable[[Tensor], tuple[Any, ...]]]:
    made: Any = vjp(function, at)
    return made[0], made[1]


def _leaves(batch: Batch) -> list[Tensor]:
    """The tensors of a batch that a pass looks at, in a fixed order."""
    found: list[Tensor] = []
    map_tensors(batch.inputs, lambda t: found.append(t) or t)  # type: ignore[func-returns-value]
    found.append(batch.labels)
    found += [t for t in (batch.groups, batch.shares) if t is not None]
    return found


def _refill(batch: Batch, leaves: Sequence[Tensor]) -> Batch:
    """The batch with other tensors in the places of its own."""
    rest = iter(leaves)
    inputs = map_tensors(batch.inputs, lambda _: next(rest))
    labels = next(rest)
    groups = None if batch.groups is None else next(rest)
    return Batch(inputs, labels, groups, None, None if batch.shares is None else next(rest))


def _trace(step: TracedStep, batch: Batch, exemplar: Batch, loss: Loss, objective: Objective) -> GraphModule:
    from torch.fx.experimental.proxy_tensor import make_fx

    names, moving, held_names, model = step.names, step.moving, step._held, step.model
    p_count, b_count = len(names), len(held_names)
    train_leaves, held_leaves = _leaves(batch), _leaves(exemplar)

    def whole(*flat: Tensor) -> list[Tensor]:
        rest = list(flat)
        parameters = dict(zip(names, rest[:p_count], strict=True))
        beside = dict(zip(held_names, rest[p_count : p_count + b_count], strict=True))
        scores = rest[p_count + b_count]
        start = p_count + b_count + 1 + len(moving)
        rates = dict(zip(moving, rest[p_count + b_count + 1 : start], strict=True))
        train = _refill(batch, rest[start : start + len(train_leaves)])
        held = _refill(exemplar, rest[start + len(train_leaves) : -1])
        new_weights = rest[-1]

        def net(at: Parameters, inputs: Any, size: int) -> Tensor:
            own = {name: t.clone() for name, t in beside.items()}
            args, kwargs = call_arguments(inputs, size)
            return logits_of(functional_call(model, (at, own), args, kwargs), size)

        def on_train(at: Parameters) -> Tensor:
            return net(at, train.inputs, len(train))

        logits, back = _pullback(on_train, parameters)
        losses, loss_back = _pullback(lambda z: loss(z, train.labels), logits)
        weights = torch.softmax(scores, dim=0)
        (slope,) = back(*loss_back(weights.to(losses.dtype)))
        here = {name: parameters[name] for name in moving}
        there = here if step.at_rest else {name: p - rates[name] * slope[name] for name, p in here.items()}

        def on_held(at: Parameters) -> tuple[Tensor, Tensor]:
            found = loss(net({**parameters, **at}, held.inputs, len(held)), held.labels)
            return evaluate(objective, found, held), found

        value, held_back, held_losses = vjp(on_held, there, has_aux=True)  # type: ignore[misc]
        (direction,) = held_back(torch.ones_like(value))
        along = {name: rates[name] * v for name, v in direction.items()}
        with NormTangents():
            moved = jvp(lambda at: on_train({**parameters, **at}), (here,), (along,))[1]
        (unit,) = loss_back(torch.ones_like(losses))
        pull = (unit * moved).reshape(len(train), -1).sum(dim=1)
        gradient = -weights * (pull - (weights * pull).sum())
        (final,) = back(*loss_back(new_weights.to(losses.dtype)))
        return [gradient, pull, value, held_losses, losses, logits, weights, *(final[name] for name in names)]

    device = batch.labels.device
    own = dict(model.named_parameters())
    examples = [
        *(p.detach() for n, p in own.items() if n in set(names)),
        *_held(model, names).values(),
        torch.zeros(len(batch), device=device),
        *(torch.zeros((), dtype=rate_type(own[name]), device=device) for name in moving),
        *(t.clone() for t in (*train_leaves, *held_leaves)),  # a tensor given twice would be traced as one input
        torch.zeros(len(batch), device=device),
    ]
    functional = torch.func.functionalize(whole, remove="mutations_and_views")
    try:
        # cuDNN's batch norm has outputs of its own kind; the plain one is the same arithmetic and fuses
        with torch.no_grad(), torch.backends.cudnn.flags(enabled=False), kernels(plain=True):
            return make_fx(functional, tracing_mode="fake")(*examples)
    except (RuntimeError, NotImplementedError, TypeError, AssertionError) as error:  # the last: tensors held elsewhere
        first = str(error).strip().split("\n")[0]
        raise NotDifferentiable(f"The model's passes cannot be traced ({first}); use gradient='auto'.") from error
