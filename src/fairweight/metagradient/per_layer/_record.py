"""The record of a forward and a backward pass, from which slopes at any weights and the pull are computed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairweight.errors import NotDifferentiable
from fairweight.metagradient import double_backward
from fairweight.metagradient.model import Parameters
from fairweight.metagradient.passes import dense
from fairweight.metagradient.per_layer._kind import Layout, Term, as_given, matched
from fairweight.metagradient.per_layer._observer import Observer, Way

# The smallest size of a weight that a sample's losses go backward with: its pull is divided by it.
SMALLEST = 1e-30
_NEAR = {torch.float64: 1e-9, torch.float32: 1e-4}  # of gradients in one place, relative; other types: 0.05
_ELSEWHERE = "The samples lie elsewhere in this batch than in the one that was tried."


class Choice(NamedTuple):
    """How one use is read: which of its ways, and where the samples lie in each of its outputs."""

    way: int
    layouts: tuple[Layout | None, ...]


@dataclass(frozen=True)
class Rest:
    """Parameters that no layer is seen to use: their slopes by the graph, their pull by another mode.

    All of them, for a pass in which samples lie elsewhere than in those before.
    """

    names: frozenset[str]
    pull: Callable[[Parameters], Tensor]  # a direction to [B]


class Record:
    """The terms of a pass, for losses that went backward with weights c."""

    def __init__(
        self, seen: Observer, losses: Tensor, weights: Tensor, choices: Sequence[Choice], *,
        rest: Rest | None = None, keep: bool = False, check: bool = False,
    ) -> None:  # fmt: skip
        """Take the gradient at the layers' outputs; keep: the graph is needed again.

        check: refuse a pass in which samples lie elsewhere than the choices say; it costs another backward pass.
        """
        self.parameters, self.rest = seen.parameters, rest
        self.apart: frozenset[str] = frozenset() if rest is None else rest.names
        self.losses = losses if rest is not None else None
        sent = weights.detach().to(losses.dtype)
        least = max(SMALLEST, torch.finfo(sent.dtype).tiny)
        self.sent = sent.masked_fill(sent.abs() < least, least)  # [B]
        self.device = losses.device.type
        self.sparse = _sparse(seen)
        pairs = zip(seen.uses, choices, strict=False)  # no choices: every parameter is apart
        used = [(use.ways[choice.way], choice.layouts) for use, choice in pairs if not use.names <= self.apart]
        ways = [way for way, _ in used]
        places = [
            [None if at is None else at.place(s, len(losses)) for at, s in zip(layouts, way.shapes, strict=True)]
            for way, layouts in used
        ]
        fits = all(
            [at is None for at in at_outputs] == [at is None for at in where]
            for (_, at_outputs), where in zip(used, places, strict=True)
        )
        found = gradients(losses, ways, self.sent, keep=keep or rest is not None or not fits or check)
        if check:
            self._check_places(losses, ways, found, places)
        del used
        if not keep and fits:
            seen.uses.clear()  # whoever holds the observer must not hold what goes on below
        self.terms: list[Term] = []
        with torch.no_grad(), as_given(self.device):
            while ways:  # what was kept of each is given back as soon as its terms are made
                way, arrived, where = ways.pop(), found.pop(), places.pop()
                if all(g is None for g in arrived):
                    continue
                way.check()
                if any(g is not None and place is None for g, place in zip(arrived, where, strict=True)):
                    raise NotDifferentiable(_ELSEWHERE)
                self.terms += way.kind.terms(arrived, where)
        own = {id(p): name for name, p in self.parameters.items()}
        self._own: list[list[str | None]] = [[own.get(id(w)) for w in term.weights] for term in self.terms]
        self._sources = {id(w): seen.names(w) for term in self.terms for w in term.weights}

    def _check_places(
        self, losses: Tensor, ways: Sequence[Way], found: Sequence[Sequence[Any]], places: Sequence[Sequence[Any]]
    ) -> None:
        """Compare with what arrives at other weights: the same, times each sample's ratio in that sample's place."""
        unlike = torch.arange(len(losses), device=losses.device, dtype=torch.float64) * 0.618034 % 1 + 0.5
        asked = (unlike * self.sent.abs().mean()).to(self.sent.dtype)
        again, errors = gradients(losses, ways, asked, keep=True), []
        with torch.no_grad():
            for triple in zip(found, again, places, strict=True):
                for g, other, place in zip(*triple, strict=True):
                    if g is not None and other is not None and place is not None:
                        scaled = place.scale(g, asked / self.sent)
                        errors.append((scaled - other).norm() - _NEAR.get(g.dtype, 0.05) * other.norm())
        if errors and not bool(torch.stack([e.double() for e in errors]).max() <= 0):
            raise NotDifferentiable(_ELSEWHERE)

    def slopes(
        self, weights: Tensor | None = None, names: Collection[str] | None = None, *, last: bool = False
    ) -> Parameters:
        """Gradient of the losses' sum with these weights [B] (None: those of the pass), by each parameter in use.

        names: by these alone. last: nothing will be asked again, so memory is given back on the way.
        """
        wanted = frozenset(self.parameters if names is None else names)
        found: Parameters = {}
        made: dict[int, tuple[Tensor, Tensor]] = {}  # weights that are made of parameters, and the slope by each
        with torch.no_grad(), as_given(self.device):
            ratio = None if weights is None else weights.detach().to(self.sent.dtype) / self.sent
            everything = len(wanted) == len(self.parameters)
            for k, term in enumerate(self.terms):
                if not everything and not any(self._sources[id(w)] & wanted for w in term.weights):
                    continue
                for w, name, slope in zip(term.weights, self._own[k], term.slopes(ratio), strict=True):
                    slope = matched(slope, w)
                    if name is None:
                        made[id(w)] = w, slope if id(w) not in made else made[id(w)][1] + slope
                    elif name in wanted and name not in self.apart:
                        found[name] = slope if name not in found else found[name] + slope
                if last:
                    self.terms[k] = Term()
            if made:  # from slopes by what parameters were made into, to slopes by the parameters
                sources = frozenset().union(*(self._sources[key] for key in made)) & wanted - self.apart
                by = {n: p for n, p in self.parameters.items() if n in sources}
                pairs = [list(column) for column in zip(*made.values(), strict=True)]
                for name, slope in (slopes_in_use(pairs[0], by, pairs[1], keep=not last) if by else {}).items():
                    found[name] = slope if name not in found else found[name] + slope
        if self.losses is not None and (apart := {n: self.parameters[n] for n in self.apart & wanted}):
            sent = self.sent if weights is None else weights.detach().to(self.losses.dtype)
            found |= slopes_in_use(self.losses, apart, sent, keep=not last)
        return {name: found[name] for name in self.parameters if name in found}

    def pull(self, direction: Parameters) -> Tensor:
        """How each sample's loss changes along a direction."""  # [B]
        along = {name: v for name, v in direction.items() if name not in self.apart}
        with torch.no_grad(), as_given(self.device):
            made = self._forward(along)
            total: Tensor | None = None
            for term, names in zip(self.terms, self._own, strict=True):
                pairs = zip(term.weights, names, strict=True)
                given = [made.get(id(w)) if name is None else along.get(name) for w, name in pairs]
                if any(v is not None for v in given):
                    part = matched(term.pull(given), self.sent)
                    total = part if total is None else total + part
            total = torch.zeros_like(self.sent) if total is None else total / self.sent
        if self.rest is not None and (others := {n: v for n, v in direction.items() if n in self.apart}):
            total = total + self.rest.pull(others)
        return total

    def _forward(self, along: Parameters) -> dict[int, Tensor]:
        """The direction of tensors made of parameters, from that of the parameters: by two backward passes."""
        weights = {
            id(w): w
            for term, names in zip(self.terms, self._own, strict=True)
            for w, name in zip(term.weights, names, strict=True)
            if name is None and self._sources[id(w)] & along.keys()
        }
        if not weights:
            return {}
        sources = [n for n in along if any(n in self._sources[key] for key in weights)]
        inputs, directions = [self.parameters[n] for n in sources], [along[n] for n in sources]
        return dict(zip(weights, double_backward.moved(list(weights.values()), inputs, directions), strict=True))


