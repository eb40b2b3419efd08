"""Metrics of the caller's own: any f(labels, predictions) -> float, by group, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fairweight.errors import BadInput
from fairweight.metrics._samples import CodedSamples
from fairweight.metrics._tally import Floats

Metric: TypeAlias = Callable[[npt.NDArray[Any], npt.NDArray[Any]], float]


class OwnMetric:
    """One such metric on one table's samples."""

    def __init__(self, name: str, function: Metric, samples: CodedSamples) -> None:
        self.name = name
        self._function = function
        row = samples.labels if samples.groups is None else samples.groups
        order = np.lexsort((samples.labels, row))  # members of a row side by side, and in it those of a label
        values = samples.label_values()
        self._labels = values[samples.labels[order]]
        self._predictions = values[samples.predictions[order]]
        rows = len(samples.group_axis)
        self._edges = np.searchsorted(row[order], np.arange(rows + 1))  # [R + 1]
        cell = row[order] * len(samples.label_axis) + samples.labels[order]
        _, start, inverse, size = np.unique(cell, return_index=True, return_inverse=True, return_counts=True)
        self._cell_start, self._cell_size = start[inverse], size[inverse]  # [N]

    def _call(self, labels: npt.NDArray[Any], predictions: npt.NDArray[Any]) -> float:
        if not len(labels):
            return float("nan")
        found = self._function(labels, predictions)
        try:
            return float(found)
        except (TypeError, ValueError) as error:
            raise BadInput(
                f"metric {self.name!r} returned {type(found).__name__}; return one number per call."
            ) from error

    def _values(self, labels: npt.NDArray[Any], predictions: npt.NDArray[Any]) -> Floats:
        rows = [
            self._call(labels[start:stop], predictions[start:stop])
            for start, stop in zip(self._edges[:-1], self._edges[1:], strict=True)
        ]
        return np.array([*rows, self._call(labels, predictions)])

    def values(self) -> Floats:
        """The metric by row, and of all samples last: [R + 1]; NaN for a group that has nobody."""
        return self._values(self._labels, self._predictions)

    def draws(self, draws: int, seed: int) -> Floats:
        """The same of resampled samples [draws, R + 1]; every label keeps its number in every group."""
        rng = np.random.default_rng(seed)
        drawn = np.empty((draws, len(self._edges)))
        for draw in range(draws):
            rows = self._cell_start + (rng.random(len(self._labels)) * self._cell_size).astype(np.int64)
            drawn[draw] = self._values(self._labels[rows], self._predictions[rows])
        return drawn
