"""What users rely on, as text: the public names with their signatures, and the flags of every verb."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path, PurePath
from typing import Any, ForwardRef

import typer
from tests.golden.cases import methods

import fairweight as fw
from fairweight.cli import app

HERE = Path(__file__).parent


def public_names() -> str:
    """One line for each public name and each public member of a public class; methods of the catalog by their name."""
    lines: list[str] = []
    for name in fw.__all__:
        value = getattr(fw, name)
        if inspect.ismodule(value):
            for inner in getattr(value, "__all__", ()):
                again = inner in fw.__all__ and getattr(fw, inner) is getattr(value, inner)
                found = [f"{name}.{inner}: {inner}"] if again else _described(f"{name}.{inner}", getattr(value, inner))
                lines += found
            lines.append(f"{name}: module")
        else:
            lines += _described(name, value)
    lines += [f"method {name}: {kind.__name__}{_signature(kind)}" for name, kind in methods().items()]
    return "".join(f"{line}\n" for line in sorted(lines))


def _described(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield f"{name}: class {_signature(value)}"
        for key, member in _members(value).items():
            yield f"{name}.{key}{_member(member)}"
    elif callable(value):
        yield f"{name}{_signature(value)}"
    else:
        yield f"{name} = {value!r}"


def _members(kind: type) -> dict[str, Any]:
    """The public members that fairweight itself wrote, in the class or above it."""
    found: dict[str, Any] = {}
    for parent in reversed(kind.__mro__):
        if _root(parent) == "fairweight":
            found |= {key: member for key, member in vars(parent).items() if not key.startswith("_")}
    return {key: member for key, member in found.items() if _root(type(member)) != "sklearn"}


def _root(kind: type) -> str:
    return kind.__module__.split(".")[0]


def _member(member: Any) -> str:
    if isinstance(member, property):
        return f": property{_signature(member.fget)}"
    if isinstance(member, classmethod | staticmethod):
        return f": {type(member).__name__} {_signature(member.__func__)}"
    return _signature(member) if inspect.isfunction(member) else ": value"


def _signature(value: Any) -> str:
    """The signature, free of quotes around types and of addresses and modules in defaults."""
    try:
        signature = inspect.signature(value)
    except ValueError:  # a protocol, or a class of C
        return "(...)"
    parts, starred = [], False
    for p in signature.parameters.values():
        if p.kind is p.KEYWORD_ONLY and not starred:
            parts.append("*")
        starred = starred or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        kind = "" if p.annotation is p.empty else f": {_type(p.annotation)}"
        default = "" if p.default is p.empty else f" = {_default(p.default)}"
        parts.append(f"{mark}{p.name}{kind}{default}" + (", /" if p.kind is p.POSITIONAL_ONLY else ""))
    back = signature.return_annotation
    return f"({', '.join(parts)})" + ("" if back is signature.empty else f" -> {_type(back)}")


def _type(annotation: Any) -> str:
    if isinstance(annotation, str):
        return annotation
    if isinstance(annotation, ForwardRef):  # the fields of a NamedTuple
        return annotation.__forward_arg__
    return annotation.__name__ if inspect.isclass(annotation) else str(annotation)


def _default(value: Any) -> str:
    if isinstance(value, Enum):
        return repr(value.value)
    if isinstance(value, PurePath):
        return repr(value.as_posix())
    named = inspect.isfunction(value) or inspect.isclass(value) or " at 0x" in repr(value)
    return getattr(value, "__name__", type(value).__name__) if named else repr(value)


def flags() -> str:
    """Every verb with its arguments, in their order, and its options, sorted: names, type, default."""
    return "\n".join(_verb(("fairweight",), typer.main.get_command(app)))


def _verb(words: tuple[str, ...], command: Any) -> Iterator[str]:
    lines = [" ".join(words)]
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name != "argument"]
    lines += [f"  {p.name.upper()}{_value(p)}" for p in arguments]
    lines += sorted(f"  {' / '.join([*p.opts, *p.secondary_opts])}{_value(p)}" for p in options)
    yield "\n".join(lines) + "\n"
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from _verb((*words, name), inner)


def _value(p: Any) -> str:
    kind = p.type_descriptor.annotation
    if inspect.isclass(kind) and issubclass(kind, Enum):
        said = "{" + ", ".join(str(choice.value) for choice in kind) + "}"
    else:
        said = _type(kind)
    said += "".join(f" {word} {limit}" for word, limit in (("from", p.min), ("to", p.max)) if limit is not None)
    marks = [word for word in ("required", "multiple", "hidden", "is_flag") if getattr(p, word, False)]
    many = f" x{p.nargs}" if p.nargs != 1 else ""
    ending = f" ({', '.join(marks)})" if marks else ""
    return f": {said}{many} = {_default(p.default)}{ending}"


SNAPSHOTS: dict[Path, Callable[[], str]] = {HERE / "public_names.txt": public_names, HERE / "flags.txt": flags}
