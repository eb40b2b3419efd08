"""The data of a Spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from fairweight.data import Dataset, Options, load
from fairweight.data.corrupt import parse as corruption_from
from fairweight.errors import BadInput
from fairweight.runs.chosen_rows import chosen
from fairweight.runs.spec import Spec


def options_from(values: Mapping[str, Any]) -> Options:
    """Options of data.load from plain values, such as a JSON file holds; corruptions are written on one line each."""
    rest = dict(values)
    corruptions = tuple(corruption_from(item) for item in rest.pop("corruptions", ()))
    made = _filled(Options, rest, "data")
    assert isinstance(made, Options)
    return Options(**{**{f.name: getattr(made, f.name) for f in fields(made)}, "corruptions": corruptions})


def _filled(kind: type, values: Mapping[str, Any], where: str) -> Any:
    hints = get_type_hints(kind)
    given = {}
    for key, value in values.items():
        if key not in hints:
            raise BadInput(f"{where} has no option {key!r}; it has: {', '.join(hints)}.")
        inner = next((t for t in (hints[key], *get_args(hints[key])) if is_dataclass(t)), None)
        if inner is not None and isinstance(value, Mapping):
            assert isinstance(inner, type)
            value = _filled(inner, value, f"{where}.{key}")
        elif isinstance(value, list):
            value = tuple(value)
        given[key] = value
    return kind(**given)


def dataset_for(
    spec: Spec, data_dir: str | Path | None = None, download: bool = False, *, beside: Path | None = None
) -> Dataset:
    """The Spec's data, read and split; beside: where the runs lie that its rows are chosen from, if any are."""
    dataset = load(
        spec.source,
        label=spec.label,
        group=spec.group,
        data_dir=data_dir,
        download=download,
        seed=spec.seed if spec.data_seed is None else spec.data_seed,
        options=options_from(spec.data),
    )
    return chosen(dataset, spec, beside) if spec.rows else dataset
