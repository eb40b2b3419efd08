"""Labels, predictions and groups of the same samples, as codes."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from fairweight.errors import BadInput, MissingGroups
from fairweight.metrics._columns import Axis, Ints, Names, array_of, factorise, named_axis, recode, vector_of

MISSING = "(missing)"  # the name of the group of samples whose group is missing
MOST_GROUPS = 10_000  # beyond it, crossed attributes tell samples apart rather than groups


@dataclass(frozen=True)
class Attribute:
    """One sensitive attribute: a code per sample, -1 where it is missing."""

    name: str
    codes: Ints  # [N]
    axis: Axis


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

    def label_values(self) -> npt.NDArray[Any]:
        """The distinct labels as they were given, for metrics that want them."""
        return np.asarray(self.label_axis.values)


def coded_samples(
    labels: object,
    predictions: object,
    groups: object,
    *,
    positive: Hashable | None,
    missing: str,
    label_names: Names | None,
    group_names: Names | Mapping[str, Names] | None,
) -> CodedSamples:
    """Check the columns against each other and code them."""
    if missing not in ("error", "ignore", "group"):
        raise BadInput(f"missing is {missing!r}; choose 'error', 'ignore' or 'group'.")
    truth, said, axis = _label_columns(labels, predictions, label_names)
    if groups is None:
        if positive is not None or group_names is not None:
            raise BadInput("positive and group_names speak of groups; give groups, or leave them out.")
        return CodedSamples(truth, said, None, axis, axis, ("label",), 0, None)
    axis, target = _positive(axis, positive, declared=label_names is not None)
    codes, group_axis, attributes = _group_column(groups, len(truth), missing, group_names)
    known = codes >= 0
    if not known.any():
        raise MissingGroups("the group of every sample is missing; give groups, or groups=None to compare the labels.")
    n_missing = int(len(known) - known.sum())
    if n_missing:
        truth, said, codes = truth[known], said[known], codes[known]
    return CodedSamples(truth, said, codes, axis, group_axis, attributes, n_missing, target)


def _label_columns(labels: object, predictions: object, names: Names | None) -> tuple[Ints, Ints, Axis]:
    columns = []
    for what, given in (("labels", labels), ("predictions", predictions)):
        array = vector_of(given, what)
        if len(array) == 0:
            raise BadInput(f"{what} is empty; give at least one sample.")
        if array.dtype.kind == "f" and bool(np.any(np.floor(array) != array) and not np.isnan(array).any()):
            raise BadInput(f"{what} holds fractions; give classes (of probabilities, take a threshold or the argmax).")
        codes, values = factorise(array, what)
        absent = int((codes < 0).sum())
        if absent:
            raise BadInput(f"{absent} of {len(codes)} {what} are missing; drop or fill them first.")
        columns.append((codes, values))
    (truth, known), (said, claimed) = columns
    if len(truth) != len(said):
        raise BadInput(f"{len(truth)} labels but {len(said)} predictions; give one of each per sample.")
    if isinstance(known[0], str) != isinstance(claimed[0], str):
        raise BadInput(
            f"labels such as {known[0]!r} and predictions such as {claimed[0]!r} are not of one type; "
            "give both as text or both as numbers."
        )
    union = sorted(dict.fromkeys([*known, *claimed]), key=lambda value: cast(Any, value))
    axis = named_axis(union, names, "label")
    return recode(truth, known, axis.values), recode(said, claimed, axis.values), axis


def _positive(axis: Axis, wanted: Hashable | None, *, declared: bool) -> tuple[Axis, int | None]:
    """The axis and the code of the positive label; None where more than two labels are compared one by one."""
    if len(axis) == 1 and not declared:  # the label that did not occur is still the other one
        (only,) = axis.values
        other = wanted if wanted is not None else {0: 1, -1: 1}.get(cast(Any, only), only)
        if other != only:
            pair = tuple(sorted((only, type(cast(Any, only))(other)), key=lambda value: cast(Any, value)))
            axis = Axis(pair, pair)
    if wanted is not None:
        return axis, axis.position(wanted, "label")
    if len(axis) > 2:
        return axis, None
    return axis, axis.values.index(1) if 1 in axis.values else len(axis) - 1


def _group_column(
    groups: object, length: int, missing: str, names: Names | Mapping[str, Names] | None
) -> tuple[Ints, Axis, tuple[str, ...]]:
    columns = _attribute_columns(groups)
    attributes = []
    for name, column in columns.items():
        given = _names_of(name, names, several=len(columns) > 1)
        attributes.append(_attribute(name, column, length, missing, given))
    titles = tuple(attribute.name for attribute in attributes)
    if len(attributes) == 1:
        return attributes[0].codes, attributes[0].axis, titles
    return (*_crossed(attributes), titles)


def _names_of(attribute: str, names: Names | Mapping[str, Names] | None, *, several: bool) -> Names | None:
    """The names of one attribute's values: under its own name, or all that are given where it is the only one."""
    if names is None:
        return None
    if isinstance(names, Mapping) and isinstance(names.get(attribute), Sequence | Mapping):
        found = names[attribute]
        if not isinstance(found, str):
            return found
    if not several:
        return cast("Names", names)
    if not isinstance(names, Mapping):
        raise BadInput("several attributes need group_names as a mapping from attribute to the names of its values.")
    return None


