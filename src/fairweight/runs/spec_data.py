"""Read the data of a Spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

from fairweight.data import Dataset, Options, load
from fairweight.data.corrupt import parse as corruption_from
from fairweight.errors import BadInput
from fairweight.runs.other_runs import chosen
from fairweight.runs.spec import Spec


def options_from(values: Mapping[str, Any]) -> Options:
    """Options of data.load from plain values, such as a JSON file holds; corruptions are written on one line each."""
    corruptions = tuple(corruption_from(item) for item in values.get("corruptions", ()))
    made: Options = _filled(Options, {key: value for key, value in values.items() if key != "corruptions"}, "data")
    return replace(made, corruptions=corruptions)


def _filled(kind: Any, values: Mapping[str, Any], where: str) -> Any:
    hints, given = get_type_hints(kind), {}
    for key, value in values.items():
        if key not in hints:
            raise BadInput(f"{where} has no option {key!r}; it has: {', '.join(hints)}.")
        inner = next((t for t in (hints[key], *get_args(hints[key])) if is_dataclass(t)), None)
        if inner is not None and value is not None:
            if not isinstance(value, Mapping):
                raise BadInput(f"{where}.{key} is {value!r}; give its options by name.")
            value = _filled(inner, value, f"{where}.{key}")
        given[key] = tuple(value) if isinstance(value, list) else value
    try:
        return kind(**given)
    except TypeError as error:  # a value of another kind
        raise BadInput(f"{where} cannot be read ({error}); give values of the kind that it takes.") from error


def files_named(spec: Spec) -> list[str]:
    """The source, and every file that the options of the data name beside it."""
    split, exemplar = (dict(spec.data.get(key) or {}) for key in ("split", "exemplar"))
    others = [split.get("test"), split.get("validation"), exemplar.get("source")]
    known = ("train", "validation")
    return [spec.source, *(name for name in others if isinstance(name, str) and name not in known)]


def dataset_for(
    spec: Spec, data_dir: str | Path | None = None, download: bool = False, *, beside: Path | None = None
) -> Dataset:
    """Read and split the Spec's data; beside: where the runs lie that its rows are chosen from, if any are."""
    asked: dict[str, Any] = {"label": spec.label, "group": spec.group, "options": options_from(spec.data)}
    dataset = load(spec.source, data_dir=data_dir, download=download, seed=spec.drawing_seed, **asked)
    return chosen(dataset, spec, beside) if spec.rows else dataset
