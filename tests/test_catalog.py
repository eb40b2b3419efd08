"""The folder is the registry."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import fairweight
from fairweight import catalog
from fairweight.errors import UnknownName

FOLDERS = ["objectives", "methods", "models"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_names_are_files_with_hyphens(folder):
    files = Path(fairweight.__path__[0], folder).glob("*.py")
    parts = getattr(importlib.import_module(f"fairweight.{folder}"), "PARTS", ())
    expected = sorted(p.stem.replace("_", "-") for p in files if not p.name.startswith("_") and p.stem not in parts)
    assert catalog.names(folder) == expected
    assert expected


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_plug_in_is_one_public_class_with_a_sentence(folder):
    for name in catalog.names(folder):
        made = catalog.load(folder, name)
        assert isinstance(made, type)
        assert made.__module__ == f"fairweight.{folder}.{name.replace('-', '_')}"
        assert catalog.summary(folder, name).strip()
        assert "\n" not in catalog.summary(folder, name)


def test_underscores_and_hyphens_name_the_same():
    assert catalog.load("objectives", "mean_discrepancy") is catalog.load("objectives", "mean-discrepancy")


@pytest.mark.parametrize("name", ["", "nothing", "_groups", "../errors", "Mean"])
def test_an_unknown_name_lists_the_known(name):
    with pytest.raises(UnknownName, match=r"is not one of fairweight's objectives; choose from: .*mean, .*worst-group"):
        catalog.load("objectives", name)


@pytest.mark.parametrize("classes", [0, 2])
def test_a_file_with_none_or_two_public_classes_is_refused(classes, monkeypatch):
    module = catalog.module("objectives", "mean")
    if classes == 0:
        monkeypatch.delattr(module, "MeanLoss")
    else:
        monkeypatch.setattr(module, "Other", type("Other", (), {"__module__": module.__name__}), raising=False)
    with pytest.raises(
        UnknownName, match=rf"must hold one public class and holds {classes}; prefix the others with '_'"
    ):
        catalog.load("objectives", "mean")
