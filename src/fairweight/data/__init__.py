"""Where samples come from: a named set, a table, images or a frame becomes a Dataset, with every choice on record.

    dataset = load("adult")
    dataset = load("people.csv", label="income", group="sex,race")
    dataset = load("faces/", label="label", options=Options(image=ImageOptions(size=64)))

A named set is one file in `data/sets` with one public class; the catalog finds it by its file name.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from torch import Tensor

from fairweight.data._assemble import assemble, fingerprint
from fairweight.data._found import Found, NamedSet, Request
from fairweight.data._meaning import New
from fairweight.data._sources import find, named_set
from fairweight.data.augment import Chain, Flip, Shift
from fairweight.data.image import ImagePreprocessing, Streamed
from fairweight.data.locate import folders
from fairweight.data.normalize import Normalize
from fairweight.data.options import (
    GroupOptions,
    ImageOptions,
    LabelOptions,
    Options,
    TableOptions,
    as_text,
    named_by_text,
)
from fairweight.data.split import Exemplar, Split
from fairweight.data.table import TablePreprocessing
from fairweight.errors import BadInput
from fairweight.types import Batch

if TYPE_CHECKING:
    import pandas as pd

Preprocessing: TypeAlias = TablePreprocessing | ImagePreprocessing
Part: TypeAlias = Batch | Streamed  # both are Samples


@dataclass(frozen=True)
class Dataset:
    """Samples for training, selection, exemplars and test, and what they mean.

    A sample's row in train counts from 0 within train, as scores do; `rows` says where it stands in the source.
    """

    name: str
    kind: str  # "table" or "image"
    train: Part
    validation: Part | None
    exemplar: Part
    test: Part
    label_names: tuple[str, ...]
    group_names: tuple[str, ...]  # empty: the label stands for the group
    preprocessing: Preprocessing  # fixed on train rows; goes to JSON and back
    rows: Mapping[str, Tensor]  # by part: [N] each sample's row in the source, header not counted
    true_labels: Tensor | None  # [N] of train, where a corruption was applied
    notes: tuple[str, ...]  # what was found and done, as sentences
    spec: Mapping[str, Any]  # what determines all of it, as plain values

    @property
    def warnings(self) -> tuple[str, ...]:
        """The notes that somebody should act on."""
        return tuple(note for note in self.notes if note.startswith("Warning: "))

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample: (features,) or (channels, height, width)."""
        return self.preprocessing.input_shape

    @property
    def fingerprint(self) -> str:
        """A short name for what determines this data."""
        return fingerprint(self.spec)


def load(
    source: str | Path | pd.DataFrame,
    *,
    label: Hashable | None = None,
    group: Hashable | Sequence[Hashable] | None = None,
    data_dir: str | Path | None = None,
    download: bool = False,
    seed: int = 0,
    options: Options | None = None,
) -> Dataset:
    """A Dataset from a named set, a path or glob, a folder of images, or a frame.

    label: a column, or a question to one, such as "age>=30"; a named set has its usual one.
    group: a column or several ("sex,race"), crossed; "" or "none" for no group.
    Columns of a frame that are not called by text, such as 13, are known by their names' text, here and in options.
    """
    chosen = named_by_text(options if options is not None else Options())
    request = Request(
        None if label is None else as_text(label), _columns(group), folders(data_dir), download, seed, chosen
    )
    found = find(source, request)
    made = assemble(found, request)
    return Dataset(
        name=found.name,
        kind=found.kind,
        train=made.parts["train"],
        validation=made.parts.get("validation"),
        exemplar=made.parts["exemplar"],
        test=made.parts["test"],
        label_names=made.meaning.label_names,
        group_names=made.meaning.group_names,
        preprocessing=made.preprocessing,
        rows=made.rows,
        true_labels=made.true_labels,
        notes=made.notes,
        spec=made.spec,
    )


def preprocessing_from(values: Mapping[str, Any]) -> Preprocessing:
    """The preprocessing that to_dict described, as read back from JSON."""
    kinds: dict[str, Any] = {"table": TablePreprocessing, "image": ImagePreprocessing}
    if values.get("kind") not in kinds:
        raise BadInput(f"no preprocessing is of the kind {values.get('kind')!r}; it was written by another version.")
    made: Preprocessing = kinds[values["kind"]].from_dict(dict(values))
    return made


def _columns(group: Hashable | Sequence[Hashable] | None) -> tuple[str, ...] | None:
    if group is None:
        return None
    if isinstance(group, str):
        return () if group.strip().lower() in ("", "none") else tuple(name.strip() for name in group.split(","))
    return tuple(as_text(name) for name in group) if isinstance(group, Iterable) else (as_text(group),)


__all__ = [
    "Chain", "Dataset", "Exemplar", "Flip", "Found", "GroupOptions", "ImageOptions", "ImagePreprocessing",
    "LabelOptions", "NamedSet", "New", "Normalize", "Options", "Part", "Preprocessing", "Request", "Shift", "Split",
    "Streamed", "TableOptions", "TablePreprocessing", "load", "named_set", "preprocessing_from",
]  # fmt: skip
