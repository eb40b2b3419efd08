"""Labels, predictions and groups of the same samples, as integer codes with the values they stand for."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from fairweight.constraints import check, one_of
from fairweight.errors import BadInput, MissingGroups

Ints: TypeAlias = npt.NDArray[np.int64]
Names: TypeAlias = "Sequence[str] | Mapping[Any, str]"
Axis: TypeAlias = "dict[Hashable, Hashable]"  # the distinct values of a column, in order of their codes, by name
MISSING = "(missing)"  # name of the group of samples whose group is missing
MOST_GROUPS = 10_000  # beyond it, crossed attributes tell samples apart rather than groups


@dataclass(frozen=True)
class CodedSamples:
    """What every metric is computed from; groups is None where the label is the group."""

    labels: Ints  # [N]
    predictions: Ints  # [N]
    groups: Ints | None  # [N]
    label_axis: Axis
    group_axis: Axis  # of tuples, where attributes are crossed
    attributes: tuple[str, ...]
    n_missing: int  # left out, because their group is missing
    positive: int | None  # code of the positive label, where one label is compared with the rest

    @property
    def rows(self) -> Ints:
        """The table's row of each sample [N]."""
        return self.labels if self.groups is None else self.groups


def coded_samples(
    labels: object,
    predictions: object,
    groups: object,
    positive: Hashable | None,
    missing: str,
    label_names: Names | None,
    group_names: Names | Mapping[str, Names] | None,
) -> CodedSamples:
    """Check the columns against each other and code them."""
    check("group_table", {"missing": missing}, {"missing": one_of("error", "ignore", "group")})
    truth, predicted, axis = _label_columns(labels, predictions, label_names)
    if groups is None:
        if positive is not None or group_names is not None:
            raise BadInput("positive and group_names speak of groups; give groups, or leave them out.")
        return CodedSamples(truth, predicted, None, axis, axis, ("label",), 0, None)
    axis, target = _positive(axis, positive, declared=label_names is not None)
    columns = _attribute_columns(groups)
    codes, group_axis = _crossed([
        _attribute(name, column, len(truth), missing, _names_of(name, group_names, several=len(columns) > 1))
        for name, column in columns.items()
    ])  # fmt: skip
    known = codes >= 0
    if not known.any():
        raise MissingGroups("the group of every sample is missing; give groups, or groups=None to compare the labels.")
    rows = truth[known], predicted[known], codes[known]
    return CodedSamples(*rows, axis, group_axis, tuple(columns), int((~known).sum()), target)


def _array(values: object, what: str) -> npt.NDArray[Any]:
    """The values as an array of numbers, bools or objects; numbers and missing values never become text."""
    if hasattr(values, "detach"):  # a torch tensor, without importing torch
        tensor = cast(Any, values).detach().cpu()
        return cast("npt.NDArray[Any]", (tensor.double() if tensor.is_floating_point() else tensor).numpy())
    try:
        array = np.asarray(cast(Any, values).to_numpy() if hasattr(values, "to_numpy") else values)
        if array.dtype.kind in "US":  # ["F", nan] must not become "nan"
            array = np.asarray(values, dtype=object)
    except ValueError as error:
        raise BadInput(f"{what} is ragged; give one entry per sample.") from error
    if array.dtype.kind not in "biufO":
        raise BadInput(f"{what} is of type {array.dtype}; convert it to numbers or text.")
    return array


def _vector(values: object, what: str) -> npt.NDArray[Any]:
    """The values as one array [N]; a single column [N, 1] counts as one."""
    array = _array(values, what)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        hint = " (of logits, take .argmax(1))" if what == "predictions" and array.ndim == 2 else ""
        raise BadInput(f"{what} has shape {array.shape}; give one entry per sample{hint}.")
    return array


