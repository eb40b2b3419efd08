"""Tensors, arrays, lists and data frames become integer codes with the values that they stand for."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from fairweight.errors import BadInput

Ints: TypeAlias = npt.NDArray[np.int64]
Names: TypeAlias = "Sequence[str] | Mapping[Any, str]"


@dataclass(frozen=True)
class Axis:
    """The distinct values of a column, in order, and what callers see in their place."""

    values: tuple[Hashable, ...]  # as in the data
    keys: tuple[Hashable, ...]  # names where given, values otherwise

    def __len__(self) -> int:
        return len(self.values)

    def position(self, wanted: Hashable, what: str) -> int:
        """The code of a key, or of a value where no key says so."""
        for known in (self.keys, self.values):
            if wanted in known:
                return known.index(wanted)
        shown = ", ".join(repr(key) for key in self.keys[:20])
        raise BadInput(f"{wanted!r} is not a {what} of this table; choose from: {shown}.")


def array_of(values: object, what: str) -> npt.NDArray[Any]:
    """The values as an array of numbers, bools or objects; text is never made of numbers or of missing values."""
    if hasattr(values, "detach"):  # a torch tensor, without importing torch
        tensor = cast(Any, values).detach().cpu()
        return cast("npt.NDArray[Any]", (tensor.double() if tensor.is_floating_point() else tensor).numpy())
    if hasattr(values, "to_numpy"):  # a pandas or polars column or frame
        array = np.asarray(cast(Any, values).to_numpy())
    else:
        try:
            array = np.asarray(values)
            if array.dtype.kind in "US":  # ["F", nan] must not become "nan"
                array = np.asarray(values, dtype=object)
        except ValueError as error:
            raise BadInput(f"{what} is ragged; give one entry per sample.") from error
    if array.dtype.kind not in "biufO":
        raise BadInput(f"{what} is of type {array.dtype}; convert it to numbers or text.")
    return array


def vector_of(values: object, what: str) -> npt.NDArray[Any]:
    """The values as one array [N]; a single column [N, 1] counts as one."""
    array = array_of(values, what)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        hint = " (of logits, take .argmax(1))" if what.startswith("predictions") and array.ndim == 2 else ""
        raise BadInput(f"{what} has shape {array.shape}; give one entry per sample{hint}.")
    return array


def _is_missing(value: object) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # pandas' own, without importing pandas
        return True
    return isinstance(value, float | np.floating) and bool(value != value)


def _plain(value: object) -> Hashable:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer():  # 1.0 and 1 are one value; NaNs turn integers into floats
        value = int(value)
    if not isinstance(value, Hashable):
        raise BadInput(f"{value!r} cannot be a label or a group; give numbers or text.")
    return value


def _in_order(values: list[Hashable], what: str) -> list[Hashable]:
    try:
        return sorted(cast("list[Any]", values))
    except TypeError as error:
        raise BadInput(f"{what} mixes types, such as text and numbers; convert it to one type.") from error


def factorise(array: npt.NDArray[Any], what: str) -> tuple[Ints, list[Hashable]]:
    """Codes [N] into the sorted distinct values; -1 where a value is missing (None, NaN, NA)."""
    if array.dtype.kind in "biu":
        unique, inverse = np.unique(array, return_inverse=True)
        return inverse.astype(np.int64), unique.tolist()
    if array.dtype.kind == "f":
        unique, inverse = np.unique(array, return_inverse=True)  # NaNs sort last, as one
        known = [_plain(value) for value in unique[~np.isnan(unique)]]
        codes = inverse.astype(np.int64)
        return np.where(codes < len(known), codes, -1), known
    entries = [None if _is_missing(value) else _plain(value) for value in array]
    values = _in_order([value for value in dict.fromkeys(entries) if value is not None], what)
    place: dict[Hashable, int] = {value: code for code, value in enumerate(values)}
    place[None] = -1
    return np.fromiter((place[value] for value in entries), np.int64, len(entries)), values


def recode(codes: Ints, values: Sequence[Hashable], onto: Sequence[Hashable]) -> Ints:
    """Codes into `values`, as codes into `onto`, which holds them all; -1 stays."""
    place = {value: code for code, value in enumerate(onto)}
    table = np.array([*(place[value] for value in values), -1], dtype=np.int64)
    return table[codes]


def named_axis(values: Sequence[Hashable], names: Names | None, what: str) -> Axis:
    """The axis of these values; names declare all values there can be, so that absent ones keep their row."""
    if names is None:
        return Axis(tuple(values), tuple(values))
    if isinstance(names, str):
        raise BadInput(f"names of the {what}s are one string; give a list of names.")
    if isinstance(names, Mapping):
        declared, keys = tuple(names), tuple(names.values())
    elif all(isinstance(value, int) for value in values):
        declared, keys = tuple(range(len(names))), tuple(names)
    else:
        declared, keys = tuple(names), tuple(names)
    unknown = [value for value in values if value not in declared]
    if unknown:
        raise BadInput(
            f"{what} {unknown[0]!r} has no name among the {len(declared)} given; name every {what}, in the order of "
            "their codes or as a mapping from value to name."
        )
    if len(set(keys)) != len(keys):
        raise BadInput(f"two {what}s share one name; give every {what} a name of its own.")
    return Axis(declared, keys)
