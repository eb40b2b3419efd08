"""Audit any model's predictions, from a file: no training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fairweight.constraints import plain_seed
from fairweight.data import TableOptions
from fairweight.data.dataset import group_columns, rejoin_comma_names
from fairweight.data.files import bounded
from fairweight.data.groups import refuse_ids
from fairweight.data.rows import Rows, as_texts, read_column, source_column
from fairweight.data.table.read import read_frame, table_files
from fairweight.data.texts import in_order, listing, unify
from fairweight.errors import BadInput, MissingColumn, option
from fairweight.metrics import Intervals, group_table
from fairweight.report import Audit

_PREDICTION = ("prediction", "predicted", "predictions", "y_pred", "pred")
_LABEL = ("label", "labels", "y_true", "target", "y")


def audit_predictions(
    file: str | Path,
    *,
    label: str | None = None,
    prediction: str | None = None,
    group: str | None = None,
    threshold: float | None = None,
    positive: str | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    max_file_gb: float | None = None,
    seed: int = 0,
) -> Audit:
    """The table by group of a file with a row per sample.

    label, prediction, group: columns; None takes those of the usual names. group: several, with commas, are crossed.
    threshold: predictions are probabilities of the positive label, which is predicted from here on.
    """
    notes: list[str] = []
    with bounded(max_file_gb):
        frame = read_frame(table_files(str(file)), TableOptions(delimiter=delimiter, encoding=encoding), notes)
    names = [str(name) for name in frame.columns]
    wanted = _column(names, label, "label", _LABEL)
    predicted = _column(names, prediction, "prediction", _PREDICTION)
    asked = group_columns("group" if group is None and "group" in names else group) or ()
    groups = {name: _group_values(frame, name, names) for name in rejoin_comma_names(asked, names)}
    labels = _texts(frame, wanted)
    predictions = _hard(frame, predicted, labels, threshold, positive, notes)
    known = in_order(set(labels) | set(predictions))
    if len(known) < 2:
        raise BadInput(f"{wanted!r} and {predicted!r} hold one value alone, {known[0]!r}; there is nothing to compare.")
    if not set(predictions) & set(labels):
        raise BadInput(
            f"no prediction in {predicted!r} ({listing(in_order(set(predictions)), 3)}) is a label of "
            f"{wanted!r} ({listing(in_order(set(labels)), 3)}); write both in the same words."
        )
    if strange := in_order(set(predictions) - set(labels)):
        notes.append(f"Warning: {len(strange)} predicted labels are nobody's: {', '.join(strange[:5])}.")
    table = group_table(
        labels,
        predictions,
        None if not groups else next(iter(groups.values())) if len(groups) == 1 else pd.DataFrame(groups),
        positive=_positive(known, positive),
        missing="ignore",
        label_names={name: name for name in known},
        intervals=Intervals(seed=plain_seed(seed)),
    )
    name = Path(file).name.encode(errors="replace").decode()  # bytes that are no text are shown as ?
    return Audit(
        title=f"Audit of predictions: {name}",
        facts={"file": name, "label": wanted, "prediction": predicted, "group": ", ".join(groups) or "the label"},
        metrics=table.to_dict(),
        notes=tuple(notes),
        missing=("These are predictions alone, without training: the page has no weights, scores or suspects.",),
    )


def _column(names: list[str], asked: str | None, what: str, usual: Sequence[str] = ()) -> str:
    found = asked or next((name for goal in usual for name in names if name.lower() == goal), None)
    there = f"the columns are {', '.join(names[:12])}."
    if found is None:
        raise MissingColumn(f"say which column holds the {what}s with {option(what)}; {there}")
    if found not in names:
        raise MissingColumn(f"there is no column {found!r}; {there}")
    return found


def _group_values(frame: pd.DataFrame, name: str, names: list[str]) -> pd.Series[Any]:
    """A column, or the answers to a threshold such as age>=30; refused where train would refuse it as groups."""
    _column(names, source_column(names, name), "group")
    values = frame.get(name)
    if values is None:
        values = pd.Series(read_column(Rows(frame), name), index=frame.index, name=name, dtype=object)
    texts = [text for text in as_texts(values) if text is not None]
    refuse_ids(in_order(set(texts)), [name], len(texts))
    return values


def _texts(frame: pd.DataFrame, column: str) -> list[str]:
    """The column as text; one of numbers alone in one spelling, so that 1 and 1.0 are the same label."""
    texts = as_texts(frame[column])
    if empty := texts.count(None):
        raise BadInput(f"{empty:,} rows have no {column!r}; drop them or fill them in.")
    return [str(text) for text in unify(texts)]


def _hard(
    frame: pd.DataFrame, column: str, labels: list[str], threshold: float | None, positive: str | None, notes: list[str]
) -> list[str]:
    """Predicted labels, also where the file holds probabilities and a threshold was given."""
    predictions = _texts(frame, column)
    known = in_order(set(labels))
    numbers = pd.to_numeric(frame[column], errors="coerce")
    if numbers.isna().any():  # 0,25 as spreadsheets write it
        numbers = pd.to_numeric(pd.Series(predictions).str.replace(",", "."), errors="coerce")
    probabilities = bool(numbers.between(0, 1).all() and not numbers.isin((0, 1)).all())
    if threshold is None:
        if probabilities and not set(predictions) <= set(known):
            raise BadInput(
                f"{column!r} holds probabilities, not labels; give {option('threshold', 0.5)} to predict the positive "
                "label from there on."
            )
        return predictions
    if numbers.isna().any() or len(known) != 2:
        raise BadInput(f"{option('threshold')} needs probabilities of one of two labels; leave it out for labels.")
    if math.isnan(threshold) or (probabilities and not 0 <= threshold <= 1):
        raise BadInput(f"{option('threshold', f'{threshold:g}')} cuts nothing: give a number between 0 and 1.")
    yes = _positive(known, positive) or known[-1]
    no = known[1 - known.index(yes)]
    notes.append(f"{yes!r} is predicted where {column!r} is at least {threshold:g}.")
    return [yes if value >= threshold else no for value in numbers]


def _positive(known: list[str], asked: str | None) -> str | None:
    if asked is not None and asked not in known:
        raise BadInput(f"{option('positive', asked)} is no label; choose from: {', '.join(known[:12])}.")
    return asked