def _sparse(seen: Observer) -> frozenset[str]:
    """The parameters that autograd gives a sparse gradient."""
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for use in seen.uses:
        found[use.ways[0].kind.sparse] |= use.names
    return frozenset(found[True] - found[False])


def gradients(losses: Tensor, ways: Sequence[Way], sent: Tensor, *, keep: bool) -> list[list[Tensor | None]]:
    """The gradient of the losses' sum with these weights [B] that arrives at each of the edges."""
    edges = [edge for way in ways for edge in way.edges if edge is not None]
    arrived = iter(torch.autograd.grad(losses, edges, sent, retain_graph=keep, allow_unused=True) if edges else ())

    def shaped(shape: torch.Size) -> Tensor | None:
        g = next(arrived)
        return g if g is None or g.shape == shape else g.reshape(shape)

    return [
        [None if edge is None else shaped(s) for edge, s in zip(way.edges, way.shapes, strict=True)] for way in ways
    ]


def slopes_in_use(outputs: Any, parameters: Parameters, sent: Any, *, keep: bool) -> Parameters:
    """Gradient of outputs that go backward with these factors, by each parameter in use, as plain tensors."""
    found = torch.autograd.grad(outputs, list(parameters.values()), sent, retain_graph=keep, allow_unused=True)
    return {name: dense(s) for name, s in zip(parameters, found, strict=True) if s is not None}
