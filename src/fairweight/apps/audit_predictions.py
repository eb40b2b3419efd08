"""An audit of any model's predictions, from a file: no training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fairweight.data import TableOptions
from fairweight.data.groups import refuse_ids
from fairweight.data.rows import Rows, as_texts, read_column, source_column
from fairweight.data.table.read import read_frame, table_files
from fairweight.data.texts import listing
from fairweight.errors import BadInput, MissingColumn
from fairweight.metrics import Intervals, group_table
from fairweight.report import Audit

if TYPE_CHECKING:
    import pandas as pd

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
    missing: Literal["error", "ignore", "group"] = "ignore",
    delimiter: str | None = None,
    encoding: str = "utf-8",
    seed: int = 0,
) -> Audit:
    """The table by group of a file with a row per sample.

    label, prediction, group: columns; None takes those of the usual names. group: several, with commas, are crossed.
    threshold: predictions are probabilities of the positive label, which is predicted from here on.
    """
    import pandas as pd

    notes: list[str] = []
    frame, more = read_frame(table_files(str(file)), TableOptions(delimiter=delimiter, encoding=encoding))
    notes += more
    names = [str(name) for name in frame.columns]
    wanted = _column(names, label, _LABEL, "--label", "labels")
    said = _column(names, prediction, _PREDICTION, "--prediction", "predictions")
    groups = _groups(names, group)
    columns = {name: _group_values(frame, name) for name in groups}
    _refuse_ids(columns)
    labels, predictions = _texts(frame, wanted), _texts(frame, said)
    predictions = _hard(frame, said, labels, predictions, threshold, positive, notes)
    known = sorted(set(labels) | set(predictions), key=_natural)
    if len(known) < 2:
        raise BadInput(f"{wanted!r} and {said!r} hold one value alone, {known[0]!r}; there is nothing to compare.")
    if not set(predictions) & set(labels):
        raise BadInput(
            f"no prediction in {said!r} ({listing(sorted(set(predictions), key=_natural), 3)}) is a label of "
            f"{wanted!r} ({listing(sorted(set(labels), key=_natural), 3)}); write both in the same words."
        )
    if strange := sorted(set(predictions) - set(labels), key=_natural):
        notes.append(f"Warning: {len(strange)} predicted labels are nobody's: {', '.join(strange[:5])}.")
    table = group_table(
        labels,
        predictions,
        None if not groups else columns[groups[0]] if len(groups) == 1 else pd.DataFrame(columns),
        positive=_positive(known, positive),
        missing=missing,
        label_names={name: name for name in known},
        intervals=Intervals(seed=seed),
    )
    name = Path(file).name.encode(errors="replace").decode()  # bytes that are no text are shown as ?
    facts = {"file": name, "label": wanted, "prediction": said, "group": ", ".join(groups) or "the label"}
    return Audit(
        title=f"Audit of predictions: {name}",
        facts=facts,
        metrics=table.to_dict(),
        notes=tuple(notes),
        missing=("These are predictions alone, without training: the page has no weights, scores or suspects.",),
    )


def _column(names: list[str], asked: str | None, usual: tuple[str, ...], flag: str, what: str) -> str:
    if asked is not None:
        if asked not in names:
            raise MissingColumn(f"there is no column {asked!r}; the columns are {', '.join(names[:12])}.")
        return asked
    found = next((name for wish in usual for name in names if name.lower() == wish), None)
    if found is None:
        raise MissingColumn(f"say which column holds the {what} with {flag}; the columns are {', '.join(names[:12])}.")
    return found


def _groups(names: list[str], asked: str | None) -> list[str]:
    if asked is None:
        return ["group"] if "group" in names else []
    if asked.strip().lower() in ("", "none"):
        return []
    if asked in names:  # a name may have a comma in it
        return [asked]
    found = [name.strip() for name in asked.split(",") if name.strip()]
    for name in found:
        _column(names, source_column(names, name), (), "--group", "groups")
    return found


def _group_values(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    """A column of the file, or the answers to a question to one, such as age>=30."""
    import pandas as pd

    if name in frame.columns:
        return frame[name]
    return pd.Series(read_column(Rows(frame), name), index=frame.index, name=name, dtype=object)


def _refuse_ids(columns: Mapping[str, pd.Series[Any]]) -> None:
    """Refuse a column that train would refuse as groups."""
    for name, values in columns.items():
        texts = [text for text in as_texts(values) if text is not None]
        refuse_ids(sorted(set(texts), key=_natural), [name], len(texts))


def _texts(frame: pd.DataFrame, column: str) -> list[str]:
    """The column as text; one of numbers alone in one spelling, so that 1 and 1.0 are the same label."""
    import pandas as pd

    texts = as_texts(frame[column])
    empty = sum(text is None for text in texts)
    if empty:
        raise BadInput(f"{empty:,} rows have no {column!r}; drop them or fill them in.")
    numbers = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce")
    return [str(text) for text in (as_texts(numbers.astype(float)) if numbers.notna().all() else texts)]


def _hard(
    frame: pd.DataFrame,
    column: str,
    labels: list[str],
    predictions: list[str],
    threshold: float | None,
    positive: str | None,
    notes: list[str],
) -> list[str]:
    """Labels, also where the file holds probabilities and a threshold was given."""
    import pandas as pd

    known = sorted(set(labels), key=_natural)
    numbers = pd.to_numeric(frame[column], errors="coerce")
    probabilities = bool(numbers.notna().all() and numbers.between(0, 1).all() and not numbers.isin((0, 1)).all())
    if threshold is None:
        if probabilities and not set(predictions) <= set(known):
            raise BadInput(
                f"{column!r} holds probabilities, not labels; give --threshold 0.5 to predict the positive label from "
                "there on."
            )
        return predictions
    if numbers.isna().any() or len(known) != 2:
        raise BadInput("--threshold needs probabilities of one of two labels; leave it out for labels.")
    if math.isnan(threshold) or (probabilities and not 0 <= threshold <= 1):
        raise BadInput(f"--threshold {threshold:g} cuts nothing: probabilities lie from 0 to 1; give one between.")
    yes = str(_positive(known, positive) or known[-1])
    no = next(name for name in known if name != yes)
    notes.append(f"{yes!r} is predicted where {column!r} is at least {threshold:g}.")
    return [yes if value >= threshold else no for value in numbers]


def _positive(known: list[str], asked: str | None) -> str | None:
    if asked is None:
        return None
    if asked not in known:
        raise BadInput(f"--positive {asked} is no label; choose from: {', '.join(known[:12])}.")
    return asked


def _natural(text: str) -> tuple[int, float, str]:
    """Numbers by their size, then words by the alphabet."""
    try:
        return (0, float(text), text)
    except ValueError:
        return (1, 0.0, text)
