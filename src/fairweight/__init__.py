"""fairweight learns a weight for each training sample, so that a classifier makes its errors evenly across groups.

Names are imported when they are first used, so that `import fairweight` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairweight import data, metagradient, metrics, objectives
    from fairweight.integrations.accelerate import prepare
    from fairweight.integrations.sklearn import FairweightClassifier
    from fairweight.methods import Reweighter
    from fairweight.methods.class_balanced import ClassBalanced
    from fairweight.methods.class_difficulty import ClassDifficulty
    from fairweight.methods.focal import Focal
    from fairweight.methods.forml import FORML
    from fairweight.methods.given import Given
    from fairweight.methods.group_dro import GroupDRO
    from fairweight.methods.jtt import JTT
    from fairweight.methods.l2rw import L2RW
    from fairweight.methods.label_bias import LabelBias
    from fairweight.methods.look_ahead import LookAhead
    from fairweight.methods.meta_weight_net import MetaWeightNet
    from fairweight.methods.moew import MOEW
    from fairweight.methods.proportion import Proportion
    from fairweight.methods.random import Random
    from fairweight.methods.score_step import AdaptiveStep, PlainStep
    from fairweight.methods.uniform import Uniform
    from fairweight.metrics import GroupTable, group_table
    from fairweight.models.mlp import MLP
    from fairweight.models.resnet import ResNet18
    from fairweight.objectives import Objective
    from fairweight.objectives.equal_odds import EqualOddsLoss
    from fairweight.objectives.equal_opportunity import EqualOpportunityLoss
    from fairweight.objectives.equal_opportunity_rate import EqualOpportunityRate
    from fairweight.objectives.max_discrepancy import MaxLossDiscrepancy
    from fairweight.objectives.mean import MeanLoss
    from fairweight.objectives.mean_discrepancy import MeanLossDiscrepancy
    from fairweight.objectives.variance import LossVariance
    from fairweight.objectives.worst_group import WorstGroupLoss
    from fairweight.sampling import Cells, ExemplarSampler, TrainSampler
    from fairweight.training.callbacks import EarlyStopping, Observer, Progress, Watch
    from fairweight.training.fit import fit
    from fairweight.training.history import Dynamics
    from fairweight.training.options import FitOptions
    from fairweight.training.predict import predict
    from fairweight.training.run_record import RunRecord
    from fairweight.training.with_rows import to_batch, with_rows
    from fairweight.types import Batch, Samples, StepRecord

__version__ = "0.1.0"

_NAMES = {
    "integrations.accelerate": "prepare",
    "integrations.sklearn": "FairweightClassifier",
    "methods": "Reweighter",
    "methods.class_balanced": "ClassBalanced",
    "methods.class_difficulty": "ClassDifficulty",
    "methods.focal": "Focal",
    "methods.forml": "FORML",
    "methods.given": "Given",
    "methods.group_dro": "GroupDRO",
    "methods.jtt": "JTT",
    "methods.l2rw": "L2RW",
    "methods.label_bias": "LabelBias",
    "methods.look_ahead": "LookAhead",
    "methods.meta_weight_net": "MetaWeightNet",
    "methods.moew": "MOEW",
    "methods.proportion": "Proportion",
    "methods.random": "Random",
    "methods.score_step": "AdaptiveStep PlainStep",
    "methods.uniform": "Uniform",
    "metrics": "GroupTable group_table",
    "models.mlp": "MLP",
    "models.resnet": "ResNet18",
    "objectives": "Objective",
    "objectives.equal_odds": "EqualOddsLoss",
    "objectives.equal_opportunity": "EqualOpportunityLoss",
    "objectives.equal_opportunity_rate": "EqualOpportunityRate",
    "objectives.max_discrepancy": "MaxLossDiscrepancy",
    "objectives.mean": "MeanLoss",
    "objectives.mean_discrepancy": "MeanLossDiscrepancy",
    "objectives.variance": "LossVariance",
    "objectives.worst_group": "WorstGroupLoss",
    "sampling": "Cells ExemplarSampler TrainSampler",
    "training.callbacks": "EarlyStopping Observer Progress Watch",
    "training.fit": "fit",
    "training.history": "Dynamics",
    "training.options": "FitOptions",
    "training.predict": "predict",
    "training.run_record": "RunRecord",
    "training.with_rows": "to_batch with_rows",
    "types": "Batch Samples StepRecord",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

# fmt: off
__all__ = [
    "FORML", "JTT", "L2RW", "MLP", "MOEW", "AdaptiveStep", "Batch", "Cells", "ClassBalanced", "ClassDifficulty",
    "Dynamics", "EarlyStopping", "EqualOddsLoss", "EqualOpportunityLoss", "EqualOpportunityRate", "ExemplarSampler",
    "FairweightClassifier", "FitOptions", "Focal", "Given", "GroupDRO", "GroupTable", "LabelBias", "LookAhead",
    "LossVariance", "MaxLossDiscrepancy", "MeanLoss", "MeanLossDiscrepancy", "MetaWeightNet", "Objective",
    "Observer", "PlainStep", "Progress", "Proportion", "Random", "ResNet18", "Reweighter", "RunRecord", "Samples",
    "StepRecord", "TrainSampler", "Uniform", "Watch", "WorstGroupLoss", "data", "fit", "group_table",
    "metagradient", "metrics", "objectives", "predict", "prepare", "to_batch", "with_rows",
]
# fmt: on


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"fairweight.{_HOME[name]}"), name)
    if name in __all__:
        return importlib.import_module(f"fairweight.{name}")
    raise AttributeError(f"fairweight has no {name!r}")


def __dir__() -> list[str]:
    return __all__