def _factorise(array: npt.NDArray[Any], what: str) -> tuple[Ints, list[Hashable]]:
    """Codes [N] into the sorted distinct values; -1 where a value is missing (None, NaN, NA)."""
    import pandas as pd

    try:
        codes, distinct = pd.factorize(array)
    except TypeError as error:
        raise BadInput(f"{what} holds lists or the like; give numbers or text.") from error
    values = [_plain(value) for value in distinct]
    try:
        order = sorted(range(len(values)), key=cast(Any, values.__getitem__))
    except TypeError as error:
        raise BadInput(f"{what} mixes types, such as text and numbers; convert it to one type.") from error
    place = np.append(np.argsort(order), -1).astype(np.int64)  # the last: of what is missing
    return place[codes], [values[k] for k in order]


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    # 1.0 and 1 are one value; NaNs turn integers into floats
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _recode(codes: Ints, values: Sequence[Hashable], axis: Axis) -> Ints:
    """Turn codes into `values` into codes into the axis; -1 for values that the axis lacks."""
    place = {value: code for code, value in enumerate(axis)}
    return np.array([*(place.get(value, -1) for value in values), -1], dtype=np.int64)[codes]


def _named_axis(values: Sequence[Hashable], names: Names | None, what: str) -> Axis:
    """The axis of these values; names declare all possible values, so that absent ones keep their row."""
    if isinstance(names, str):
        raise BadInput(f"names of the {what}s are one string; give a list of names.")
    if isinstance(names, Mapping):
        axis: Axis = dict(names)
    elif names is not None and all(isinstance(value, int) for value in values):
        axis = dict(enumerate(names))
    else:
        axis = {value: value for value in (values if names is None else names)}
    if unknown := [value for value in values if value not in axis]:
        raise BadInput(
            f"{what} {unknown[0]!r} has no name among the {len(axis)} given; name every {what}, in the order of "
            "their codes or as a mapping from value to name."
        )
    if names is not None and len(set(axis.values())) != len(names):
        raise BadInput(f"two {what}s share one name; give every {what} a name of its own.")
    return axis


def position(axis: Axis, key: Hashable, what: str) -> int:
    """The code of a name, or else of a value."""
    for keys in (list(axis.values()), list(axis)):
        if key in keys:
            return keys.index(key)
    choices = ", ".join(repr(name) for name in list(axis.values())[:20])
    raise BadInput(f"{key!r} is not a {what} of this table; choose from: {choices}.")


def _label_columns(labels: object, predictions: object, names: Names | None) -> tuple[Ints, Ints, Axis]:
    """Codes of labels and predictions into one axis."""
    columns = []
    for what, column in (("labels", labels), ("predictions", predictions)):
        array = _vector(column, what)
        if len(array) == 0:
            raise BadInput(f"{what} is empty; give at least one sample.")
        if array.dtype.kind == "f" and bool(np.any(np.floor(array) != array) and not np.isnan(array).any()):
            raise BadInput(f"{what} holds fractions; give classes (of probabilities, take a threshold or the argmax).")
        codes, values = _factorise(array, what)
        if absent := int((codes < 0).sum()):
            raise BadInput(f"{absent} of {len(codes)} {what} are missing; drop or fill them first.")
        if bad := [value for value in values if isinstance(value, int) and value < 0 and set(values) - {-1, 1}]:
            raise BadInput(f"{what} holds {bad[0]}, which is no class; drop those samples, or number classes from 0.")
        columns.append((codes, values))
    (truth, label_values), (predicted, other_values) = columns
    if len(truth) != len(predicted):
        raise BadInput(f"{len(truth)} labels but {len(predicted)} predictions; give one of each per sample.")
    if isinstance(label_values[0], str) != isinstance(other_values[0], str):
        raise BadInput(
            f"labels such as {label_values[0]!r} and predictions such as {other_values[0]!r} are not of one type; "
            "give both as text or both as numbers."
        )
    axis = _named_axis(sorted(cast(Any, {*label_values, *other_values})), names, "label")
    return _recode(truth, label_values, axis), _recode(predicted, other_values, axis), axis


