"""All passes of a step traced into one graph, in which what they share is done once.

The forward-mode pass repeats the whole forward pass before it adds to it. Traced together, the two are one: what
is left is a forward, two backwards, the exemplar passes and the tangents, which is all that the exact step needs.
Slow twin: `metagradient/whole_map.py`, which is what is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from fairweight.errors import NotDifferentiable
from fairweight.fast._graph_edits import merge, shorten_tangents, split
from fairweight.fast.batch_norm_tangent import NormTangents
from fairweight.metagradient.model import Parameters, call, exchanged, kernels, uncompiled
from fairweight.metagradient.solve import Rates
from fairweight.metagradient.whole_map import WholeStep, whole_map
from fairweight.types import Batch, Loss, ObjectiveFunction, map_tensors, tensors

SEEN = WholeStep._fields[:-1]  # outputs before the model's gradients
# Whether the two convolutions of a tangent are one; None: on a GPU (an H200: 0.7 % of a step, memory 1.12 for 1.06).
JOIN: bool | None = None


class Arguments(NamedTuple):
    """What a graph is called with, all tensors of it one after the other."""

    parameters: Parameters
    held: Parameters
    scores: Tensor  # [B]
    rates: Parameters  # of the virtual step, [] each
    train: list[Tensor]  # see `leaves`
    exemplar: list[Tensor]
    weights: Tensor  # [B] the new ones


@dataclass(frozen=True)
class Traced:
    """What the first graph gives; `rest` goes to the second."""

    seen: Mapping[str, Tensor]  # by the names of WholeStep
    statistics: tuple[Tensor, ...]  # mean and inverse deviation of each norm, in order
    rest: tuple[Tensor, ...]


class TracedStep:
    """The graphs of one step for fixed shapes: scores to their gradient, then new weights to the model's gradient."""

    def __init__(
        self, model: nn.Module, parameters: Parameters, batch: Batch, exemplar: Batch, loss: Loss,
        objective: ObjectiveFunction, moving: Sequence[str],
        compile_graph: Callable[[GraphModule], Callable[..., Any]] | None = None, *, at_rest: bool = False,
    ) -> None:  # fmt: skip
        self.model, self.at_rest = model, at_rest
        self.random = False  # whether the graphs draw random numbers
        self.names = list(parameters)
        self.moving = [name for name in self.names if name in set(moving)]  # in the virtual step
        self._held = list(held_by(model, self.names))
        try:
            whole = self._trace(batch, exemplar, loss, objective)
        except (RuntimeError, NotImplementedError, TypeError, AssertionError) as error:  # the last: foreign tensors
            first = str(error).strip().split("\n")[0]
            raise NotDifferentiable(f"The model's passes cannot be traced ({first}); use gradient='auto'.") from error
        (output,) = (node for node in whole.graph.nodes if node.op == "output")
        self.like = torch.empty(output.args[0][SEEN.index("logits")].meta["val"].shape, device="meta")  # the logits
        graphs: Iterable[Callable[..., Any]] = map(compile_graph or _as_it_is, self._cut(whole))
        self.first, self._second = graphs

    def _cut(self, whole: GraphModule) -> tuple[GraphModule, GraphModule]:
        """The graph in two, before and after the new weights are known."""
        join = next(self.model.parameters()).is_cuda if JOIN is None else JOIN
        shorten_tangents(whole.graph, join)
        norms = merge(whole, len(self.names), self._held)
        self.norms = [norm for norm, _, _ in norms]
        kept = [node for _, mean, inverse in norms for node in (mean, inverse)]
        first, second, late = split(whole, len(SEEN), kept)
        self._used = [name for name, is_late in zip(self.names, late, strict=True) if is_late]
        return first, second

    def solve(self, parameters: Parameters, scores: Tensor, rates: Rates, batch: Batch, exemplar: Batch) -> Traced:
        """The score gradient at these parameters; nothing is moved."""
        held = held_by(self.model, self.names)
        with torch.no_grad(), torch.autocast(scores.device.type, enabled=False):  # casts are in the graph
            out = self.first(
                *(parameters[name].detach() for name in self.names), *(held[name] for name in self._held), scores,
                *self._rates(parameters, rates), *leaves(batch), *leaves(exemplar),
            )  # fmt: skip
        stop = len(SEEN) + self._statistics
        seen = dict(zip(SEEN, out, strict=False))
        return Traced(seen, statistics=tuple(out[len(SEEN) : stop]), rest=tuple(out[stop:]))

    @property
    def _statistics(self) -> int:
        return 2 * len(self.norms)

    def gradients(self, traced: Traced, weights: Tensor) -> Parameters:
        """The gradient of the loss under new weights, over the same forward pass, by every parameter in use.

        The others get none, as from autograd: with zeros an optimizer would go on to decay them.
        """
        with torch.no_grad(), torch.autocast(weights.device.type, enabled=False):
            return dict(zip(self._used, self._second(weights, *traced.rest), strict=True))

    def move_statistics(self, traced: Traced) -> None:
        """Move the running statistics as the forward pass would have."""
        buffers = dict(self.model.named_buffers())
        alike: dict[Any, list[int]] = {}  # norms that are moved together: one operation for each costs 4 % of a step
        for k, norm in enumerate(self.norms):
            alike.setdefault((norm.momentum, buffers[norm.mean].dtype, buffers[norm.var].dtype), []).append(k)
        for (momentum, of_mean, of_var), numbers in alike.items():
            norms = [self.norms[k] for k in numbers]
            means = [traced.statistics[2 * k].to(of_mean) for k in numbers]
            inverses = [traced.statistics[2 * k + 1] for k in numbers]
            variances = list(torch._foreach_reciprocal(torch._foreach_mul(inverses, inverses)))
            torch._foreach_sub_(variances, [norm.eps for norm in norms])
            torch._foreach_mul_(variances, [norm.count / max(norm.count - 1, 1) for norm in norms])
            torch._foreach_lerp_([buffers[norm.mean] for norm in norms], means, momentum)
            torch._foreach_lerp_([buffers[norm.var] for norm in norms], [v.to(of_var) for v in variances], momentum)
        names = {norm.mean.replace("running_mean", "num_batches_tracked") for norm in self.norms} & buffers.keys()
        if names:
            torch._foreach_add_([buffers[name] for name in names], 1)

    def _rates(self, parameters: Parameters, rates: Rates) -> list[Tensor]:
        """The virtual step's rate of every parameter that moves, as tensors."""
        made: dict[tuple[float, torch.dtype, torch.device], Tensor] = {}  # most often one for all

        def tensor(rate: float | Tensor, p: Tensor) -> Tensor:
            if isinstance(rate, Tensor):
                return rate
            key = (float(rate), rate_type(p), p.device)
            if key not in made:  # written on the device: a copy from the host cannot be captured
                made[key] = torch.full((), key[0], dtype=key[1], device=key[2])
            return made[key]

        return [tensor(rates.get(name, 0.0), parameters[name]) for name in self.moving]

    def _arguments(self, batch: Batch, exemplar: Batch) -> Arguments:
        """Examples of what the graph is called with."""
        device, own = batch.labels.device, dict(self.model.named_parameters())
        dtype = rate_type(next(iter(own.values())))
        return Arguments(
            {name: own[name].detach() for name in self.names},
            held_by(self.model, self.names),
            torch.zeros(len(batch), device=device, dtype=dtype),
            {name: torch.zeros((), dtype=rate_type(own[name]), device=device) for name in self.moving},
            [t.clone() for t in leaves(batch)],  # a tensor given twice would be traced as one input
            [t.clone() for t in leaves(exemplar)],
            torch.zeros(len(batch), device=device, dtype=dtype),
        )

    def _trace(self, batch: Batch, exemplar: Batch, loss: Loss, objective: ObjectiveFunction) -> GraphModule:
        from torch.fx.experimental.proxy_tensor import make_fx

        model = self.model

        def whole(*arguments: Any) -> list[Tensor]:
            given = Arguments(*arguments)

            def net(at: Parameters, samples: Batch) -> Tensor:
                with exchanged(model, {**at, **{name: t.clone() for name, t in given.held.items()}}):
                    return call(model, samples.inputs, len(samples))

            found = whole_map(
                net, loss, objective, given.parameters, given.scores, refill(batch, given.train),
                refill(exemplar, given.exemplar), given.rates, lambda gradient, weights: given.weights,
                at_rest=self.at_rest,
            )  # fmt: skip
            return [*found[:-1], *(found.slope[name] for name in self.names)]

        functional = torch.func.functionalize(whole, remove="mutations_and_views")
        # cuDNN's batch norm has outputs of its own kind; the plain one is the same arithmetic and fuses
        plain = torch.backends.cudnn.flags(enabled=False)
        with torch.no_grad(), plain, kernels(plain=True), uncompiled(), NormTangents():
            return make_fx(functional, tracing_mode="fake")(*self._arguments(batch, exemplar))


def _as_it_is(graph: GraphModule) -> Callable[..., Any]:
    return graph


def held_by(model: nn.Module, names: Sequence[str]) -> Parameters:
    """What a pass reads beside the parameters that move: buffers, and frozen parameters."""
    frozen = {name: p.detach() for name, p in model.named_parameters() if name not in set(names)}
    return {**dict(model.named_buffers()), **frozen}


def rate_type(parameter: Tensor) -> torch.dtype:
    """What a parameter's rate, and the scores, are held in."""
    return torch.promote_types(parameter.dtype, torch.float32)


def leaves(batch: Batch) -> list[Tensor]:
    """The tensors of a batch that a pass looks at, in a fixed order."""
    return tensors((batch.inputs, batch.labels, batch.groups, batch.shares))


def refill(batch: Batch, leaves: Sequence[Tensor]) -> Batch:
    """The batch with other tensors in the places of its own."""
    rest, seen = iter(leaves), (batch.inputs, batch.labels, batch.groups, batch.shares)
    inputs, labels, groups, shares = map_tensors(seen, lambda _: next(rest))
    return Batch(inputs, labels, groups, None, shares)
