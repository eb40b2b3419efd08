"""The files of benchmarks/, which are scripts beside the package."""

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    """A script by its name, imported as it finds itself when it is run: with its own folder on the path."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module
