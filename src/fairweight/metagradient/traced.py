"""Forward mode with all passes of a step traced into one graph, in which what they share is done once.

The forward-mode pass repeats the whole forward pass before it adds to it. Traced together, the two are one: what
is left is a forward, two backwards, the exemplar passes and the tangents, which is all that the exact step needs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp, vjp
from torch.fx import Graph, GraphModule, Node

from fairweight.errors import NotDifferentiable
from fairweight.metagradient._norm import NormTangents
from fairweight.metagradient._setting import kernels
from fairweight.metagradient.look_ahead import evaluate
from fairweight.metagradient.passes import Parameters, call_arguments, logits_of
from fairweight.types import Batch, Loss, Objective, map_tensors

_aten = torch.ops.aten
_SAME = {
    _aten.alias.default,
    _aten.alias_copy.default,
    _aten.clone.default,
    _aten.detach.default,
    _aten.detach_copy.default,
    _aten.lift_fresh_copy.default,
}
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


@dataclass(frozen=True)
class _Norm:
    mean: str  # names of the buffers
    var: str
    momentum: float
    eps: float
    count: int  # values per channel


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
        norms = _merge(whole, len(self.names), self._held)
        self.norms = [norm for norm, _, _ in norms]
        first, second, late = _split(whole, [node for _, mean, inverse in norms for node in (mean, inverse)])
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


def _merge(whole: GraphModule, p_count: int, held_names: list[str]) -> list[tuple[_Norm, Node, Node]]:
    """Do shared arithmetic once, in place; the norms of the train pass with their statistics."""
    from torch._functorch.compile_utils import fx_graph_cse

    graph = whole.graph
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in _SAME:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
        elif node.op == "call_function" and torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise NotDifferentiable("The model draws random numbers, such as dropout; use gradient='auto'.")
    places = {node: k for k, node in enumerate(n for n in graph.nodes if n.op == "placeholder")}
    seen: dict[str, tuple[_Norm, Node]] = {}
    for node in graph.nodes:
        if node.target is not _aten.native_batch_norm.default or node.args[5] is not True:
            continue
        mean = node.args[3]
        if mean is not None:
            if mean not in places:
                raise NotDifferentiable("A norm changes its running statistics on their way in; use gradient='auto'.")
            name = held_names[places[mean] - p_count]
            if name not in seen:  # the train pass comes first
                var = held_names[places[node.args[4]] - p_count]
                shape = node.args[0].meta["val"].shape  # [B, C, ...]
                count = shape.numel() // shape[1]
                seen[name] = (_Norm(name, var, float(node.args[6]), float(node.args[7]), count), node)
            node.args = (*node.args[:3], None, None, *node.args[5:])
    kept = []
    for norm, node in seen.values():
        with graph.inserting_after(node):
            mean = graph.call_function(operator.getitem, (node, 1))
            inverse = graph.call_function(operator.getitem, (node, 2))
        kept.append((norm, mean, inverse))
    (output,) = (n for n in graph.nodes if n.op == "output")
    output.args = ([*output.args[0], *(n for _, m, i in kept for n in (m, i))],)
    graph.eliminate_dead_code()
    merged = fx_graph_cse(graph)
    merged.eliminate_dead_code()
    whole.graph = merged
    (output,) = (n for n in merged.nodes if n.op == "output")
    tail = output.args[0][len(output.args[0]) - 2 * len(kept) :]
    output.args = (output.args[0][: len(output.args[0]) - 2 * len(kept)],)
    return [(norm, tail[2 * k], tail[2 * k + 1]) for k, (norm, _, _) in enumerate(kept)]


def _split(whole: GraphModule, statistics: list[Node]) -> tuple[GraphModule, GraphModule, list[bool]]:
    """Before and after the new weights are known; and of each gradient, whether it depends on them."""
    nodes = list(whole.graph.nodes)
    places = [n for n in nodes if n.op == "placeholder"]
    (output,) = (n for n in nodes if n.op == "output")
    results = list(output.args[0])
    late: set[Node] = {places[-1]}
    for node in nodes:
        if node.op == "call_function" and any(source in late for source in node.all_input_nodes):
            late.add(node)
    depends = [n in late for n in results[_FIXED:]]  # not so where a parameter takes no part in the losses
    early_results, late_results = results[:_FIXED], [n for n in results[_FIXED:] if n in late]
    saved = list(dict.fromkeys(s for n in nodes if n in late for s in n.all_input_nodes if s not in late))
    first = Graph()
    into_first: dict[Node, Node] = {}
    for node in nodes:
        if node not in late and node.op != "output":
            into_first[node] = first.node_copy(node, lambda n: into_first[n])
    first.output(tuple(into_first[n] for n in (*early_results, *statistics, *saved)))
    second = Graph()
    into_second = {places[-1]: second.placeholder("weights")}
    for node in saved:
        into_second[node] = second.placeholder(node.name)
    for node in nodes:
        if node in late and node.op == "call_function":
            into_second[node] = second.node_copy(node, lambda n: into_second[n])
    second.output(tuple(into_second[n] for n in late_results))
    return GraphModule(whole, first), GraphModule(whole, second), depends
