"""How the layers of a model are read, found by one pass over a few samples; nothing is assumed of the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from fairweight.errors import BadInput, NotDifferentiable
from fairweight.metagradient.model import Parameters, RandomState, kernels, trainable
from fairweight.metagradient.passes import losses_with_graph, run
from fairweight.metagradient.per_layer._frozen_norm import Switch
from fairweight.metagradient.per_layer._kind import Layout
from fairweight.metagradient.per_layer._observer import Observer
from fairweight.metagradient.per_layer._record import Choice, Record, Rest, gradients, slopes_in_use
from fairweight.types import Batch, Loss, map_tensors

UNKNOWN, MIXED = -1, -2  # of an entry: no gradient says whose it is; the gradients of several samples meet in it
FEW = 11  # samples of a trial: a number that few other axes have
_TOLERANCE = {torch.float64: 1e-8, torch.float32: 2e-3}  # of slopes, relative; other types: 0.1
_MIXING = (
    "samples see each other, as with batch norm in training mode or a loss over the whole batch, so no sample's part "
    "of a gradient can be told from the others'"
)
_MOST = 0.5  # of the parameters: where more are used in ways that cannot be seen, the layers are not worth it


@dataclass(frozen=True)
class Plan:
    """How to read every use of a pass, and the parameters that no layer was seen to use."""

    choices: tuple[Choice, ...]
    rest: frozenset[str]
    shapes: set[Any] = field(default_factory=set)  # of a sample's inputs, for which it was tried or checked


def plan(
    model: nn.Module, batch: Batch, loss: Loss, *, plain_kernels: bool = False, frozen: bool = False
) -> tuple[Any, Plan]:
    """The signature of the model's passes and the plan for them; NotDifferentiable says why there is none.

    On a few samples where the model takes them, else on the batch.
    """
    if len(batch) > FEW:
        try:
            return _plan(model, few(batch, FEW), loss, plain_kernels, frozen)
        except (RuntimeError, ValueError, IndexError, TypeError, NotDifferentiable, BadInput):
            pass  # a model may take batches of one size alone, or inputs whose samples are not first
    return _plan(model, batch, loss, plain_kernels, frozen)


def _plan(model: nn.Module, batch: Batch, loss: Loss, plain: bool, frozen: bool) -> tuple[Any, Plan]:
    own = trainable(model)
    device = next(iter(own.values())).device
    generator = torch.Generator(device).manual_seed(0)
    parameters = {name: _nearby(p, generator).requires_grad_() for name, p in own.items()}
    seen = Observer(parameters, batch.inputs, len(batch), Switch() if frozen else None)

    def tried(logits: Tensor) -> Plan:
        with torch._C.DisableTorchFunction():  # not observed
            return _Tried(seen, losses_with_graph(loss, logits, batch.labels, check=False), generator).plan()

    with torch.enable_grad(), casts_forgotten(), RandomState.now(device).replayed(), kernels(plain), seen:
        found = run(model, parameters, batch.inputs, len(batch), tried)
    return seen.signature, found


class _Tried:
    def __init__(self, seen: Observer, losses: Tensor, generator: torch.Generator) -> None:
        self.seen, self.losses, self.parameters, self.generator = seen, losses, seen.parameters, generator
        self.size = len(losses)

    def plan(self) -> Plan:
        pairs = list(zip(self.seen.uses, self._choices(), strict=True))
        lost = frozenset(name for use, choice in pairs if choice is None for name in use.names)
        choices = tuple(c or Choice(0, (None,) * len(use.ways[0].edges)) for use, c in pairs)
        rest = lost | self._wrong(choices, lost)
        counts = {name: p.numel() for name, p in self.parameters.items()}
        if sum(counts[name] for name in rest) > _MOST * sum(counts.values()):
            raise NotDifferentiable("most parameters are used where no function of torch is seen to use them")
        return Plan(choices, rest)

    def _choices(self) -> list[Choice | None]:
        """For each use the first way in which every gradient is one sample's own."""
        ways = [way for use in self.seen.uses for way in use.ways]
        whole = iter(gradients(self.losses, ways, torch.ones_like(self.losses), keep=True))
        masked = [gradients(self.losses, ways, mask, keep=True) for mask in masks(self.size, self.losses)]
        parts = iter(zip(*masked, strict=True))
        found: list[Choice | None] = []
        for use in self.seen.uses:
            choice, mixed, unused = None, False, True
            for k, way in enumerate(use.ways):
                layouts: list[Layout | None] = []
                arrived, shares = next(whole), next(parts)
                for j, g in enumerate(arrived):
                    owned = None if g is None else owners(g, [share[j] for share in shares])
                    guess = next(candidates(way.shapes[j], self.size), None)
                    layouts.append(guess if owned is None or self.size == 1 else find(owned, self.size))
                    mixed |= owned is not None and bool((owned == MIXED).any())
                reached = [at for g, at in zip(arrived, layouts, strict=True) if g is not None]
                unused &= not reached
                if choice is None and reached and None not in reached:
                    choice = Choice(k, tuple(layouts))
            if choice is None and mixed:
                raise NotDifferentiable(_MIXING)
            if unused:
                choice = Choice(0, tuple(next(candidates(s, self.size), None) for s in use.ways[0].shapes))
            found.append(choice)
        return found

    def _wrong(self, choices: tuple[Choice, ...], lost: frozenset[str]) -> frozenset[str]:
        """The parameters whose slopes at random weights are not those of autograd, or whose pull is not their mirror.

        Random weights tell samples apart: a gradient that is put down to the wrong sample shows.
        """
        drawn = torch.rand(self.size, generator=self.generator, device=self.losses.device, dtype=torch.float64)
        weights = (drawn + 0.5).to(self.losses.dtype)
        true = {n: s.double() for n, s in slopes_in_use(self.losses, self.parameters, weights, keep=True).items()}
        apart = Rest(lost, lambda _: torch.zeros_like(weights)) if lost else None
        record = Record(self.seen, self.losses, torch.ones_like(weights), choices, rest=apart, keep=True)
        slopes = record.slopes(weights)
        kept = {t.dtype for term in record.terms for t in vars(term).values() if isinstance(t, Tensor)}
        half = kept & {torch.bfloat16, torch.float16}
        tolerance = 0.1 if half else min(_TOLERANCE.get(t, 0.1) for t in (self.losses.dtype, *kept))
        largest = max((float(t.norm()) / t.numel() ** 0.5 for t in true.values()), default=0.0)

        def differs(name: str) -> bool:
            known, found = true.get(name), slopes.get(name)
            if known is None or found is None:
                only = known if found is None else found
                return only is not None and bool(only.any())
            floor = 1e-2 * largest * known.numel() ** 0.5
            return not float((found.double() - known).norm()) <= tolerance * (float(known.norm()) + floor)

        wrong = {name for name in self.parameters if name not in lost and differs(name)}
        self._check_pull(record, slopes, weights, lost | wrong, tolerance)
        return frozenset(wrong)

    def _check_pull(
        self, record: Record, slopes: Parameters, weights: Tensor, left: frozenset[str], tolerance: float
    ) -> None:
        """The pull along r, weighed, is r times the slopes at those weights."""
        along = {
            n: torch.empty_like(p, requires_grad=False).normal_(generator=self.generator)
            for n, p in self.parameters.items()
            if n in slopes and n not in left
        }
        if not along:
            return
        ahead = float((weights.double() * record.pull(along).double()).sum())
        products = [slopes[n].double() * v.double() for n, v in along.items()]
        back = sum(float(t.sum()) for t in products)
        size = sum(float(t.square().sum()) for t in products) ** 0.5
        if not abs(ahead - back) <= tolerance * max(abs(ahead), abs(back), size):
            raise NotDifferentiable("the pull from the layers is not the one along the parameters")


