"""What counts on the exemplar batch: f(losses [E], groups [E]) -> scalar.

One file per objective, one public class each. `__call__` sees losses and groups; `on` sees the whole exemplar
batch, for objectives that also look at labels or at natural shares. Groups in the batch count, absent ones do
not, negative ones (not known) are left out, and the value is never NaN. Objectives add and scale:
`MeanLoss() + 0.5 * MaxLossDiscrepancy()`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce

import torch
from torch import Tensor

from fairweight.errors import BadInput
from fairweight.metagradient.solve import evaluate
from fairweight.types import Batch, ObjectiveFunction


class Objective:
    """A function of per-sample losses and groups; subclasses write `__call__`, or `on` where labels count."""

    compares = True  # whether one group alone leaves it without meaning

    def __call__(self, losses: Tensor, groups: Tensor) -> Tensor:
        """The value on these losses."""  # []
        raise NotImplementedError

    def on(self, losses: Tensor, exemplar: Batch) -> Tensor:
        """The value on an exemplar batch."""  # []
        return self(losses, exemplar.compared())

    def compared(self, exemplar: Batch) -> Tensor:
        """The group of each exemplar as this objective compares them, -1 where it leaves one out."""  # [E]
        return exemplar.compared()

    def __add__(self, other: object) -> Objective:
        if not callable(other):
            return NotImplemented
        return _Sum(((1.0, self), (1.0, other)))

    __radd__ = __add__

    def __mul__(self, factor: object) -> Objective:
        if not isinstance(factor, int | float):
            return NotImplemented
        if not math.isfinite(factor):
            raise BadInput(f"An objective cannot be multiplied by {factor}; use a finite number.")
        return _Sum(((float(factor), self),))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        options = ", ".join(f"{key}={value!r}" for key, value in vars(self).items())
        return f"{type(self).__name__}({options})"


class _Sum(Objective):
    """Objectives, each times its coefficient."""

    def __init__(self, terms: tuple[tuple[float, ObjectiveFunction], ...]) -> None:
        flat: list[tuple[float, ObjectiveFunction]] = []
        for factor, term in terms:
            inner: tuple[tuple[float, ObjectiveFunction], ...] = (
                term.terms if isinstance(term, _Sum) else ((1.0, term),)
            )
            flat += [(factor * own, part) for own, part in inner]
        self.terms: tuple[tuple[float, ObjectiveFunction], ...] = tuple(flat)

    @property
    def compares(self) -> bool:  # type: ignore[override]
        """Any term does."""
        return any(getattr(term, "compares", False) for _, term in self.terms)

    def compared(self, exemplar: Batch) -> Tensor:
        """As the first term that compares."""  # [E]
        for _, term in self.terms:
            if isinstance(term, Objective) and term.compares:
                return term.compared(exemplar)
        return exemplar.compared()

    def __call__(self, losses: Tensor, groups: Tensor) -> Tensor:
        """The weighted sum."""  # []
        return _total((factor, term(losses, groups)) for factor, term in self.terms)

    def on(self, losses: Tensor, exemplar: Batch) -> Tensor:
        """The weighted sum, each term on the exemplar batch in its own way."""  # []
        return _total((factor, evaluate(term, losses, exemplar)) for factor, term in self.terms)

    def __repr__(self) -> str:
        return " + ".join(f"{factor:g} * {term!r}" for factor, term in self.terms)


def _total(parts: Iterable[tuple[float, Tensor]]) -> Tensor:
    """Every operation on a scalar costs as much as on a layer of a small model, so none is wasted."""  # []
    values = [value if factor == 1.0 else factor * value for factor, value in parts]
    return reduce(torch.add, values)
