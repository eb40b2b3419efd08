"""Make a Dataset of what an estimator is given, by the same reading and splitting as that of a file."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from sklearn.utils.validation import _check_sample_weight
from torch import Tensor, nn

from fairweight.constraints import FLAG, Constraint, Kind, above, between, either, whole
from fairweight.data import (
    Dataset,
    Exemplar,
    GroupOptions,
    LabelOptions,
    Options,
    Preprocessing,
    Split,
    TableOptions,
    load,
)
from fairweight.data.meaning import Meaning
from fairweight.errors import BadInput, SmallCell
from fairweight.sampling import Cells

if TYPE_CHECKING:
    import pandas as pd

Array = np.ndarray[Any, Any]
# Columns beside the inputs, by names that no input has.
LABEL, GROUP, PART, ROW = "(label)", "(sensitive_features)", "(part)", "(row)"
# scikit-learn makes an estimator with anything and checks it when it is fitted.
CONSTRAINTS: Mapping[str, Constraint] = {
    **dict.fromkeys(("epochs", "batch_size", "per_cell", "exemplar_size"), either(whole(1))),
    **dict.fromkeys(("exemplar_inside", "standardize", "groups_at_prediction", "each"), FLAG),
    "lr": above(0),
    "weight_decay": between(0),
    "exemplar_fraction": either(above(0, 1)),
    "validation_fraction": between(0, 1, below=True),
    "patience": either(whole(0)),
    **dict.fromkeys(("bound", "budget"), either(between(0, 100))),
    **dict.fromkeys(("method", "criterion", "learner"), Kind((str,), "a name", optional=True)),
    **dict.fromkeys(("optimizer", "device"), Kind((str,), "a name")),
    "hidden": Kind((Iterable,), "the layers' widths, such as (64, 64)", optional=True),
    "method_options": Kind((Mapping,), "options by name", optional=True),
    "module": Kind((Callable,), "a model, or what makes one", optional=True),  # type: ignore[arg-type]
}


@dataclass(frozen=True)
class Given:
    """Samples as a caller gives them."""

    inputs: Any  # a frame or an array [N, ...]
    labels: Tensor  # [N] places among the classes
    groups: pd.DataFrame | None  # one column, or several that are crossed
    part: str  # "train" or "exemplar"

    @property
    def group_codes(self) -> Tensor | None:
        """One number per group, -1 where it is not known."""  # [N]
        if self.groups is None:
            return None
        return torch.tensor(self.groups.groupby(list(self.groups)).ngroup().to_numpy())

    def exemplar(self, size: int | None, inside: bool, fraction: float | None) -> Exemplar:
        """How exemplars are drawn from these samples; fraction: the deprecated way to say it."""
        if fraction is None:
            return Exemplar(size=size, inside=inside)
        warnings.warn("exemplar_fraction will go; give exemplar_size, exemplars of each cell.", FutureWarning, 3)
        counts = Cells.of(self.labels, self.group_codes).counts
        even = round(fraction * len(self.labels) / len(counts))
        return Exemplar(size=max(1, min(even, min(counts) // 2)), inside=True)


@dataclass(frozen=True)
class Numbers:
    """Preprocessing of an array: brings each feature to mean 0 and deviation 1 of the training samples."""

    mean: Array
    scale: Array
    input_shape: tuple[int, ...]
    meaning: Meaning

    @classmethod
    def fit(cls, train: Array, meaning: Meaning, standardize: bool) -> Numbers:
        """Find mean and deviation, or leave the numbers as they are."""
        mean, scale = np.zeros(()), np.ones(())
        if standardize:
            mean, scale = train.mean(axis=0, dtype=np.float64), train.std(axis=0, dtype=np.float64)
        return cls(mean, np.where(scale > 0, scale, 1.0), train.shape[1:], meaning)

    def transform(self, samples: Array) -> Tensor:
        """Inputs of the model."""  # [N, ...] float32
        return torch.from_numpy(((samples - self.mean) / self.scale).astype(np.float32))


def dataset_of(
    given: Sequence[Given], classes: int, seed: int, validation: float, exemplar: Exemplar, standardize: bool
) -> Dataset:
    """Split the samples as the command line splits rows that are not for test; preprocess a frame as it does a file.

    Where a cell has fewer rows than the command line takes, exemplars stay in training and there is no validation.
    """
    import pandas as pd

    frame = pd.concat([_frame(part) for part in given], ignore_index=True)
    # A Dataset has test rows and an estimator has none: the first sample stands in, and is not used.
    frame = pd.concat([frame, frame.iloc[:1].assign(**{PART: "test"})], ignore_index=True)
    array = isinstance(given[0].inputs, np.ndarray)
    groups = [name for name in frame.columns if str(name).startswith(GROUP)] or "none"
    options = Options(
        labels=LabelOptions(max_classes=classes),
        table=TableOptions(keep=(ROW,) if array else ()),
        split=Split(column=PART, validation=validation),
        exemplar=exemplar,
    )
    try:
        dataset = load(frame, label=LABEL, group=groups, seed=seed, options=options)
    except SmallCell:
        split, inside = Split(column=PART, validation=0.0), replace(exemplar, inside=True, size=None)
        options = replace(options, groups=GroupOptions(below="keep"), split=split, exemplar=inside)
        dataset = load(frame, label=LABEL, group=groups, seed=seed, options=options)
    if not array:
        return dataset
    samples = np.concatenate([*(part.inputs for part in given), given[0].inputs[:1]])
    numbers = Numbers.fit(samples[dataset.rows["train"].numpy()], dataset.preprocessing.meaning, standardize)
    parts: dict[str, Any] = {
        name: replace(getattr(dataset, name), inputs=numbers.transform(samples[rows.numpy()]))
        for name, rows in dataset.rows.items()
    }
    return replace(dataset, preprocessing=cast(Preprocessing, numbers), **parts)


def _frame(part: Given) -> pd.DataFrame:
    """Inputs, label, groups and part side by side; samples of an array have their number for an input."""
    import pandas as pd

    array = isinstance(part.inputs, np.ndarray)
    frame = pd.DataFrame({ROW: range(len(part.labels))}) if array else part.inputs.reset_index(drop=True)
    columns: dict[str, Any] = {LABEL: part.labels.numpy(), PART: part.part}
    if part.groups is not None:
        columns |= {str(name): column.to_numpy() for name, column in group_columns(part.groups).items()}
    return frame.assign(**columns)


def group_columns(groups: Any) -> pd.DataFrame:
    """Sensitive features under the names that they have beside the inputs."""
    import pandas as pd

    frame = pd.DataFrame(groups)
    return frame.set_axis([f"{GROUP} {place + 1}" if place else GROUP for place in range(frame.shape[1])], axis=1)


def made(module: Any, features: int, classes: int) -> nn.Module:
    """Copy the model, or make it by the class or function of (features, classes) or of nothing."""
    if isinstance(module, nn.Module):
        return copy.deepcopy(module)
    try:
        inspect.signature(module).bind(features, classes)
        model = module(features, classes)
    except TypeError:
        model = module()
    if not isinstance(model, nn.Module):
        raise BadInput(f"module made a {type(model).__name__}, not a torch.nn.Module; give what makes a model.")
    return model


def sample_weights(sample_weight: Any, X: Any) -> Tensor:  # noqa: N803
    """Refuse weights that leave nothing to learn from."""  # [N]
    weights = _check_sample_weight(sample_weight, X, dtype=np.float32, ensure_non_negative=True)
    if not weights.sum() > 0:
        raise BadInput("sample_weight is 0 for every sample; give some of them a weight above 0.")
    return torch.from_numpy(weights)
