"""Finds the verbs: every file of this folder without a leading underscore holds a function of its own name."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

import typer


def register(app: typer.Typer) -> None:
    """Add every verb to the app, in the order of their names."""
    folder = importlib.import_module("fairweight.cli")
    for module in sorted(pkgutil.iter_modules(folder.__path__), key=lambda found: found.name):
        if not module.name.startswith("_"):
            loaded = importlib.import_module(f"fairweight.cli.{module.name}")
            name = module.name.removesuffix("_")
            verb = getattr(loaded, module.name)
            app.command(name, short_help=_in_short(inspect.getdoc(verb) or ""))(verb)


def _in_short(sentence: str) -> str:
    """What stands before the first colon or semicolon: the list of verbs has one short line for each."""
    return re.split(r"[:;.](?=\s|$)", sentence)[0] + "."
