"""The line that every source takes: classes and groups, parts, corruption, inputs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairweight.data._draw import by_stratum, proportional, stream
from fairweight.data._found import Found, Request
from fairweight.data._inputs import build
from fairweight.data._meaning import Meaning
from fairweight.data._rows import Encoded, source_column
from fairweight.data.corrupt import Marks, sentence, to_dict
from fairweight.data.groups import encode_groups
from fairweight.data.image.rows import ImageRows
from fairweight.data.labels import check_positive, encode_labels
from fairweight.data.options import ImageOptions, Options
from fairweight.data.small_cells import apply_floor
from fairweight.data.split import Marked, Parts, by_column, divide
from fairweight.errors import BadInput, UnreadableImage, option


@dataclass(frozen=True)
class Pieces:
    """Everything that a Dataset is made of."""

    parts: dict[str, Any]  # name -> Batch or Streamed
    rows: dict[str, Tensor]
    meaning: Meaning
    preprocessing: Any
    true_labels: Tensor | None
    notes: tuple[str, ...]
    spec: dict[str, Any]


def assemble(found: Found, request: Request) -> Pieces:
    """Rows become samples, in an order that lets no part leak into another."""
    options = request.options
    notes = list(found.notes)
    label = request.label if request.label is not None else found.label
    columns = request.group if request.group is not None else found.group
    group_options = options.groups if options.groups is not None else found.groups
    names = found.parts["train"].names()
    columns = _whole(columns, names)
    if source_column(names, label) in {source_column(names, column) for column in columns} and label in columns:
        raise BadInput(
            f"{label!r} is named as label and as group; leave the group out to compare the classes themselves."
        )

    if found.kind == "table" and options.image is not None:
        raise BadInput(
            f"{_changed(options.image)} is for images, and {found.name} is a table; leave it out, or name the column "
            f"of image files with {option('image.file_column')}."
        )
    labels = encode_labels(found.parts, label, options.labels)
    groups = encode_groups(found.parts, columns, group_options) if columns else None
    notes += labels.notes + (groups.notes if groups is not None else ())
    labels, groups, more = apply_floor(labels, groups, group_options)
    check_positive(labels.names, label, options.labels)
    notes += more
    if groups is not None:
        notes.append(f"Group {','.join(columns)!r}: {len(groups.names)} groups, {', '.join(groups.names[:12])}.")

    given = _given(found, labels, groups, options, request.seed, notes)
    split = options.split if options.split is not None else found.split
    exemplar = options.exemplar if options.exemplar is not None else found.exemplar
    group_names = groups.names if groups is not None else ()
    given, origin = by_column(given, found.parts["train"], split)
    parts = divide(given, origin, split, exemplar, request.seed, (labels.names, group_names))
    notes += parts.notes
    shares = _shares(parts.marked["exemplar"], _pool(parts))
    parts, true_labels, more = _corrupt(parts, options, labels.names, group_names, request.seed)
    notes += more

    meaning = Meaning(label, labels.names, tuple(columns), group_names)
    exclude = {*found.exclude, *_never_inputs(found, label, columns, split.column, options)}
    samples, preprocessing, more = build(found, parts, meaning, options, sorted(exclude), shares)
    notes += more
    notes += _counted(parts.marked["train"], labels.names, group_names)
    if "validation" in parts.marked and not _any_known(parts.marked["validation"]):
        notes.append(
            "Warning: no validation row has a group label, so the best epoch is the one with the lowest mean loss."
        )
    notes.append("Rows: " + ", ".join(f"{len(part):,} {name}" for name, part in parts.marked.items()) + ".")
    spec = {
        "source": found.name,
        "content": found.content,
        "label": label,
        "group": list(columns),
        "seed": request.seed,
        "options": _plain(
            replace(
                options,
                groups=group_options,
                split=split.settled(),
                exemplar=exemplar,
                image=found.image,
                corruptions=(),
            )
        ),
        "corruptions": [to_dict(corruption) for corruption in options.corruptions],
    }
    rows = {name: part.rows for name, part in parts.marked.items()}
    return Pieces(samples, rows, meaning, preprocessing, true_labels, tuple(notes), spec)


def _changed(options: ImageOptions) -> str:
    """The first of the options that is not as usual, by its name."""
    usual = ImageOptions()
    changed = (entry.name for entry in fields(options) if getattr(options, entry.name) != getattr(usual, entry.name))
    name = next(changed, None)
    return f"an option such as {option('image.memory_gb')}" if name is None else option(f"image.{name}")


def _whole(columns: tuple[str, ...], names: Sequence[str]) -> tuple[str, ...]:
    """One column whose name has commas in it, where the names between them are no columns."""
    if len(columns) < 2 or all(source_column(names, column) in names for column in columns):
        return columns
    asked = ",".join(columns)
    found = next((name for name in names if ",".join(part.strip() for part in name.split(",")) == asked), None)
    return columns if found is None else (found,)


def _counted(train: Marked, label_names: tuple[str, ...], group_names: tuple[str, ...]) -> list[str]:
    """How many rows of train each cell has, where they are few enough to read."""
    found = [f"{count:,} with {name}" for name, count in train.cells(label_names, group_names).items()]
    return [f"Train cells: {'; '.join(found)}."] if 0 < len(found) <= 16 else []


def _any_known(part: Marked) -> bool:
    return part.groups is None or bool((part.groups >= 0).any())


def _never_inputs(found: Found, label: str, columns: tuple[str, ...], part: str | None, options: Options) -> set[str]:
    names = found.parts["train"].names()
    never = {source_column(names, label)}
    if not options.table.group_in_inputs:
        never |= {source_column(names, column) for column in columns}
    return never | ({part} if part is not None else set())


def _given(
    found: Found, labels: Encoded, groups: Encoded | None, options: Options, seed: int, notes: list[str]
) -> dict[str, Marked]:
    given: dict[str, Marked] = {}
    for name, rows in found.parts.items():
        keep = labels.keep[name] if groups is None else labels.keep[name] & groups.keep[name]
        if isinstance(rows, ImageRows) and (bad := rows.store.unreadable()):
            keep = keep.clone()
            keep[torch.tensor(list(bad))] = False
            notes.append(
                f"Warning: {len(bad):,} images of {name} cannot be decoded or are not there, and were left out."
            )
        whole = Marked(torch.arange(len(rows)), labels.codes[name], None if groups is None else groups.codes[name])
        part = whole.take(keep)
        if options.limit is not None and options.limit < len(part):
            if options.limit < 1:
                raise BadInput(f"{option('limit')} is {options.limit}; give at least 1 row.")
            sizes = proportional(part.strata(), options.limit / len(part), parts=4)
            part = part.take(by_stratum(part.strata(), sizes, stream(seed, "limit", name)))
            notes.append(f"Only {len(part):,} of {len(whole):,} rows of {name} are used, stratified by cell (limit).")
        given[name] = part
    if len(given["train"]) == 0:
        raise UnreadableImage("no row of train is left to learn from; see what was left out and why.")
    return given


def _pool(parts: Parts) -> Marked:
    """Train as it was before exemplars left it."""
    train, exemplar = parts.marked["train"], parts.marked["exemplar"]
    if parts.origin["exemplar"] != "train":
        return train
    place = torch.searchsorted(train.rows, exemplar.rows).clamp(max=len(train) - 1)
    if bool((train.rows[place] == exemplar.rows).all()):
        return train
    groups = None if train.groups is None or exemplar.groups is None else torch.cat([train.groups, exemplar.groups])
    return Marked(torch.cat([train.rows, exemplar.rows]), torch.cat([train.labels, exemplar.labels]), groups)


def _shares(exemplar: Marked, natural: Marked) -> Tensor | None:
    """Each exemplar's weight such that cells have their natural shares, mean 1; None where those are not known."""
    if natural.groups is None or exemplar.groups is None:
        there, here = natural.labels, exemplar.labels
    else:
        known = natural.groups >= 0
        width = int(max(natural.groups.max(), exemplar.groups.max())) + 1
        there = natural.labels[known] * width + natural.groups[known]
        here = exemplar.labels * width + exemplar.groups
    if len(there) == 0:
        return None
    size = int(max(there.max(), here.max())) + 1
    usual = torch.bincount(there, minlength=size).double()
    drawn = torch.bincount(here, minlength=size).double()
    weights = (usual / drawn.clamp(min=1))[here]
    return (weights / weights.mean()).float() if float(weights.sum()) > 0 else None


