"""What is done to the graph of a step: shared arithmetic once, and a cut where the new weights come in."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from fairweight.errors import NotDifferentiable

_aten = torch.ops.aten
_SAME = {
    _aten.alias.default,
    _aten.alias_copy.default,
    _aten.clone.default,
    _aten.detach.default,
    _aten.detach_copy.default,
    _aten.lift_fresh_copy.default,
}


@dataclass(frozen=True)
class Norm:
    """A batch norm of the train pass, whose running statistics a step moves."""

    mean: str  # names of the buffers
    var: str
    momentum: float
    eps: float
    count: int  # values per channel


def merge(whole: GraphModule, p_count: int, held_names: list[str]) -> list[tuple[Norm, Node, Node]]:
    """Do shared arithmetic once, in place; the norms of the train pass with their statistics."""
    from torch._functorch.compile_utils import fx_graph_cse

    if draws_random(whole):
        raise NotDifferentiable("The model draws random numbers, such as dropout; use gradient='auto'.")
    _take_out(whole, _SAME)
    places = {node: k - p_count for k, node in enumerate(n for n in whole.graph.nodes if n.op == "placeholder")}
    seen: set[str] = set()
    for node in whole.graph.nodes:
        if node.target is not _aten.native_batch_norm.default or node.args[5] is not True or node.args[3] is None:
            continue
        if node.args[3] not in places:
            raise NotDifferentiable("A norm changes its running statistics on their way in; use gradient='auto'.")
        mean, var = (held_names[places[node.args[k]]] for k in (3, 4))
        if mean not in seen:  # the train pass comes first
            shape = node.args[0].meta["val"].shape  # [B, C, ...]
            count = shape.numel() // shape[1]
            node.meta["norm"] = Norm(mean, var, float(node.args[6]), float(node.args[7]), count)
            seen.add(mean)
        node.args = (*node.args[:3], None, None, *node.args[5:])
    whole.graph.eliminate_dead_code()
    whole.graph = fx_graph_cse(whole.graph)
    whole.graph.eliminate_dead_code()
    found = []
    for node in [n for n in whole.graph.nodes if "norm" in n.meta]:
        with whole.graph.inserting_after(node):
            middle, inverse = (whole.graph.call_function(operator.getitem, (node, k)) for k in (1, 2))
        found.append((node.meta["norm"], middle, inverse))
    return found


def shorten_tangents(graph: Graph, join: bool) -> None:
    """The tangent of a convolution, W'a + Wa', without the part that is 0; join: as one convolution of both."""
    for node in list(graph.nodes):
        if node.target is not _aten.add.Tensor or not all(_convolves(part) for part in node.args):
            continue
        first, second = node.args
        bias, options = [part.args[2] for part in node.args if part.args[2] is not None], first.args[3:]
        if options != second.args[3:] or node.kwargs or len(bias) > 1:
            continue
        left = [part for part in (first, second) if part.args[2] is not None or not _is_zero(part.args[0])]
        if len(left) == 1:
            node.replace_all_uses_with(left[0])
        elif join and len(left) == 2 and options[3] is False and options[5] == 1:  # neither transposed nor in groups
            with graph.inserting_before(node):
                inputs, kernels = (
                    graph.call_function(_aten.cat.default, ([part.args[k] for part in left], 1)) for k in (0, 1)
                )
                given = (inputs, kernels, bias[0] if bias else None, *options)
                joined = graph.call_function(_aten.convolution.default, given)
            node.replace_all_uses_with(joined)
    graph.eliminate_dead_code()


def _convolves(node: object) -> bool:
    return isinstance(node, Node) and node.target is _aten.convolution.default and len(node.users) == 1


def _is_zero(node: Node) -> bool:
    while node.target in (_aten.expand.default, _aten.expand_copy.default, _aten._to_copy.default):
        node = node.args[0]  # type: ignore[assignment]
    return node.target in (_aten.zeros.default, _aten.zeros_like.default)


def draws_random(whole: GraphModule) -> bool:
    """True if the graph draws random numbers."""
    return any(
        node.op == "call_function" and torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        for node in whole.graph.nodes
    )


def tidy(whole: GraphModule) -> None:
    """Remove calls without effect and results without use, in place."""
    _take_out(whole, _SAME - {_aten.clone.default})
    for node in list(whole.graph.nodes):
        source: Any = node.args[0] if node.args else None
        if node.target is _aten.t.default and source.target is _aten.t.default:  # turned and turned back
            node.replace_all_uses_with(source.args[0])
        elif node.target is _aten.view.default and _form(node) == _form(source):
            node.replace_all_uses_with(source)
    whole.graph.eliminate_dead_code()


def _take_out(whole: GraphModule, same: set[Any]) -> None:
    """Erase the calls that give what they are given."""
    for node in list(whole.graph.nodes):
        if node.op == "call_function" and node.target in same:
            node.replace_all_uses_with(node.args[0])
            whole.graph.erase_node(node)


def _form(node: Node) -> object:
    value = node.meta.get("val")
    return node if value is None else (value.shape, value.stride())


def split(whole: GraphModule, fixed: int, statistics: list[Node]) -> tuple[GraphModule, GraphModule, list[bool]]:
    """Before and after the new weights are known; and of each gradient, whether it depends on them."""
    nodes = list(whole.graph.nodes)
    places = [n for n in nodes if n.op == "placeholder"]
    (output,) = (n for n in nodes if n.op == "output")
    results = list(output.args[0])
    late: set[Node] = {places[-1]}
    for node in nodes:
        if node.op == "call_function" and any(source in late for source in node.all_input_nodes):
            late.add(node)
    depends = [n in late for n in results[fixed:]]  # not so where a parameter takes no part in the losses
    early_results, late_results = results[:fixed], [n for n in results[fixed:] if n in late]
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
