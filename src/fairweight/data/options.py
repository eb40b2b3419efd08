"""The options of a source: how labels, groups, tables, images, parts and exemplars are read and made."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from fairweight.data.corrupt import Corruption
from fairweight.data.files import MAX_FILE_GB
from fairweight.errors import BadInput, option


class _Checked:
    """Refuses values that the fields do not allow: Python does not check types at run time."""

    _place = ""  # where the type stands in Options, for the names of its fields in sentences
    _least_1: ClassVar[tuple[str, ...]] = ()  # fields of at least 1, or None
    _above_0: ClassVar[tuple[str, ...]] = ()
    _columns: ClassVar[tuple[str, ...]] = ()  # names of columns, which a frame may call by other than text

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for entry in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            name, value = entry.name, getattr(self, entry.name)
            if name in self._columns and value is not None:
                text = tuple(map(str, value)) if isinstance(value, tuple | list) else str(value)
                object.__setattr__(self, name, text)
            choices = _choices(hints[name])
            values = value if isinstance(value, tuple) else (value,)
            given = f"{option(self._place + name)} is {value!r}"
            if choices and any(v not in choices for v in values):
                allowed = ", ".join(str(choice) for choice in choices if choice is not None)
                raise BadInput(f"{given}; choose from: {allowed}.")
            if name in self._least_1 and value is not None and not value >= 1:
                raise BadInput(f"{given}; give at least 1.")
            if name in self._above_0 and not value > 0:
                raise BadInput(f"{given}; give a number above 0.")


def _choices(hint: Any) -> tuple[Any, ...]:
    """List the values that a Literal names, alone, in a tuple, or beside None; empty where it names none."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    choices = tuple(choice for part in get_args(hint) for choice in _choices(part))
    return (*choices, None) if choices and type(None) in get_args(hint) else choices


@dataclass(frozen=True)
class LabelOptions(_Checked):
    """How the label column becomes classes."""

    _place = "labels."
    positive: str | None = None  # of two labels, the one that counts as 1; None: the second in order
    missing: Literal["refuse", "drop"] = "refuse"  # rows without a label
    max_classes: int | None = None  # None: 100 where labels are numbers, 1,000 otherwise


@dataclass(frozen=True)
class GroupOptions(_Checked):
    """How the sensitive columns become groups."""

    _place, _least_1 = "groups.", ("floor",)
    floor: int = 4  # rows per cell; four, so that train, validation, exemplar and test can each have one
    below: Literal["refuse", "merge", "drop", "keep"] = "refuse"  # what happens to groups with a smaller cell
    only: tuple[str, ...] = ()  # the groups to compare; none: all
    rest: Literal["merge", "drop"] = "merge"  # what happens to the groups that `only` leaves out
    missing: Literal["unknown", "group", "drop", "refuse"] = "unknown"  # rows without a group


@dataclass(frozen=True)
class TableOptions(_Checked):
    """How a table's columns become inputs."""

    _place, _least_1, _columns = "table.", ("max_categories",), ("numeric", "categorical", "drop", "keep")
    delimiter: str | None = None  # None: comma for .csv, tab for .tsv, or what parts the header
    encoding: str = "utf-8"
    numeric: tuple[str, ...] = ()  # read as numbers, whatever they look like
    categorical: tuple[str, ...] = ()  # read as categories, whatever they look like
    drop: tuple[str, ...] = ()  # kept out of the inputs
    keep: tuple[str, ...] = ()  # kept in the inputs although they look like an id or free text
    group_in_inputs: bool = False  # whether the model may see the sensitive columns
    drop_leaks: bool = False  # whether columns that give the label away are dropped or only named
    max_categories: int = 50  # per column; rarer ones share one input
    decimal: str | None = None  # "." or ",": what stands before the fraction of a number; None: by looking
    thousands: str | None = None  # ",", ".", " " or "'": what parts groups of three digits; None: the other one

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, marks in (("decimal", ".,"), ("thousands", ",. '")):
            value = getattr(self, name)
            if value is not None and (len(value) != 1 or value not in marks):
                raise BadInput(f"{option('table.' + name)} is {value!r}; give {' or '.join(map(repr, marks))}.")
        if self.thousands is not None and self.thousands == self.decimal:
            both = f"{option('table.decimal')} and {option('table.thousands')}"
            raise BadInput(f"{both} are both {self.decimal!r}; give two different marks.")
        if self.thousands in (" ", "'") and self.decimal is None:
            raise BadInput(f"{option('table.thousands')} is {self.thousands!r}; give {option('table.decimal')}, too.")


