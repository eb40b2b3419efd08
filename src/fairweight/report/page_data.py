"""What the page's script reads: every training sample, columns as typed arrays, each name once."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from fairweight.report._format import words
from fairweight.report.audit import Trained
from fairweight.report.sample_cards import levels, worth_a_picture

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    Array = np.ndarray[Any, Any]

MOST_SAMPLES = 100_000  # that one page carries
MOST_COLUMNS = 40  # of the source


def chosen(trained: Trained, most: int = MOST_SAMPLES) -> Array:
    """Positions that the page carries, in order: all, or the most suspect and the most moved of each kind."""
    import numpy as np

    if len(trained.weights) <= most:
        return np.arange(len(trained.weights))
    return np.sort(np.array(worth_a_picture(trained, most), dtype=np.int64))


def data_for(trained: Trained, places: Array) -> dict[str, Any]:
    """Plain values of the samples at these positions, ready for JSON."""
    weights = trained.weights.iloc[places]
    if trained.weighs:
        weights = weights.assign(weight=trained.given_weight.iloc[places])
    ranks = trained.suspects["rank"].iloc[places]
    columns = [
        _numbers("rank", "Suspect", "rank of its label; 1 is the most suspect", ranks),
        _numbers("row", "Row", "in the source, counted from 0", weights["row"]),
    ]
    for name, title in (("label", "Label"), ("group", "Group"), ("predicted", "Model says"), ("true_label", "True")):
        if name in weights and (name != "group" or trained.grouped):
            columns.append(_names(name, title, weights[name]))
    pushed = "ema_push" in weights and weights["ema_push"].notna().any()
    for name, text in words("columns").items():
        title, _, meaning = text.partition(": ")
        if name in weights and weights[name].notna().any() and (name != "pushed_up" or pushed):
            columns.append(_numbers(name, title, meaning, weights[name]))
    position = {int(place): k for k, place in enumerate(places)}
    return {
        "n": len(places),
        "of": len(trained.weights),
        "columns": columns,
        "path": _paths(trained, position),
        "source": [] if trained.columns is None else _source(trained.columns.iloc[places]),
        "images": {str(position[place]): uri for place, uri in trained.images.items() if place in position},
    }


def _packed(values: Array) -> dict[str, str]:
    """Bytes of an array, lowest first, as base64; integers in the smallest unsigned type that holds them."""
    import numpy as np

    if values.dtype.kind == "f":
        kind, name = np.dtype("<f4"), "Float32Array"
    else:
        size = next((size for size in (1, 2) if not len(values) or values.max() < 256**size), 4)
        kind, name = np.dtype(f"<u{size}"), f"Uint{8 * size}Array"
    return {"type": name, "bytes": base64.b64encode(values.astype(kind).tobytes()).decode()}


def _numbers(name: str, title: str, meaning: str, column: pd.Series[Any]) -> dict[str, Any]:
    values = column.to_numpy()
    kind = "number" if values.dtype.kind == "f" else "integer"
    return {"name": name, "title": title, "meaning": meaning, "kind": kind, **_packed(values)}


def _names(name: str, title: str, column: pd.Series[Any]) -> dict[str, Any]:
    """Codes into a list of names; the last name stands for a missing value."""
    coded = column.astype("category").cat
    names = [str(value) for value in coded.categories]
    codes = coded.codes.to_numpy().astype("int64")
    codes[codes < 0] = len(names)
    return {"name": name, "title": title, "kind": "name", "names": [*names, ""], **_packed(codes)}


def _source(columns: pd.DataFrame) -> list[dict[str, Any]]:
    kept = columns.iloc[:, :MOST_COLUMNS]
    return [_names(str(name), str(name), kept[name].astype(object).map(_text)) for name in kept.columns]


def _text(value: Any) -> str | None:
    if value is None or value != value:
        return None
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)


def _paths(trained: Trained, position: dict[int, int]) -> dict[str, Any] | None:
    """Each sample's score after some of the epochs as digits 0 to 7, blank where no path was kept."""
    import numpy as np

    if trained.score_path is None or trained.path_rows is None or not len(trained.score_path):
        return None
    steps = levels(trained.score_path)  # [P, T]
    digits = np.full((len(position), steps.shape[1]), ord(" "), dtype=np.uint8)
    here = [(k, position[int(row)]) for k, row in enumerate(trained.path_rows) if int(row) in position]
    if here:
        kept, places = np.array(here).T
        digits[places] = steps[kept] + ord("0")
    return {"width": steps.shape[1], "digits": digits.tobytes().decode("ascii")}
