"""fairweight learns what each training sample is worth, so that a classifier errs evenly across groups.

Names are imported when they are first used, so that `import fairweight` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairweight import data, metagradient, metrics, objectives
    from fairweight.integrations.sklearn import FairweightClassifier
    from fairweight.methods import Reweighter
    from fairweight.methods.forml import FORML
    from fairweight.methods.look_ahead import LookAhead
    from fairweight.methods.score_step import AdaptiveStep, PlainStep
    from fairweight.methods.uniform import Uniform
    from fairweight.metrics import GroupTable, group_table
    from fairweight.models.mlp import MLP
    from fairweight.models.resnet import ResNet18
    from fairweight.objectives import Objective
    from fairweight.objectives.equal_odds import EqualOddsLoss
    from fairweight.objectives.equal_opportunity import EqualOpportunityLoss
    from fairweight.objectives.max_discrepancy import MaxLossDiscrepancy
    from fairweight.objectives.mean import MeanLoss
    from fairweight.objectives.mean_discrepancy import MeanLossDiscrepancy
    from fairweight.objectives.variance import LossVariance
    from fairweight.objectives.worst_group import WorstGroupLoss
    from fairweight.sampling import ExemplarSampler, TrainSampler
    from fairweight.training.callbacks import EarlyStopping, Observer, Progress, Watch
    from fairweight.training.fit import fit
    from fairweight.training.history import Dynamics
    from fairweight.training.options import FitOptions
    from fairweight.training.predict import predict
    from fairweight.types import Batch, Cells, RunRecord, Samples, StepRecord

__version__ = "0.1.0"

_HOME = {
    "AdaptiveStep": "methods.score_step",
    "Batch": "types",
    "Cells": "types",
    "Dynamics": "training.history",
    "EarlyStopping": "training.callbacks",
    "EqualOddsLoss": "objectives.equal_odds",
    "EqualOpportunityLoss": "objectives.equal_opportunity",
    "ExemplarSampler": "sampling",
    "FORML": "methods.forml",
    "FairweightClassifier": "integrations.sklearn",
    "FitOptions": "training.options",
    "GroupTable": "metrics",
    "LookAhead": "methods.look_ahead",
    "LossVariance": "objectives.variance",
    "MLP": "models.mlp",
    "MaxLossDiscrepancy": "objectives.max_discrepancy",
    "MeanLoss": "objectives.mean",
    "MeanLossDiscrepancy": "objectives.mean_discrepancy",
    "Objective": "objectives",
    "Observer": "training.callbacks",
    "PlainStep": "methods.score_step",
    "Progress": "training.callbacks",
    "ResNet18": "models.resnet",
    "Reweighter": "methods",
    "RunRecord": "types",
    "Samples": "types",
    "StepRecord": "types",
    "TrainSampler": "sampling",
    "Uniform": "methods.uniform",
    "Watch": "training.callbacks",
    "WorstGroupLoss": "objectives.worst_group",
    "fit": "training.fit",
    "group_table": "metrics",
    "predict": "training.predict",
}
_MODULES = ("data", "metagradient", "metrics", "objectives")

__all__ = [
    "FORML",
    "MLP",
    "AdaptiveStep",
    "Batch",
    "Cells",
    "Dynamics",
    "EarlyStopping",
    "EqualOddsLoss",
    "EqualOpportunityLoss",
    "ExemplarSampler",
    "FairweightClassifier",
    "FitOptions",
    "GroupTable",
    "LookAhead",
    "LossVariance",
    "MaxLossDiscrepancy",
    "MeanLoss",
    "MeanLossDiscrepancy",
    "Objective",
    "Observer",
    "PlainStep",
    "Progress",
    "ResNet18",
    "Reweighter",
    "RunRecord",
    "Samples",
    "StepRecord",
    "TrainSampler",
    "Uniform",
    "Watch",
    "WorstGroupLoss",
    "data",
    "fit",
    "group_table",
    "metagradient",
    "metrics",
    "objectives",
    "predict",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"fairweight.{name}")
    if name in _HOME:
        return getattr(importlib.import_module(f"fairweight.{_HOME[name]}"), name)
    raise AttributeError(f"fairweight has no {name!r}")


def __dir__() -> list[str]:
    return __all__
