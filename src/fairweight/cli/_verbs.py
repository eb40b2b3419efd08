"""Finds the verbs: every file of this folder without a leading underscore holds a function of its own name."""

from __future__ import annotations

import importlib
import pkgutil

import typer


def register(app: typer.Typer) -> None:
    """Add every verb to the app, in the order of their names."""
    folder = importlib.import_module("fairweight.cli")
    for module in sorted(pkgutil.iter_modules(folder.__path__), key=lambda found: found.name):
        if not module.name.startswith("_"):
            loaded = importlib.import_module(f"fairweight.cli.{module.name}")
            name = module.name.removesuffix("_")
            app.command(name)(getattr(loaded, module.name))
