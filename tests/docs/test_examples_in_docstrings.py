"""Examples in the docstrings of public names run, and show what they say."""

from __future__ import annotations

import doctest
import importlib
import inspect

import pytest

import fairweight as fw

MODULES = sorted({f"fairweight.{home}" for home in fw._HOME.values()} | {
    "fairweight.data.dataset", "fairweight.metagradient", "fairweight.metrics.criterion", "fairweight.metrics.compare",
    "fairweight.metrics.group_table",
})  # fmt: skip
# Names that a newcomer looks up first: each must show how it is called.
SHOWN = (
    fw.FORML, fw.fit, fw.FitOptions, fw.Batch, fw.Cells, fw.group_table, fw.data.load, fw.FairweightClassifier,
    fw.ExemplarSampler, fw.MeanLoss, fw.predict, fw.with_rows, fw.metrics.compare, fw.metagradient.score_gradient,
)  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name):
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    assert failed == 0


@pytest.mark.parametrize("value", SHOWN, ids=lambda value: value.__name__)
def test_main_names_have_an_example(value):
    assert ">>> " in (inspect.getdoc(value) or "")
