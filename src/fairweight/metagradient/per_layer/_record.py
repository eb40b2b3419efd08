"""What one forward and one backward pass leave at the layers: slopes at any weights, and the pull along a direction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fairweight.errors import NotDifferentiable
from fairweight.metagradient.model import Parameters
from fairweight.metagradient.passes import dense
from fairweight.metagradient.per_layer._kind import Layout, Place, Term, as_given
from fairweight.metagradient.per_layer._observer import Observer, Use, Way

# The smallest size of a weight that a sample's losses go backward with: its pull is divided by it.
SMALLEST = 1e-30


@dataclass(frozen=True)
class Choice:
    """How one use is read: which of its ways, and where the samples lie in each of its outputs."""

    way: int
    layouts: tuple[Layout | None, ...]

    def fits(self, way: Way, size: int) -> bool:
        """Whether the samples can lie there in outputs of these shapes."""
        pairs = zip(self.layouts, way.shapes, strict=True)
        return all(at is None or at.place(shape, size) is not None for at, shape in pairs)

    def places(self, way: Way, size: int) -> list[Place | None]:
        """In outputs of these shapes; refuses shapes that do not have them."""
        found = [None if at is None else at.place(s, size) for at, s in zip(self.layouts, way.shapes, strict=True)]
        if any(at is not None and place is None for at, place in zip(self.layouts, found, strict=True)):
            raise NotDifferentiable("The samples lie elsewhere in this batch than in the one that was tried.")
        return found


@dataclass(frozen=True)
class Rest:
    """Parameters that no layer was seen to use: their slopes by the graph, their pull by another mode."""

    names: frozenset[str]
    pull: Callable[[Parameters], Tensor]  # a direction to [B]


class Record:
    """The terms of a pass, for losses that went backward with weights c."""

    def __init__(
        self,
        seen: Observer,
        losses: Tensor,
        weights: Tensor,
        choices: Sequence[Choice],
        *,
        rest: Rest | None = None,
        keep: bool = False,
    ) -> None:
        """Goes back through the graph to the layers' outputs; keep: it can be gone back through again."""
        self.parameters, self.rest = seen.parameters, rest
        self.losses = losses if rest is not None else None
        sent = weights.detach().to(losses.dtype)
        least = max(SMALLEST, torch.finfo(sent.dtype).tiny)
        self.sent = torch.where(sent.abs() < least, least, sent)  # [B]
        self.size, self.device = len(losses), losses.device.type
        uses = list(seen.uses)
        ways = [use.ways[choice.way] for use, choice in zip(uses, choices, strict=True)]
        fits = all(choice.fits(way, self.size) for choice, way in zip(choices, ways, strict=True))
        found = gradients(losses, ways, self.sent, keep=keep or rest is not None or not fits)
        if not keep and fits:
            seen.uses.clear()  # whoever holds the observer must not hold what goes on below
        self.terms: list[Term] = []
        apart = self._apart
        with torch.no_grad(), as_given(self.device):
            while uses:  # what was kept of each is given back as soon as its terms are made
                use, way, arrived, choice = uses.pop(), ways.pop(), found.pop(), choices[len(uses)]
                if all(g is None for g in arrived) or use.names <= apart:
                    continue
                way.check()
                self.terms += way.kind.terms(arrived, choice.places(way, self.size))
        own = {id(p): name for name, p in self.parameters.items()}
        self._own: list[list[str | None]] = [[own.get(id(w)) for w in term.weights] for term in self.terms]
        self._sources = {id(w): seen.names(w) for term in self.terms for w in term.weights}

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
                if not everything and not any(self._names(w) & wanted for w in term.weights):
                    continue
                for w, name, slope in zip(term.weights, self._own[k], term.slopes(ratio), strict=True):
                    slope = slope.to(w.dtype)
                    if name is None:
                        made[id(w)] = w, slope if id(w) not in made else made[id(w)][1] + slope
                    elif name in wanted and name not in self._apart:
                        found[name] = slope if name not in found else found[name] + slope
                if last:
                    self.terms[k] = _DONE
            if made:
                for name, slope in self._back(made.values(), wanted - self._apart, last):
                    found[name] = slope if name not in found else found[name] + slope
        found.update(self._rest_slopes(weights, wanted, last))
        return {name: found[name] for name in self.parameters if name in found}

    def pull(self, direction: Parameters) -> Tensor:
        """How each sample's loss changes along a direction."""  # [B]
        with torch.no_grad(), as_given(self.device):
            along = {name: v for name, v in direction.items() if name not in self._apart}
            made = self._forward(along)
            total = torch.zeros_like(self.sent)
            for term, names in zip(self.terms, self._own, strict=True):
                given = [
                    along.get(name) if name is not None else made.get(id(w))
                    for w, name in zip(term.weights, names, strict=True)
                ]
                if any(v is not None for v in given):
                    total += term.pull(given)
            total /= self.sent
        if self.rest is not None and any(name in self.rest.names for name in direction):
            total = total + self.rest.pull({n: v for n, v in direction.items() if n in self.rest.names})
        return total

    @property
    def _apart(self) -> frozenset[str]:
        return frozenset() if self.rest is None else self.rest.names

    def _names(self, weight: Tensor) -> frozenset[str]:
        return self._sources[id(weight)]

    def _back(
        self, made: Iterable[tuple[Tensor, Tensor]], wanted: Collection[str], last: bool
    ) -> list[tuple[str, Tensor]]:
        """From slopes by what parameters were made into, to slopes by the parameters."""
        pairs = list(made)
        names = [n for n in self.parameters if n in wanted and any(n in self._names(w) for w, _ in pairs)]
        if not names:
            return []
        inputs = [self.parameters[n] for n in names]
        slopes = torch.autograd.grad(
            [w for w, _ in pairs], inputs, [s for _, s in pairs], retain_graph=not last, allow_unused=True
        )
        return [(n, dense(s)) for n, s in zip(names, slopes, strict=True) if s is not None]

    def _forward(self, along: Parameters) -> dict[int, Tensor]:
        """From a direction of the parameters to that of what they were made into: two backward passes over that."""
        weights = {
            id(w): w
            for term, names in zip(self.terms, self._own, strict=True)
            for w, name in zip(term.weights, names, strict=True)
            if name is None and any(n in along for n in self._names(w))
        }
        if not weights:
            return {}
        sources = [n for n in along if any(n in self._names(w) for w in weights.values())]
        with torch.enable_grad():
            units = [torch.zeros_like(w, requires_grad=True) for w in weights.values()]
            back = torch.autograd.grad(
                list(weights.values()), [self.parameters[n] for n in sources], units, create_graph=True,
                allow_unused=True, materialize_grads=True,
            )  # fmt: skip
            total = torch.stack([(b * along[n]).sum() for b, n in zip(back, sources, strict=True)]).sum()
            moved = torch.autograd.grad(total, units, retain_graph=True, allow_unused=True, materialize_grads=True)
        return {key: v.detach() for key, v in zip(weights, moved, strict=True)}

    def _rest_slopes(self, weights: Tensor | None, wanted: Collection[str], last: bool) -> Parameters:
        names = [n for n in self._apart if n in wanted]
        if not names or self.losses is None:
            return {}
        sent = self.sent if weights is None else weights.detach().to(self.losses.dtype)
        slopes = torch.autograd.grad(
            self.losses, [self.parameters[n] for n in names], sent, retain_graph=not last, allow_unused=True
        )
        return {n: dense(s) for n, s in zip(names, slopes, strict=True) if s is not None}


