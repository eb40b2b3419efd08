"""The folder is the registry: a plug-in's name is its file's name, and the file holds one public class."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType

from fairweight.errors import UnknownName

# What users call the plug-ins of a folder, where it is not the folder's name.
_CALLED = {"data.sets": "data sets", "paper.tables": "tables", "runs.search": "searches"}


def names(package: str) -> list[str]:
    """The plug-ins in a folder of fairweight, such as "methods", as users write them (with hyphens)."""
    folder = importlib.import_module(f"fairweight.{package}")
    parts = getattr(folder, "PARTS", ())  # files that plug-ins are made of
    found = (module.name for module in pkgutil.iter_modules(folder.__path__))
    return sorted(name.replace("_", "-") for name in found if not name.startswith("_") and name not in parts)


def module(package: str, name: str) -> ModuleType:
    """The plug-in's module, by its name with hyphens or underscores."""
    known = names(package)
    plain = name.replace("_", "-")
    if plain not in known:
        kind = _CALLED.get(package, package)
        raise UnknownName(f"{name!r} is not one of fairweight's {kind}; choose from: {', '.join(known)}.")
    return importlib.import_module(f"fairweight.{package}.{plain.replace('-', '_')}")


def load(package: str, name: str) -> type:
    """The one public class of a plug-in's file."""
    found = module(package, name)
    classes = [
        value
        for key, value in vars(found).items()
        if inspect.isclass(value) and value.__module__ == found.__name__ and not key.startswith("_")
    ]
    if len(classes) != 1:
        raise UnknownName(
            f"{found.__name__} must hold one public class and holds {len(classes)}; prefix the others with '_'."
        )
    return classes[0]


def summary(package: str, name: str) -> str:
    """The first sentence of the plug-in's class."""
    return (inspect.getdoc(load(package, name)) or "").split("\n")[0]
