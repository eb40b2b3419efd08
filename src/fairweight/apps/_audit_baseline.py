"""The run that an audited one is compared with, and how far their numbers lie apart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fairweight import catalog
from fairweight.errors import BadInput, FairweightError
from fairweight.metrics import GroupTable, compare, group_table
from fairweight.report import Baseline
from fairweight.report.table_rows import SUMMARY
from fairweight.runs.folder import METRICS, RunFolder
from fairweight.runs.spec import Spec

if TYPE_CHECKING:
    import pandas as pd


def baseline_of(
    folder: RunFolder, spec: Spec, metrics: Mapping[str, Any], given: RunFolder | None, missing: list[str]
) -> Baseline | None:
    """The run that was given, or plain training found beside; what cannot be compared is added to `missing`."""
    other = given or _found_beside(folder, spec)
    if other is None:
        return None
    theirs, name = other.read(METRICS), catalog.load("methods", other.read_spec().method).__name__
    if theirs["by"] != metrics["by"] or theirs["labels"] != metrics["labels"]:
        raise BadInput(f"{other.path} was tested on other labels or groups; give a baseline of the same data.")
    tables = _tables(folder, other)
    if tables is None:
        missing.append(
            f"Differences from {name} carry no interval: the two runs were not tested on the same samples, or kept no "
            "predictions."
        )
        return Baseline(name, theirs, {})
    apart: dict[str, dict[str, Any]] = {}
    for number in SUMMARY:
        found = compare(*tables, number)
        limits = {"value": found.value, "low": found.low, "high": found.high}.items()
        apart[number] = {k: None if math.isnan(v) else v for k, v in limits} | {"beyond": found.beyond_interval}
    return Baseline(name, theirs, apart)


def _found_beside(folder: RunFolder, spec: Spec) -> RunFolder | None:
    """A finished run of plain training on the same data inside the run's folder or beside it, the same seed's first."""
    if spec.method == "uniform":
        return None
    found: list[tuple[bool, RunFolder]] = []
    here = folder.path.resolve()
    for path in sorted([*here.glob(f"*/{METRICS}"), *here.parent.glob(f"*/{METRICS}")]):
        other = RunFolder(path.parent)
        try:
            theirs = other.read_spec()
        except FairweightError:
            continue  # another version's run
        if theirs.method == "uniform" and _data(theirs) == _data(spec):
            twin = theirs.with_(method=spec.method, method_options=spec.method_options, weights=spec.weights)
            found.append((twin != spec, other))
    return min(found, key=lambda item: item[0])[1] if found else None


def _data(spec: Spec) -> tuple[Any, ...]:
    """What of a Spec determines its samples."""
    seed = spec.seed if spec.data_seed is None else spec.data_seed
    return spec.source, spec.label, spec.group, spec.data, spec.rows, seed


def _tables(folder: RunFolder, other: RunFolder) -> tuple[GroupTable, GroupTable] | None:
    """The baseline's table and this run's, on the same test samples; None where they are not."""
    ours, theirs = folder.read_predictions(), other.read_predictions()
    if ours is None or theirs is None or not ours["row"].equals(theirs["row"]):
        return None
    if not ours["label"].astype(str).equals(theirs["label"].astype(str)):
        return None
    return _table(theirs), _table(ours)


def _table(predictions: pd.DataFrame) -> GroupTable:
    grouped = "group" in predictions
    return group_table(
        predictions["label"].cat.codes.to_numpy(),
        predictions["predicted"].cat.codes.to_numpy(),
        predictions["group"].cat.codes.to_numpy() if grouped else None,
        label_names=[str(name) for name in predictions["label"].cat.categories],
        group_names=[str(name) for name in predictions["group"].cat.categories] if grouped else None,
        missing="ignore",
    )
