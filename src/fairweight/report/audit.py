"""What an audit is made from, and what it finds, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from fairweight.report._format import capitalised
from fairweight.report.suspects import RULE, Detection

Array = np.ndarray[Any, Any]

Level = Literal["act", "good", "look", "note"]
LEVELS: tuple[Level, ...] = ("act", "good", "look", "note")  # good news stands as high as bad


@dataclass(frozen=True)
class Baseline:
    """Plain training on the same data, to compare with."""

    name: str
    metrics: Mapping[str, Any]  # as GroupTable.to_dict gives it
    differences: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by number: value, low, high, beyond


@dataclass(frozen=True)
class Trained:
    """What training left of every sample; arrays are in the order of the weights' rows."""

    method: str  # in words
    weights: pd.DataFrame  # as in weights.parquet
    suspects: pd.DataFrame  # as suspects.suspicion gives it
    detection: Detection | None = None
    suspect_rule: str = RULE  # what labels are ranked by, in words
    wrong_counts: Sequence[Mapping[str, Any]] = ()  # by, name, n, wrong, low, high: all, by label, by group
    history: Sequence[Mapping[str, Any]] = ()  # one entry per epoch
    warnings: Sequence[str] = ()
    scores: Mapping[str, float] = field(default_factory=dict)  # how they ended: std, min, max, effective_size
    path_rows: Array | None = None  # [P] positions whose paths were kept
    score_path: Array | None = None  # [epochs, P]
    weight_path: Array | None = None  # [epochs, P]
    columns: pd.DataFrame | None = None  # the source's own columns, for tables
    images: Mapping[int, str] = field(default_factory=dict)  # data URI by position
    grouped: bool = True  # whether groups are other than labels
    kind: str = "table"  # or "image"

    @property
    def part(self) -> str:
        """What weights are told by: cells, or labels where those are the groups."""
        return "cell" if self.grouped else "label"

    @property
    def subject(self) -> str:
        """The method as a sentence begins with it; names of candidates and classes stay as they are."""
        return capitalised(self.method) if self.method.startswith("plain") else self.method

    @property
    def has_scores(self) -> bool:
        return bool(self.weights["score"].notna().any())

    @property
    def given_weight(self) -> pd.Series[float]:
        """Weight of each sample, mean 1: the method's own, or the average of its weights in batches."""
        learned = self.weights["weight"]
        return learned if learned.notna().any() or "ema_weight" not in self.weights else self.weights["ema_weight"]

    @property
    def weighs(self) -> bool:
        """Whether some samples counted more than others."""
        given = self.given_weight
        return bool(given.notna().any() and (given.max() - given.min()) > 1e-4)

    @property
    def weights_are_fixed(self) -> bool:
        """Whether every sample counted the same at every epoch: the weights were known before training."""
        path = self.weight_path
        return path is not None and len(path) > 1 and bool((path == path[0]).all())

    @property
    def wrong(self) -> Array | None:
        """[N] whether a label is wrong, where the true ones are known."""
        if "true_label" not in self.weights:
            return None
        return (self.weights["label"].astype(str) != self.weights["true_label"].astype(str)).to_numpy()


@dataclass(frozen=True)
class Audit:
    """Everything that the page, the card and the findings are made from."""

    title: str
    facts: Mapping[str, str]  # what was audited, in words
    metrics: Mapping[str, Any]  # as GroupTable.to_dict gives it
    baseline: Baseline | None = None
    trained: Trained | None = None
    notes: Sequence[str] = ()  # what a reader should know of the data
    missing: Sequence[str] = ()  # what could not be shown, and how to get it

    @property
    def by_label(self) -> bool:
        return bool(self.metrics["by"] == "label")

    @property
    def group_word(self) -> str:
        return "label" if self.by_label else "group"

    @property
    def has_cells(self) -> bool:
        return "cells" in self.metrics

    @property
    def says_one_label(self) -> bool:
        """True if every row is predicted alike, so that groups are even for no good reason."""
        rows = self.metrics.get("cells", self.metrics["groups"])
        rates = {(row.get("label"), row["selection_rate"]) for row in rows if row["selection_rate"] is not None}
        alike = bool(rates) and {rate for _, rate in rates} <= {0, 1} and len(rates) == len(dict(rates))
        return alike and not self.by_label  # whose gap of 100 points says it


@dataclass(frozen=True)
class Finding:
    """One sentence and what to do next; kind says what it is about, level whether somebody should act."""

    kind: str
    level: Level
    sentence: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    action: str = ""
