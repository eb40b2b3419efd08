"""Everything that may be said about a source beyond where it is, as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from fairweight.data.corrupt import Corruption
from fairweight.data.split import Exemplar, Split
from fairweight.errors import BadInput, option

# Where each type stands in Options, for the names of its fields in sentences.
_PLACES = {"LabelOptions": "labels.", "GroupOptions": "groups.", "TableOptions": "table.", "ImageOptions": "image."}


class _Checked:
    """Refuses a value that is not one of those that its field names; types alone do not, at run time."""

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for entry in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            choices = _choices(hints[entry.name])
            value = getattr(self, entry.name)
            values = value if isinstance(value, tuple) else (value,)
            if choices and any(one not in choices for one in values):
                allowed = ", ".join(str(choice) for choice in choices if choice is not None)
                name = option(f"{_PLACES.get(type(self).__name__, '')}{entry.name}")
                raise BadInput(f"{name} is {value!r}; choose from: {allowed}.")


def _choices(hint: Any) -> tuple[Any, ...]:
    """The values that a Literal names, alone, in a tuple, or beside None; empty where it names none."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    inner = [_choices(part) for part in get_args(hint)]
    found = tuple(choice for choices in inner for choice in choices)
    return (*found, None) if found and type(None) in get_args(hint) else found


@dataclass(frozen=True)
class LabelOptions(_Checked):
    """How the label column becomes classes."""

    positive: str | None = None  # of two labels, the one that counts as 1; None: the second in order
    missing: Literal["refuse", "drop"] = "refuse"  # rows without a label
    max_classes: int | None = None  # None: 100 where labels are numbers, 1,000 otherwise


@dataclass(frozen=True)
class GroupOptions(_Checked):
    """How the sensitive columns become groups."""

    floor: int = 4  # rows per cell; four, so that train, validation, exemplar and test can each have one
    below: Literal["refuse", "merge", "drop", "keep"] = "refuse"  # what happens to groups with a smaller cell
    only: tuple[str, ...] = ()  # the groups to compare; none: all
    rest: Literal["merge", "drop"] = "merge"  # what happens to the groups that `only` leaves out
    missing: Literal["unknown", "group", "drop", "refuse"] = "unknown"  # rows without a group


@dataclass(frozen=True)
class TableOptions(_Checked):
    """How a table's columns become inputs."""

    delimiter: str | None = None  # None: comma for .csv, tab for .tsv
    encoding: str = "utf-8"
    numeric: tuple[str, ...] = ()  # read as numbers, whatever they look like
    categorical: tuple[str, ...] = ()  # read as categories, whatever they look like
    drop: tuple[str, ...] = ()  # kept out of the inputs
    keep: tuple[str, ...] = ()  # kept in the inputs although they look like an id or free text
    group_in_inputs: bool = False  # whether the model may see the sensitive columns
    drop_leaks: bool = False  # whether columns that give the label away are dropped or only named
    max_categories: int = 50  # per column; the rarer ones share one


@dataclass(frozen=True)
class ImageOptions(_Checked):
    """How images become uint8 tensors [C, H, W], and where they are kept."""

    size: int | tuple[int, int] | None = None  # (height, width) to resize to; None: all must agree
    crop: int | None = None  # side of a centred square that is cut out first
    channels: Literal[1, 3] | None = None  # None: 1 where all images are grey, otherwise 3
    file_column: str | None = None  # in a list of files: the column that names them
    root: str | None = None  # in a list of files: the folder that the names start from
    unreadable: Literal["refuse", "drop"] = "refuse"
    memory_gb: float = 8.0  # a part larger than this streams from a memory-mapped file
    reader_processes: int = 0  # that read ahead where a part streams; 0: two threads, which do as well
    cache: bool = True  # keep the decoded pixels on disk, so that the next load is quick
    cache_dir: str | None = None  # None: FAIRWEIGHT_CACHE, otherwise the user's cache folder
    workers: int | None = None  # decoding threads; None: one per core, or one where images are small


@dataclass(frozen=True)
class Options(_Checked):
    """All of it; None for split or exemplar means what suits the source."""

    labels: LabelOptions = field(default_factory=LabelOptions)
    groups: GroupOptions | None = None
    table: TableOptions = field(default_factory=TableOptions)
    image: ImageOptions | None = None
    split: Split | None = None
    exemplar: Exemplar | None = None
    corruptions: tuple[Corruption, ...] = ()
    corrupt_parts: tuple[Literal["train", "validation", "exemplar"], ...] = ("train",)  # test is never corrupted
    limit: int | None = None  # at most so many rows of each given part, stratified: for a quick look


def as_text(name: object) -> str:
    """A column's name as text; names that are text stay as they are."""
    return name if isinstance(name, str) else str(name)


def named_by_text(options: Options) -> Options:
    """The same with every column that it names called by text."""
    table, split, image = options.table, options.split, options.image
    table = replace(
        table,
        numeric=_texts(table.numeric),
        categorical=_texts(table.categorical),
        drop=_texts(table.drop),
        keep=_texts(table.keep),
    )
    if split is not None and split.column is not None:
        split = replace(split, column=as_text(split.column))
    if image is not None and image.file_column is not None:
        image = replace(image, file_column=as_text(image.file_column))
    return replace(options, table=table, split=split, image=image)


def _texts(names: Iterable[object]) -> tuple[str, ...]:
    return tuple(as_text(name) for name in names)