def _corrupt(
    parts: Parts, options: Options, label_names: tuple[str, ...], group_names: tuple[str, ...], seed: int
) -> tuple[Parts, Tensor | None, list[str]]:
    if not options.corruptions:
        return parts, None, []
    chosen = [name for name in ("train", "validation", "exemplar") if name in options.corrupt_parts]
    if "train" not in chosen or len(chosen) != len(set(options.corrupt_parts)):
        raise BadInput(f"corrupt_parts is {options.corrupt_parts}; it names train, and validation or exemplar besides.")
    if foreign := [name for name in chosen if parts.origin.get(name) != "train"]:
        raise BadInput(f"the {foreign[0]} rows do not come from train, which alone is corrupted; leave them out.")
    # One pool, each source row once, so that exemplars which stay in train have the same label in both.
    rows, first = _distinct(torch.cat([parts.marked[name].rows for name in chosen]))
    all_labels = torch.cat([parts.marked[name].labels for name in chosen])[first]
    found_groups = [groups for name in chosen if (groups := parts.marked[name].groups) is not None]
    all_groups = torch.cat(found_groups)[first] if found_groups else None
    clean = Marks(all_labels, all_groups, label_names, group_names, torch.ones(len(rows), dtype=torch.bool))
    marks, notes = clean, []
    for number, corruption in enumerate(options.corruptions):
        after = corruption(marks, stream(seed, "corrupt", str(number)))
        notes.append(sentence(marks, after, corruption))
        marks = after
    marked = dict(parts.marked)
    true_labels = None
    for name in chosen:
        place = torch.searchsorted(rows, marked[name].rows)
        place = place[marks.keep[place]]
        groups = None if marks.groups is None else marks.groups[place]
        marked[name] = Marked(rows[place], marks.labels[place], groups)
        if len(place) == 0:
            raise BadInput(f"the corruptions leave no row of {name}; keep more.")
        if name == "train":
            true_labels = clean.labels[place]
    if len(chosen) > 1:
        notes.append(f"The corruptions acted on {' and '.join(chosen)} together.")
    return Parts(marked, parts.origin, parts.notes), true_labels, notes


def _distinct(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct rows in order, and where each stands first."""
    order = rows.argsort(stable=True)
    ordered = rows[order]
    new = torch.ones(len(rows), dtype=torch.bool)
    new[1:] = ordered[1:] != ordered[:-1]
    return ordered[new], order[new]


def _plain(options: Options) -> dict[str, Any]:
    """What of the options determines the samples; where and how quickly they are read does not."""
    values = asdict(options)
    values.pop("corruptions")
    for name in ("cache", "cache_dir", "workers", "memory_gb", "reader_processes", "root"):
        values["image"].pop(name)
    # Rows from files of their own are in the content; where those files lie is not part of it.
    for part, name in (("split", "test"), ("split", "validation"), ("exemplar", "source")):
        if isinstance(values[part][name], str):
            values[part][name] = Path(values[part][name]).name
    plain: dict[str, Any] = json.loads(json.dumps(values))
    return plain


def fingerprint(spec: Mapping[str, Any]) -> str:
    """A short name for what the spec determines."""
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]
