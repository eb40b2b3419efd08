"""What each parameter may be, declared beside it and checked in one place before anything else happens.

    @constrained(rate=above(0), hidden=whole(1), through=one_of("loss", "sampling"))
    class Method: ...

A class is checked when it is made, also by what the class above it declares; a function when it is called. What was
not given is not checked.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from fairweight.errors import BadInput, FairweightError, UnknownName, first_line, option

Declared = TypeVar("Declared", bound=Callable[..., Any])


@dataclass(frozen=True)
class Number:
    """A finite number within bounds; `optional`: or None."""

    low: float = -math.inf
    high: float = math.inf
    above: bool = False  # more than low, not low itself
    below: bool = False  # less than high, not high itself
    whole: bool = False
    optional: bool = False

    def allows(self, value: Any) -> bool:
        if value is None:
            return self.optional
        if isinstance(value, bool | str | bytes | complex):
            return False
        try:
            number = float(value)  # numpy's and torch's scalars, too
            exact = not self.whole or bool(value == int(value) and not isinstance(value, float))
        except (TypeError, ValueError, OverflowError, RuntimeError):
            return False
        high_enough = number > self.low if self.above else number >= self.low
        low_enough = number < self.high if self.below else number <= self.high
        return math.isfinite(number) and exact and high_enough and low_enough

    def __str__(self) -> str:
        what = "a whole number" if self.whole else "a number"
        if self.whole and -math.inf < self.low < -1e15 and 1e15 < self.high < math.inf:
            return f"give {what} of at most 18 digits{', or None' if self.optional else ''}"
        from_ = "" if self.low == -math.inf else f" above {self.low:g}" if self.above else f" from {self.low:g}"
        to = "" if self.high == math.inf else f" to below {self.high:g}" if self.below else f" to {self.high:g}"
        up = " up" if from_ and not to and not self.above else ""
        return f"give {what}{from_}{to}{up}{', or None' if self.optional else ''}"


@dataclass(frozen=True)
class Choice:
    """One of a few values."""

    values: tuple[Any, ...]

    def allows(self, value: Any) -> bool:
        try:
            return value in self.values
        except (TypeError, ValueError, RuntimeError):  # an array is compared entry by entry
            return False

    def __str__(self) -> str:
        shown = [repr(value) for value in self.values]
        return "choose " + (", ".join(shown[:-1]) + " or " if shown[1:] else "") + shown[-1]


@dataclass(frozen=True)
class Kind:
    """An object of some type; `optional`: or None."""

    types: tuple[type, ...]
    words: str  # what to give
    optional: bool = False

    def allows(self, value: Any) -> bool:
        return (value is None and self.optional) or isinstance(value, self.types)

    def __str__(self) -> str:
        return f"give {self.words}{', or None' if self.optional else ''}"


Constraint = Number | Choice | Kind


def above(low: float, high: float = math.inf, *, below: bool = False) -> Number:
    """Numbers of more than low, up to high, or to below it."""
    return Number(low, high, above=True, below=below)


def between(low: float, high: float = math.inf, *, below: bool = False) -> Number:
    """Numbers from low to high, or to below it."""
    return Number(low, high, below=below)


def whole(low: float = -math.inf, high: float = math.inf) -> Number:
    """Whole numbers from low to high."""
    return Number(low, high, whole=True)


def one_of(*values: Any) -> Choice:
    """These values alone."""
    return Choice(values)


def either(constraint: Number | Kind) -> Number | Kind:
    """The same, or None."""
    return replace(constraint, optional=True)


SEED = whole(-(2**63), 2**64 - 1)  # what torch takes
FLAG = one_of(True, False)


def plain_seed(seed: int, bits: int = 64) -> int:
    """The seed for numpy and scikit-learn, which take neither negative nor larger ones: all others stay as they are."""
    return seed % (1 << bits)


def check(owner: str, values: Mapping[str, Any], allowed: Mapping[str, Constraint]) -> None:
    """Refuse the first value that its constraint does not allow, in one sentence."""
    for name, constraint in allowed.items():
        if name in values and not constraint.allows(values[name]):
            kind = UnknownName if isinstance(constraint, Choice) else BadInput
            raise kind(f"{owner}({option(name, _short(values[name]))}): {constraint}.")


def constrained(**allowed: Constraint) -> Callable[[Declared], Declared]:
    """Declare what parameters of a class or a function may be."""

    def decorated(what: Declared) -> Declared:
        target: Any = what
        function = target.__init__ if isinstance(what, type) else what
        signature = inspect.signature(function)
        if strange := [name for name in allowed if name not in signature.parameters]:
            raise TypeError(f"{target.__name__} has no parameter {', '.join(strange)}")
        declared = {**getattr(target, "_constraints", {}), **allowed}

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            try:
                given = signature.bind(*args, **kwargs).arguments
            except TypeError:
                return function(*args, **kwargs)  # the call itself says what is wrong with it
            owner = type(args[0]).__name__ if isinstance(what, type) else what.__name__
            check(owner, given, declared)
            try:
                return function(*args, **kwargs)
            except (TypeError, ValueError, OverflowError, RuntimeError) as error:
                if isinstance(error, FairweightError) or not isinstance(what, type):
                    raise
                raise BadInput(
                    f"{owner} cannot be made of these values ({first_line(error)}); give such as its help names."
                ) from error

        if isinstance(what, type):
            target.__init__ = checked
        else:
            target = checked
        target._constraints = declared
        return target  # type: ignore[no-any-return]

    return decorated


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    text = text.replace("\x02", "").replace("\x03", "").replace("\n", " ")
    return text if len(text) <= 60 else f"{text[:57]}..."
