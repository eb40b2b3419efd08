"""fairweight learns a weight for each training sample, so that a classifier makes its errors evenly across groups.

`__init__.pyi` lists the names. Each is imported when it is first used: `import fairweight` costs next to nothing.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from typing import Any

__version__ = "0.1.0"

_LISTED = [
    (name.name, line.module)
    for line in ast.parse(pkgutil.get_data(__name__, "__init__.pyi") or b"").body
    if isinstance(line, ast.ImportFrom) and line.module is not None
    for name in line.names
]
_HOME = {name: module.removeprefix("fairweight.") for name, module in _LISTED if module != "fairweight"}
__all__ = sorted(name for name, _ in _LISTED)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"fairweight.{_HOME[name]}"), name)
    if name in __all__:
        return importlib.import_module(f"fairweight.{name}")
    raise AttributeError(f"fairweight has no {name!r}")


def __dir__() -> list[str]:
    return __all__
