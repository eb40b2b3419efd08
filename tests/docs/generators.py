"""The scripts of docs/generate, imported as they find themselves when they are run: with their folder on the path."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def generator(name: str) -> ModuleType:
    """The script of this name."""
    folder = str(ROOT / "docs" / "generate")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)