def _attribute_columns(groups: object) -> dict[str, object]:
    """Every attribute by its name: one for a vector, several for a mapping, a data frame or an array [N, A]."""
    if isinstance(groups, Mapping):
        columns = {str(name): column for name, column in groups.items()}
    elif hasattr(groups, "columns"):  # a data frame
        frame = cast(Any, groups)
        columns = {str(name): frame[name] for name in frame.columns}
        if len(columns) != len(frame.columns):
            raise BadInput("two columns of groups share one name; rename one of them.")
    else:
        array = array_of(groups, "groups")
        if array.ndim != 2:
            return {str(getattr(groups, "name", None) or "group"): groups}
        columns = {f"attribute {place + 1}": array[:, place] for place in range(array.shape[1])}
        if len(columns) == 1:
            return {"group": array[:, 0]}
    if not columns:
        raise BadInput("groups holds no attribute; give one vector per attribute, or groups=None.")
    return columns


def _attribute(name: str, column: object, length: int, missing: str, names: Names | None) -> Attribute:
    what = f"groups ({name})"
    array = vector_of(column, what)
    if len(array) != length:
        raise BadInput(f"{what} has {len(array)} entries for {length} samples; give one per sample.")
    codes, values = factorise(array, what)
    if -1 in values:  # the code of a group that is not known, as in Batch
        codes, values = _without(codes, values, values.index(-1))
    absent = int((codes < 0).sum())
    axis = named_axis(values, names, "group")
    codes = recode(codes, values, axis.values)
    if absent and missing == "error":
        raise MissingGroups(
            f"{absent} of {length} samples have no {name}; pass missing='ignore' to leave them out, "
            "or missing='group' to count them as a group of their own."
        )
    if absent and missing == "group":
        codes = np.where(codes < 0, len(axis), codes)
        axis = Axis((*axis.values, MISSING), (*axis.keys, MISSING))
        if len(set(axis.keys)) != len(axis):
            raise BadInput(f"a group is called {MISSING!r} already; rename it, or leave out missing='group'.")
    return Attribute(name, codes, axis)


def _without(codes: Ints, values: list[Hashable], place: int) -> tuple[Ints, list[Hashable]]:
    table = np.arange(len(values)) - (np.arange(len(values)) > place)
    table[place] = -1
    return np.where(codes < 0, -1, table[codes]).astype(np.int64), values[:place] + values[place + 1 :]


def _crossed(attributes: list[Attribute]) -> tuple[Ints, Axis]:
    """Every combination of the attributes' values; those that nobody has keep their row."""
    size = math.prod(len(attribute.axis) for attribute in attributes)
    if size > MOST_GROUPS:
        raise BadInput(f"the attributes cross to {size} groups; merge values or cross fewer attributes.")
    codes = np.zeros(len(attributes[0].codes), dtype=np.int64)
    absent = np.zeros(len(codes), dtype=bool)
    for attribute in attributes:
        codes = codes * len(attribute.axis) + attribute.codes
        absent |= attribute.codes < 0
    values = tuple(product(*(attribute.axis.values for attribute in attributes)))
    keys = tuple(product(*(attribute.axis.keys for attribute in attributes)))
    return np.where(absent, -1, codes), Axis(values, keys)