@dataclass(frozen=True)
class ImageOptions(_Checked):
    """How images become uint8 tensors [C, H, W], and where they are kept."""

    _place, _above_0, _columns = "image.", ("memory_gb", "max_megapixels"), ("file_column",)
    size: int | tuple[int, int] | None = None  # (height, width) to resize to; None: all must agree
    crop: int | None = None  # side of a centred square that is cut out first
    channels: Literal[1, 3] | None = None  # None: 1 where all images are grey, otherwise 3
    file_column: str | None = None  # in a list of files: the column that names them
    root: str | None = None  # in a list of files: the folder that the names start from
    unreadable: Literal["refuse", "drop"] = "refuse"
    memory_gb: float = 8.0  # a part larger than this streams from a memory-mapped file
    cache: bool = True  # keep the decoded pixels on disk, so that the next load is quick
    cache_dir: str | None = None  # None: FAIRWEIGHT_CACHE, otherwise the user's cache folder
    workers: int | None = None  # decoding threads; None: one per core, or one where images are small
    max_megapixels: float = 50.0  # of an image; a larger one is not decoded


@dataclass(frozen=True)
class Split(_Checked):
    """Where validation and test rows come from, when the source does not say."""

    _place, _columns = "split.", ("column",)
    test: float | str | None = None  # share of all rows, or a file; None: 0.2 where the source has no test rows
    validation: float | str | None = None  # share of all rows, or a file; 0: none; None: 0.1 where it has none
    column: str | None = None  # a column that names each row's part; with validation 0, those rows are trained on

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("test", "validation"):
            value = getattr(self, name)
            if isinstance(value, int | float) and not 0.0 <= value < 1.0:
                raise BadInput(f"{option(f'split.{name}')} is {value}; give a share from 0 to below 1, or a file.")
        settled = self.settled()
        if sum(value for value in (settled.test, settled.validation) if isinstance(value, int | float)) >= 1.0:
            both = f"{option('split.test')} and {option('split.validation')}"
            raise BadInput(f"{both} leave no rows for training; make their sum less than 1.")

    def settled(self) -> Split:
        """Fill in the usual shares where none was named."""
        if None not in (self.test, self.validation):
            return self
        test, validation = 0.2 if self.test is None else self.test, 0.1 if self.validation is None else self.validation
        return replace(self, test=test, validation=validation)


@dataclass(frozen=True)
class Exemplar(_Checked):
    """Where the exemplar set comes from, and how large it is."""

    _place, _least_1 = "exemplar.", ("size",)
    source: str = "train"  # "train", "validation", or a file
    inside: bool = False  # whether rows drawn from train also stay in it
    per: Literal["cell", "class"] = "cell"
    size: int | None = None  # per cell or class; None: a tenth of train in even parts, at most a fifth of any


@dataclass(frozen=True)
class Options(_Checked):
    """All options; None for groups, image, split or exemplar means the default of the source."""

    _least_1, _above_0 = ("limit",), ("max_file_gb",)
    labels: LabelOptions = field(default_factory=LabelOptions)
    groups: GroupOptions | None = None
    table: TableOptions = field(default_factory=TableOptions)
    image: ImageOptions | None = None
    split: Split | None = None
    exemplar: Exemplar | None = None
    corruptions: tuple[Corruption, ...] = ()
    corrupt_parts: tuple[Literal["train", "validation", "exemplar"], ...] = ("train",)  # test is never corrupted
    limit: int | None = None  # at most so many rows of each given part, stratified: for a quick look
    max_file_gb: float = MAX_FILE_GB  # of a file, unpacked; a larger one is not read
