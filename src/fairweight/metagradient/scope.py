"""The submodules that the virtual step moves, where it does not move the whole model."""

from __future__ import annotations

import difflib
from contextlib import ExitStack

from torch import nn

from fairweight.errors import BadInput, NoLinearHead, UnknownName
from fairweight.metagradient._own_backward import check_backward
from fairweight.metagradient.model import Parameters, trainable, uncompiled, unwrap
from fairweight.metagradient.passes import virtual_forward
from fairweight.types import Batch, Loss

HEAD = "head"


class Scope:
    """Submodules by their names, with commas between; "head" is the last layer that a pass goes through, if linear."""

    def __init__(self, model: nn.Module, asked: str) -> None:
        self.asked = asked = str(asked)  # a layer of a Sequential may come as a number from a command line or a file
        self._modules: dict[str, nn.Module | None] = {}  # by full name; the head is found by the first pass
        inner = unwrap(model)
        for part in (word.strip() for word in asked.split(",")):
            if part == HEAD:
                if not any(isinstance(m, nn.Linear) for m in inner.modules()):
                    raise _no_head(inner, None)
                self._modules[HEAD] = None
            else:
                name, module = _named(inner, part)
                self._modules[name] = module
                self._check(inner, name, module)

    @property
    def name(self) -> str:
        """The names in full, as far as they are known."""
        return ",".join(self._modules)

    def settle(self, model: nn.Module, batch: Batch, loss: Loss) -> None:
        """Find the head by one pass that touches nothing; once."""
        if None not in self._modules.values():
            return
        inner = unwrap(model)
        check_backward(inner, batch, loss)  # notes what the model writes over, which the pass below must spare
        started: list[str] = []
        with ExitStack() as hooks:
            for name, module in inner.named_modules():
                own = isinstance(module, nn.Linear) or next(module.parameters(recurse=False), None) is not None
                if own and ".parametrizations." not in f".{name}.":  # those belong to the layer they make the weight of
                    handle = module.register_forward_pre_hook(lambda *_, name=name: started.append(name))
                    hooks.callback(handle.remove)
            hooks.enter_context(uncompiled())  # hooks do not fire in compiled parts
            virtual_forward(inner, batch, loss)
        last = inner.get_submodule(started[-1]) if started else inner
        if not isinstance(last, nn.Linear):
            raise _no_head(inner, started[-1] if started else None)
        self._check(inner, started[-1], last)
        known = {name: module for name, module in self._modules.items() if module is not None}
        self._modules = {**known, started[-1]: last}

    def within(self, parameters: Parameters) -> Parameters:
        """The parameters that lie in the scope."""
        own = {id(p) for module in self._modules.values() if module is not None for p in module.parameters()}
        return {name: p for name, p in parameters.items() if id(p) in own}

    def _check(self, inner: nn.Module, name: str, module: nn.Module) -> None:
        moving = {id(p) for p in trainable(inner).values()}
        if not any(id(p) in moving for p in module.parameters()):
            raise BadInput(
                f"scope={self.asked!r}: {name} has no parameter that requires a gradient; unfreeze it, or name a "
                "submodule that trains."
            )


def in_scope(parameters: Parameters, scope: Scope | None) -> Parameters:
    """The parameters of the scope; all of them where there is none."""
    return parameters if scope is None else scope.within(parameters)


def _named(inner: nn.Module, asked: str) -> tuple[str, nn.Module]:
    """The submodule of that full name, or the only one whose name ends in it."""
    modules = {name: m for name, m in inner.named_modules() if name}
    if asked in modules:
        return asked, modules[asked]
    ends = [name for name in modules if asked and name.endswith(f".{asked}")]
    if len(ends) == 1:
        return ends[0], modules[ends[0]]
    if ends:
        raise UnknownName(f"scope={asked!r} could be {_listed(ends)}; give more of the name.")
    tails = {".".join(name.split(".")[k:]) for name in modules for k in range(name.count(".") + 1)}
    near = difflib.get_close_matches(asked, sorted(tails), n=4, cutoff=0.5) or [n for n in modules if "." not in n]
    raise UnknownName(
        f"scope={asked!r} is no submodule of the model; near it: {_listed(near) or 'none'}. "
        "scope='head' is its last linear layer, whatever its name."
    )


def _no_head(inner: nn.Module, last: str | None) -> NoLinearHead:
    if last:
        kind = type(inner.get_submodule(last)).__name__
        where = f"its last layer is {last!r} ({kind}); give scope={last!r}, or scope=NAME with another"
    else:
        names = [name for name, m in inner.named_modules() if name and any(p.requires_grad for p in m.parameters())]
        where = f"give scope=NAME with one of its submodules, such as {_listed(names[::-1]) or 'one with parameters'}"
    return NoLinearHead(f"scope='head' needs a model that ends in a linear layer, and this one does not: {where}.")


def _listed(names: list[str]) -> str:
    return ", ".join([*names[:4], *(["…"] if len(names) > 4 else [])])