def _nearby(p: Tensor, generator: torch.Generator) -> Tensor:
    """The parameter moved a little: a layer that starts at 0 would hide what goes through it."""
    own = p.detach()
    if own.numel() == 0:
        return own.clone()
    size = own.float().square().mean().sqrt()
    noise = torch.empty_like(own).normal_(generator=generator)
    return own + noise * torch.where(size > 0, 0.05 * size, torch.full_like(size, 0.02)).to(own.dtype)


@contextmanager
def casts_forgotten() -> Iterator[None]:
    """Switch off autocast's cache, which would hold the copies of parameters until autocast ends."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


def few(batch: Batch, count: int) -> Batch:
    """The first samples of a batch; tensors that have no entry for each are taken as they are."""
    size = len(batch)
    inputs = map_tensors(batch.inputs, lambda t: t[:count] if t.ndim and len(t) == size else t)
    return Batch(inputs, batch.labels[:count])


def candidates(shape: Sequence[int], size: int) -> Iterator[Layout]:
    """Every way to lay so many samples out in this shape, the usual ones first."""
    for axis, length in enumerate(shape):
        if length == size:
            yield Layout(axis)
    for axis, length in enumerate(shape):
        if length % size or length in (0, size):  # 0: no sample was sent there
            continue
        rest = length // size
        yield Layout(axis, 1, None)
        yield Layout(axis, None, 1)
        for inner in range(2, rest):
            if rest % inner == 0:
                yield Layout(axis, rest // inner, inner)


def find(owners: Tensor, size: int) -> Layout | None:
    """The first layout that says of every entry what its gradients say: owners holds samples, UNKNOWN or MIXED.

    None: there is none, or nothing tells two ways apart in which several entries of each sample share an axis.
    """
    if bool((owners == MIXED).any()):
        return None
    fitting = (layout for layout in candidates(owners.shape, size) if _fits(layout, owners, size))
    first = next(fitting, None)
    shared = first is not None and first != Layout(first.axis)
    return None if shared and next(fitting, None) is not None else first


def _fits(layout: Layout, owners: Tensor, size: int) -> bool:
    place = layout.place(owners.shape, size)
    assert place is not None
    index = torch.arange(owners.shape[place.axis], device=owners.device) // place.inner % size
    index = index.reshape(-1, *(1,) * (owners.ndim - place.axis - 1))
    return bool(((owners == index) | (owners == UNKNOWN)).all())


def masks(size: int, like: Tensor) -> list[Tensor]:
    """One mask of the samples for each binary digit of their numbers from 1."""  # [B] each
    numbers = torch.arange(1, size + 1, device=like.device)
    return [(numbers // 2**k % 2).to(like.dtype) for k in range(size.bit_length())]


def owners(whole: Tensor, masked: Sequence[Tensor | None]) -> Tensor:
    """The sample of each entry, from its gradient by all losses and by those that each mask keeps."""
    if whole.numel() == 0:  # an expert that got no sample
        return torch.full(whole.shape, UNKNOWN, device=whole.device)
    size = whole.abs()
    clear = size > size.max() * (1e-3 if whole.dtype in (torch.float32, torch.float64) else 2e-2)
    number = torch.zeros(whole.shape, dtype=torch.int64, device=whole.device)
    mixed = torch.zeros_like(clear)
    for k, part in enumerate(masked):
        if part is None:
            continue
        share = torch.where(clear, part.double() / whole.double(), torch.zeros_like(whole, dtype=torch.float64))
        number += (share > 0.5).long() * 2**k
        mixed |= ((share - share.round()).abs() > 0.1) | (share.round().abs() > 1) | (share < -0.5)
    found = torch.where(clear & (number > 0), number - 1, torch.full_like(number, UNKNOWN))
    return torch.where(clear & (mixed | (number == 0)), torch.full_like(number, MIXED), found)
