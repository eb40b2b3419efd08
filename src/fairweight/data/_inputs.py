"""Inputs for every part, with statistics from the train rows alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

from fairweight.data._found import Found
from fairweight.data._meaning import Meaning
from fairweight.data.image.decode import Form
from fairweight.data.image.preprocessing import ImagePreprocessing
from fairweight.data.image.rows import ImageRows
from fairweight.data.image.stream import Streamed
from fairweight.data.normalize import pixel_sums, statistics
from fairweight.data.options import ImageOptions, Options
from fairweight.data.split import Marked, Parts
from fairweight.data.table.leaks import find_leaks
from fairweight.data.table.preprocessing import TablePreprocessing
from fairweight.data.table.rows import FrameRows
from fairweight.data.table.values import Seen
from fairweight.errors import BadInput, UnreadableImage, option
from fairweight.types import Batch

if TYPE_CHECKING:
    import pandas as pd

Part: TypeAlias = "Batch | Streamed"
Preprocessing: TypeAlias = "TablePreprocessing | ImagePreprocessing"


def build(
    found: Found, parts: Parts, meaning: Meaning, options: Options, exclude: Sequence[str], shares: Tensor | None
) -> tuple[dict[str, Part], Preprocessing, list[str]]:
    """Samples of every part, what was fixed on train, and notes."""
    if found.kind == "table":
        return _tables(found, parts, meaning, options, exclude, shares)
    return _images(found, parts, meaning, found.image, shares)


def _tables(
    found: Found, parts: Parts, meaning: Meaning, options: Options, exclude: Sequence[str], shares: Tensor | None
) -> tuple[dict[str, Part], Preprocessing, list[str]]:
    notes: list[str] = []
    frames = {}
    for name, part in parts.marked.items():
        rows = found.parts[parts.origin[name]]
        assert isinstance(rows, FrameRows)
        frames[name] = rows.frame.iloc[part.rows.numpy()]
    train = {str(name): Seen(frames["train"][name]) for name in frames["train"].columns}
    marked = parts.marked["train"]
    never = list(exclude)
    if leaks := find_leaks(train, marked.labels, meaning.label_names, never):
        named = "; ".join(f"{name!r} ({how})" for name, how in leaks.items())
        done = "they were dropped" if options.table.drop_leaks else "drop them unless they are known when you predict"
        notes.append(f"Warning: columns that give the label {meaning.label!r} away: {named}; {done}.")
        never += list(leaks) if options.table.drop_leaks else []
    if marked.groups is not None and not options.table.group_in_inputs:
        copies = find_leaks(train, marked.groups, meaning.group_names, [*never, *options.table.drop])
        if copies:
            named = ", ".join(repr(name) for name in copies)
            notes.append(
                f"Warning: the group {','.join(meaning.group)!r} can be read off {named}, which stays an input."
            )
    if meaning.group and not options.table.group_in_inputs:
        notes.append(f"The group {','.join(meaning.group)!r} is kept out of the inputs.")
    plan = TablePreprocessing.fit(train, meaning, options.table, never, notes)
    columns, numbers = len(plan.columns), len(plan.feature_names)
    notes.append(f"Inputs: {columns} column{'s' * (columns > 1)} became {numbers} number{'s' * (numbers > 1)} per row.")
    notes += _copies(frames)
    samples: dict[str, Part] = {}
    for name, part in parts.marked.items():
        # Exemplars that stay in train would repeat train's notes.
        where = f"{name} rows"
        inputs = plan.transform(frames[name], notes if name != "train" else [], where)
        samples[name] = Batch(inputs, part.labels, part.groups, shares=shares if name == "exemplar" else None)
    return samples, plan, notes


def _copies(frames: Mapping[str, pd.DataFrame]) -> list[str]:
    """How many test rows stand in train, too, equal in every column: a model may know them by heart."""
    from pandas.util import hash_pandas_object

    columns = [name for name in frames["train"].columns if name in frames["test"].columns]
    try:
        train, test = (hash_pandas_object(frames[name][columns], index=False) for name in ("train", "test"))
    except TypeError:  # lists and the like, which have no hash
        return []
    count = int(test.isin(set(train)).sum())
    if count == 0:
        return []
    return [f"{count:,} of {len(test):,} test rows are equal to a row of train in every column."]


def _images(
    found: Found, parts: Parts, meaning: Meaning, options: ImageOptions, shares: Tensor | None
) -> tuple[dict[str, Part], Preprocessing, list[str]]:
    notes: list[str] = []
    samples: dict[str, Part] = {}
    for name, part in parts.marked.items():
        rows = found.parts[parts.origin[name]]
        assert isinstance(rows, ImageRows)
        samples[name] = _samples(rows, part, shares if name == "exemplar" else None, options, name, notes)
    for origin in dict.fromkeys(parts.origin[name] for name in parts.marked):
        rows = found.parts[origin]
        assert isinstance(rows, ImageRows)
        notes += rows.store.remarks()
    samples = _alike(samples, notes)
    shape = _shape(samples["train"])
    train = found.parts[parts.origin["train"]]
    assert isinstance(train, ImageRows)
    sums = train.store.sums(parts.marked["train"].rows)
    if sums is None or sums.shape[2] != shape[0]:
        sums = pixel_sums(_pixels(samples["train"]).numpy())
    mean, std = statistics(sums, shape[1] * shape[2])
    form = Form(shape[1], shape[2], options.crop, shape[0])
    notes.append(f"Images: {'x'.join(map(str, shape))} bytes each, normalised by the mean and deviation of train.")
    return samples, ImagePreprocessing(form, mean, std, meaning, options.size is not None), notes


def _pixels(samples: Part) -> Tensor:
    pixels = samples.pixels if isinstance(samples, Streamed) else samples.inputs
    assert isinstance(pixels, Tensor)
    return pixels


def _shape(samples: Part) -> tuple[int, ...]:
    return tuple(_pixels(samples).shape[1:])


def _alike(samples: dict[str, Part], notes: list[str]) -> dict[str, Part]:
    """All parts in one shape: grey ones take three equal channels where others are coloured."""
    shapes = {name: _shape(part) for name, part in samples.items()}
    alike = dict(samples)
    for name, part in samples.items():
        if shapes[name][0] == 1 and any(shape[0] == 3 for shape in shapes.values()) and isinstance(part, Batch):
            alike[name] = replace(part, inputs=_pixels(part).expand(-1, 3, -1, -1).contiguous())
            notes.append(f"All images of {name} are grey and others are not: they have three equal channels.")
    for name, part in alike.items():
        if _shape(part) != _shape(alike["train"]):
            ours, theirs = ("x".join(map(str, _shape(one))) for one in (part, alike["train"]))
            raise UnreadableImage(
                f"images of {name} are {ours} and of train {theirs} (channels, height, width); set "
                f"{option('image.size')} and {option('image.channels')} to bring all to one form."
            )
    return alike


def _samples(
    rows: ImageRows, part: Marked, shares: Tensor | None, options: ImageOptions, name: str, notes: list[str]
) -> Part:
    if options.reader_processes < 0 or not options.memory_gb > 0:
        raise BadInput("ImageOptions: give memory_gb above 0 and reader_processes from 0.")
    size = len(part) * rows.store.read(part.rows[:1], []).nbytes
    if size > options.memory_gb * 2**30:
        path = rows.store.mapped(notes)
        if path is not None:
            notes.append(
                f"The {name} images take {size / 2**30:.1f} GiB, more than the {options.memory_gb:g} GiB allowed: they "
                "stream from a memory-mapped file."
            )
            return Streamed(path, part.rows, part.labels, part.groups, shares, options.reader_processes)
    pixels = rows.store.read(part.rows, notes)
    return Batch(torch.from_numpy(pixels), part.labels, part.groups, shares=shares)