def _positive(axis: Axis, positive: Hashable | None, *, declared: bool) -> tuple[Axis, int | None]:
    """The axis and the code of the positive label; None where more than two labels are compared one by one."""
    if len(axis) == 1 and not declared:  # the label that did not occur is still the other one
        [only] = cast(Any, axis)
        other = positive if positive is not None else {0: 1, -1: 1}.get(only, only)
        if other != only:
            axis = {value: value for value in sorted((only, type(only)(other)))}
    if positive is not None:
        return axis, position(axis, positive, "label")
    if len(axis) > 2:
        return axis, None
    return axis, list(axis).index(1) if 1 in axis else len(axis) - 1


def _names_of(attribute: str, names: Names | Mapping[str, Names] | None, *, several: bool) -> Names | None:
    """Names of one attribute's values: those under its own name, or all that are given where it is the only one."""
    under_attribute = names.get(attribute) if isinstance(names, Mapping) else None
    if under_attribute is not None and not isinstance(under_attribute, str):
        return under_attribute
    if not several or names is None:
        return cast("Names | None", names)
    if not isinstance(names, Mapping):
        raise BadInput("several attributes need group_names as a mapping from attribute to the names of its values.")
    return None


def _attribute_columns(groups: object) -> dict[str, object]:
    """Columns by attribute: one for a vector, several for a mapping, a data frame or an array [N, A]."""
    if isinstance(groups, Mapping) or hasattr(groups, "columns"):
        names = list(getattr(groups, "columns", cast(Any, groups)))
        columns = {str(name): cast(Any, groups)[name] for name in names}
        if len(columns) != len(names):
            raise BadInput("two columns of groups share one name; rename one of them.")
    else:
        array = _array(groups, "groups")
        if array.ndim != 2 or array.shape[1] == 1:
            return {str(getattr(groups, "name", None) or "group"): groups}
        columns = {f"attribute {place + 1}": array[:, place] for place in range(array.shape[1])}
    if not columns:
        raise BadInput("groups holds no attribute; give one vector per attribute, or groups=None.")
    return columns


def _attribute(name: str, column: object, length: int, missing: str, names: Names | None) -> tuple[Ints, Axis]:
    what = f"groups ({name})"
    array = _vector(column, what)
    if len(array) != length:
        raise BadInput(f"{what} has {len(array)} entries for {length} samples; give one per sample.")
    codes, distinct = _factorise(array, what)
    values = [value for value in distinct if value != -1]  # -1: not known, as in Batch
    if bad := [value for value in values if isinstance(value, int) and value < -1]:
        raise BadInput(
            f"{what} holds {bad[0]}, which is no group; number groups from 0, with -1 where it is not known."
        )
    axis = _named_axis(values, names, "group")
    codes = _recode(codes, [None if value == -1 else value for value in distinct], axis)
    absent = int((codes < 0).sum())
    if absent and missing == "error":
        raise MissingGroups(
            f"{absent} of {length} samples have no {name}; pass missing='ignore' to leave them out, "
            "or missing='group' to count them as a group of their own."
        )
    if absent and missing == "group":
        if MISSING in {*axis, *axis.values()}:
            raise BadInput(f"a group is called {MISSING!r} already; rename it, or leave out missing='group'.")
        codes = np.where(codes < 0, len(axis), codes)
        axis = axis | {MISSING: MISSING}
    return codes, axis


def _crossed(attributes: list[tuple[Ints, Axis]]) -> tuple[Ints, Axis]:
    """Cross the attributes' values; combinations without samples keep their row."""
    if len(attributes) == 1:
        return attributes[0]
    crossed, _ = attributes[0]
    size = math.prod(len(axis) for _, axis in attributes)
    if size > MOST_GROUPS:
        raise BadInput(f"the attributes cross to {size} groups; merge values or cross fewer attributes.")
    for codes, axis in attributes[1:]:
        crossed = np.where((crossed < 0) | (codes < 0), -1, crossed * len(axis) + codes)
    axes = [axis for _, axis in attributes]
    return crossed, dict(zip(product(*axes), product(*(axis.values() for axis in axes)), strict=True))
