"""A data set, and the line that every source takes to become one: classes and groups, parts, corruption, inputs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from fairweight.data.corrupt import corrupt_parts, to_dict
from fairweight.data.draw import by_stratum, proportional, stream
from fairweight.data.files import bounded
from fairweight.data.groups import apply_floor, encode_groups
from fairweight.data.image.preprocessing import ImagePreprocessing, image_samples
from fairweight.data.image.stream import Streamed
from fairweight.data.labels import check_positive, encode_labels
from fairweight.data.meaning import Meaning
from fairweight.data.options import ImageOptions, Options
from fairweight.data.parts import Marked
from fairweight.data.rows import OUT, Encoded, source_column, spans
from fairweight.data.source import Found, Request, find, folders
from fairweight.data.split import by_column, divide
from fairweight.data.table.preprocessing import TablePreprocessing, table_samples
from fairweight.data.texts import listing
from fairweight.errors import BadInput, UnreadableImage, first_line, option, printable
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
    files: tuple[str, ...] = ()  # of train, where samples are image files: each one's name within its folder

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
        return hashlib.sha256(json.dumps(self.spec, sort_keys=True).encode()).hexdigest()[:16]


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
    """Load a Dataset from a named set, a path or glob, a folder of images, or a frame.

    label: a column, or a threshold on one, such as "age>=30"; a named set has its usual one.
    group: a column or several ("sex,race"), crossed; "" or "none" for no group.
    Columns of a frame that are not called by text, such as 13, are known by their names' text, here and in options.

    Examples:
        >>> import pandas as pd, fairweight as fw
        >>> frame = pd.DataFrame({"age": [20, 30, 40, 50, 60] * 40, "sex": ["F", "M"] * 100})
        >>> frame["paid"] = ["no", "no", "yes", "yes"] * 50
        >>> data = fw.data.load(frame, label="paid", group="sex")
        >>> data.label_names, data.group_names, len(data.train) + len(data.test) < 200
        (('no', 'yes'), ('F', 'M'), True)
    """
    label_name = None if label is None else printable(str(label))  # as columns are called
    request = Request(label_name, group_columns(group), folders(data_dir), download, seed, options or Options())
    with bounded(request.options.max_file_gb):
        return _assemble(find(source, request), request)


def preprocessing_from(values: Mapping[str, Any]) -> Preprocessing:
    """Make the preprocessing that to_dict described, as read back from JSON."""
    kinds: dict[str, Any] = {"table": TablePreprocessing, "image": ImagePreprocessing}
    if values.get("kind") not in kinds:
        raise BadInput(f"no preprocessing is of the kind {values.get('kind')!r}; it was written by another version.")
    try:
        preprocessing: Preprocessing = kinds[values["kind"]].from_dict(dict(values))
    except TypeError as error:  # an entry more than the class has
        unknown = f"the preprocessing has an entry that is not known ({first_line(error)})"
        raise BadInput(f"{unknown}; it was written by another version.") from error
    return preprocessing


def group_columns(group: Hashable | Sequence[Hashable] | None) -> tuple[str, ...] | None:
    """The columns that were asked for, such as "sex,race"; none for "none", None where nothing was asked."""
    if group is None:
        return None
    if isinstance(group, str):
        group = () if group.strip().lower() in ("", "none") else tuple(name.strip() for name in group.split(","))
    return tuple(printable(str(name)) for name in (group if isinstance(group, Iterable) else (group,)))


def _assemble(found: Found, request: Request) -> Dataset:
    """Turn rows into samples, in an order that lets no part leak into another."""
    options = request.options
    if found.kind == "table" and options.image is not None:
        _refuse_image_options(found.name, options.image)
    group_options, split = options.groups or found.groups, options.split or found.split
    exemplar = options.exemplar or found.exemplar
    label = found.label if request.label is None else request.label
    present = found.parts["train"].names()
    columns = rejoin_comma_names(found.group if request.group is None else request.group, present)
    if label in columns:
        raise BadInput(f"{label!r} is named as label and as group; leave the group out to compare the classes.")
    notes = list(found.notes)
    labels = encode_labels(found.parts, label, options.labels, notes)
    groups = encode_groups(found.parts, columns, group_options, notes) if columns else None
    labels, groups = apply_floor(labels, groups, group_options, spans(found.parts), notes)
    check_positive(labels.names, options.labels)
    if groups is not None:
        notes.append(f"Group {','.join(columns)!r}: {len(groups.names)} groups, {', '.join(groups.names[:12])}.")
    names = labels.names, () if groups is None else groups.names

    given = by_column(_usable_parts(found, labels, groups, request, notes), found.parts["train"], split, notes)
    parts = divide(given, split, exemplar, request.seed, names, notes)
    parts, true_labels = corrupt_parts(parts, options.corruptions, options.corrupt_parts, names, request.seed, notes)

    meaning = Meaning(label, names[0], columns, names[1])
    samples: Mapping[str, Part]
    preprocessing: Preprocessing
    if found.kind == "image":
        samples, preprocessing = image_samples(found.parts, parts, meaning, found.image, notes)
    else:
        not_inputs = (label, *(() if options.table.group_in_inputs else columns))
        exclude = {*found.exclude, split.column or label, *(source_column(present, name) for name in not_inputs)}
        samples, preprocessing = table_samples(found.parts, parts, meaning, options.table, sorted(exclude), notes)
    cells = [f"{count:,} with {name}" for name, count in parts["train"].cells(*names).items()]
    notes += [f"Train cells: {'; '.join(cells)}."] if 0 < len(cells) <= 16 else []
    if "validation" in parts and not bool(parts["validation"].known().any()):
        notes.append("Warning: no validation row has a group label: the best epoch has the lowest mean loss.")
    notes.append("Rows: " + ", ".join(f"{len(part):,} {name}" for name, part in parts.items()) + ".")
    settled = replace(options, groups=group_options, split=split.settled(), exemplar=exemplar, image=found.image)
    files = found.parts["train"].files
    return Dataset(
        found.name,
        found.kind,
        train=samples["train"],
        validation=samples.get("validation"),
        exemplar=samples["exemplar"],
        test=samples["test"],
        label_names=names[0],
        group_names=names[1],
        preprocessing=preprocessing,
        rows={name: part.rows for name, part in parts.items()},
        true_labels=true_labels,
        notes=tuple(notes),
        spec=_spec(found, label, columns, request.seed, settled),
        files=() if files is None else tuple(files[row] for row in parts["train"].rows.tolist()),
    )


def _refuse_image_options(table: str, image: ImageOptions) -> None:
    usual, given = vars(ImageOptions()), vars(image)
    changed = next((name for name in usual if usual[name] != given[name]), "memory_gb")
    raise BadInput(
        f"{option(f'image.{changed}')} is for images, and {table} is a table; leave it out, or name the "
        f"column of image files with {option('image.file_column')}."
    )


def rejoin_comma_names(columns: tuple[str, ...], names: Sequence[str]) -> tuple[str, ...]:
    """Take a name with commas in it for one column, where the names between them are no columns."""
    if len(columns) < 2 or all(source_column(names, column) in names for column in columns):
        return columns
    joined = ",".join(columns)
    whole = next((name for name in names if ",".join(part.strip() for part in name.split(",")) == joined), None)
    return columns if whole is None else (whole,)


def _usable_parts(
    found: Found, labels: Encoded, groups: Encoded | None, request: Request, notes: list[str]
) -> dict[str, Marked]:
    """Keep the rows of each part that can be learned from, at most so many as the limit says."""
    parts: dict[str, Marked] = {}
    limit = request.options.limit
    for name, span in spans(found.parts).items():
        rows = found.parts[name]
        codes, group_codes = labels.codes[span], None if groups is None else groups.codes[span]
        keep = codes >= 0 if group_codes is None else (codes >= 0) & (group_codes != OUT)
        if rows.pixels is not None and (unreadable := rows.pixels.unreadable(notes)):
            keep[torch.tensor(list(unreadable))] = False
            which = f" ({listing([rows.files[row] for row in sorted(unreadable)], 5)})" if rows.files else ""
            images, are = ("image", "is") if len(unreadable) == 1 else ("images", "are")
            lost = f"{len(unreadable):,} {images} of {name}"
            notes.append(f"Warning: {lost} cannot be decoded or {are} not there: left out{which}.")
        part = Marked(torch.arange(len(rows)), codes, group_codes, origin=name).take(keep)
        if limit is not None and limit < len(part):
            sizes = proportional(part.strata(), limit / len(part), parts=4)
            part = part.take(by_stratum(part.strata(), sizes, stream(request.seed, "limit", name)))
            notes.append(f"Only {len(part):,} of {len(rows):,} rows of {name} are used, stratified by cell (limit).")
        parts[name] = part
    if len(parts["train"]) == 0:
        raise UnreadableImage("no row of train is left to learn from; see what was left out and why.")
    return parts


def _spec(found: Found, label: str, columns: Sequence[str], seed: int, options: Options) -> dict[str, Any]:
    """List what determines the data set, as plain values."""
    return {
        "source": found.name,
        "content": {name: rows.digest() for name, rows in found.parts.items()},
        "label": label,
        "group": list(columns),
        "seed": seed,
        "options": _determining_options(options),
        "corruptions": [to_dict(corruption) for corruption in options.corruptions],
    }


def _determining_options(options: Options) -> dict[str, Any]:
    """Keep of the options what determines the samples; where and how quickly they are read does not."""
    values = asdict(replace(options, corruptions=()))
    reading = ("cache", "cache_dir", "workers", "memory_gb", "root", "max_megapixels")
    # Left out where not set, so that a data set keeps the fingerprint that it had before there were these options.
    unset = [name for name in ("decimal", "thousands") if values["table"][name] is None]
    for part, names in ((values, ("corruptions", "max_file_gb")), (values["image"], reading), (values["table"], unset)):
        for name in names:
            part.pop(name)
    # Rows from files of their own are in the content; where those files lie is not part of it.
    for part, name in (("split", "test"), ("split", "validation"), ("exemplar", "source")):
        if isinstance(values[part][name], str):
            values[part][name] = Path(values[part][name]).name
    plain: dict[str, Any] = json.loads(json.dumps(values))
    return plain
