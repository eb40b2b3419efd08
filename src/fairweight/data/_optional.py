"""Packages that are imported only where they are needed, with a sentence where they are not there."""

from __future__ import annotations

import importlib
from typing import Any

from fairweight.errors import MissingDependency


def need(module: str, purpose: str, install: str) -> Any:
    """The module, or a sentence that says what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependency(
            f"{purpose} needs {module.split('.')[0]}; install it with: pip install {install}."
        ) from error