class ByGraph:
    """The same answers from the graph itself, for a pass in which samples lie elsewhere than in those before."""

    def __init__(self, losses: Tensor, weights: Tensor, parameters: Parameters, pull: Callable[[Parameters], Tensor]):
        self.losses, self.sent, self.parameters, self.pull = losses, weights.detach(), parameters, pull

    def slopes(
        self, weights: Tensor | None = None, names: Collection[str] | None = None, *, last: bool = False
    ) -> Parameters:
        wanted = {n: p for n, p in self.parameters.items() if names is None or n in names}
        sent = self.sent if weights is None else weights.detach()
        slopes = torch.autograd.grad(
            self.losses, list(wanted.values()), sent.to(self.losses.dtype), retain_graph=not last, allow_unused=True
        )
        return {n: dense(s) for n, s in zip(wanted, slopes, strict=True) if s is not None}


def gradients(losses: Tensor, ways: Sequence[Way], sent: Tensor, *, keep: bool) -> list[list[Tensor | None]]:
    """The gradient of the losses' sum with these weights [B] that arrives at each of the edges."""
    edges = [edge for way in ways for edge in way.edges if edge is not None]
    arrived = iter(torch.autograd.grad(losses, edges, sent, retain_graph=keep, allow_unused=True) if edges else ())
    return [[None if edge is None else next(arrived) for edge in way.edges] for way in ways]


class _Done(Term):
    weights = ()


_DONE = _Done()
__all__ = ["ByGraph", "Choice", "Record", "Rest", "Use", "gradients"]
