"""The contract of a kind of layer: how one call of a function uses parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Self

from torch import Tensor

from fairweight.metagradient.per_layer._layout import Place
from fairweight.metagradient.per_layer._term import Term


class Call(NamedTuple):
    """A function as a model calls it, with parameters and with something of the samples."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    learned: Callable[[Any], bool]  # whether an argument is a parameter, or made of parameters alone

    def run(self) -> Any:
        """The function's own result."""
        return self.function(*self.args, **self.kwargs)

    def run_with(self, old: Tensor, new: Tensor) -> Any:
        """The same with one argument in place of another."""
        args = tuple(new if value is old else value for value in self.args)
        return self.function(*args, **{key: new if value is old else value for key, value in self.kwargs.items()})


class Kind:
    """One call; subclasses say which functions they know, read the call, and make terms of the gradient.

    A file of the folder `kinds` holds one; its name is the kind's.
    """

    functions: ClassVar[frozenset[Any]] = frozenset()
    call: Call | None  # until it has run: its arguments are not to be held longer than the model holds them
    weights: tuple[Tensor, ...]  # what is learned in the call
    kept: tuple[Tensor, ...] = ()  # what the terms read beside the gradient, and nobody may change in place

    @classmethod
    def of(cls, call: Call) -> Self | None:
        """The call read as this kind; None: it is none."""
        raise NotImplementedError

    def run(self) -> Any:
        """The function's own result; once."""
        assert self.call is not None
        call, self.call = self.call, None
        return call.run()

    def terms(self, gradients: Sequence[Tensor | None], places: Sequence[Place | None]) -> list[Term]:
        """From the gradient that arrived at each output, and where the samples lie in it."""
        raise NotImplementedError
