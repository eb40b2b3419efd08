"""What torch.compile makes of a function or a model, for the one shape that is usual."""

from __future__ import annotations

import itertools
import logging
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

_log = logging.getLogger("fairweight")
_numbers = itertools.count()


class Compiled:
    """A function that is compiled at its first call; where that fails it runs as it is, said once."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._plain = function
        self._made: Callable[..., Any] | None = None  # once a call has worked, or failed and been replaced

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._made is not None:
            return self._made(*args, **kwargs)
        try:
            made = torch.compile(self._plain, dynamic=False)
            found = made(*args, **kwargs)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # it fails in many ways: no C++ compiler, an operation or a Python it does not know
            first = str(error).strip().split("\n")[0]
            _log.warning("torch.compile does not work here, so steps run uncompiled: %s", first)
            self._made = self._plain
            return self._plain(*args, **kwargs)
        self._made = made
        return found


class UsualShape(nn.Module):
    """A model whose passes are compiled for the shape it is first called with; other shapes run as they are.

    Without this the last, smaller batch of an epoch would be compiled for too.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._orig_mod = model  # where unwrap() looks, as in torch.compile's own wrapper
        self._usual: tuple[Any, ...] | None = None
        self._call = Compiled(_own_function(model))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's own forward pass."""
        here = (
            self._orig_mod.training,
            torch.is_grad_enabled(),
            tuple(tuple(t.shape) for t in (*args, *kwargs.values()) if isinstance(t, Tensor)),
        )
        if self._usual is None and self._orig_mod.training and torch.is_grad_enabled():
            self._usual = here
        return self._call(*args, **kwargs) if here == self._usual else self._orig_mod(*args, **kwargs)


def _own_function(model: nn.Module) -> Callable[..., Any]:
    """A call of the model with code of its own: torch.compile gives up on code that it has seen with many models."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return model(*args, **kwargs)

    code = call.__code__.replace(co_name=f"call_{next(_numbers)}")
    return types.FunctionType(code, call.__globals__, code.co_name, call.__defaults__, call.__closure__)
