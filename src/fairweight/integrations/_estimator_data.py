"""Make a Dataset of what an estimator is given, by the same reading and splitting as that of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

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
from fairweight.errors import SmallCell

if TYPE_CHECKING:
    import pandas as pd

Array = np.ndarray[Any, Any]
# Columns beside the inputs, by names that no input has.
LABEL, GROUP, PART, ROW = "(label)", "(sensitive_features)", "(part)", "(row)"


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

    frame = pd.concat([_frame(one) for one in given], ignore_index=True)
    # A Dataset has test rows and an estimator has none: the first sample stands in, and nobody looks at it.
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
    samples = np.concatenate([*(one.inputs for one in given), given[0].inputs[:1]])
    numbers = Numbers.fit(samples[dataset.rows["train"].numpy()], dataset.preprocessing.meaning, standardize)
    parts: dict[str, Any] = {
        name: replace(getattr(dataset, name), inputs=numbers.transform(samples[rows.numpy()]))
        for name, rows in dataset.rows.items()
    }
    return replace(dataset, preprocessing=cast(Preprocessing, numbers), **parts)


def _frame(one: Given) -> pd.DataFrame:
    """Inputs, label, groups and part side by side; samples of an array have their number for an input."""
    import pandas as pd

    array = isinstance(one.inputs, np.ndarray)
    frame = pd.DataFrame({ROW: range(len(one.labels))}) if array else one.inputs.reset_index(drop=True)
    beside: dict[str, Any] = {LABEL: one.labels.numpy(), PART: one.part}
    if one.groups is not None:
        beside |= {str(name): column.to_numpy() for name, column in group_columns(one.groups).items()}
    return frame.assign(**beside)


def group_columns(groups: Any) -> pd.DataFrame:
    """Sensitive features under the names that they have beside the inputs."""
    import pandas as pd

    found = pd.DataFrame(groups)
    return found.set_axis([f"{GROUP} {place + 1}" if place else GROUP for place in range(found.shape[1])], axis=1)
