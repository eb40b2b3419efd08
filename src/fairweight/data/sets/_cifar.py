"""CIFAR-10 and CIFAR-100 in their three forms: binary, Python and parquet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairweight.data._found import Found, Request
from fairweight.data._texts import Texts
from fairweight.data.image.cifar import binary_batches, pickled_batches
from fairweight.data.image.rows import ArrayStore, ImageRows
from fairweight.data.options import ImageOptions
from fairweight.data.sets._local import Place, image_found, parquet_parts
from fairweight.errors import UnreadableFile

_NAME_FILES = {
    "fine_label": "fine_label_names.txt", "coarse_label": "coarse_label_names.txt", "label": "batches.meta.txt",
}  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """Which files hold which part, in each form, and which labels they carry in which order."""

    binary: Mapping[str, Sequence[str]]
    python: Mapping[str, Sequence[str]]
    folders: Sequence[str]  # those that the published archives unpack to
    labels: Sequence[str]  # as columns, in the order of the binary records
    keys: Sequence[str]  # the same in the Python form
    names: Mapping[str, Sequence[str]]  # of each column's classes


def find_cifar(place: Place, layout: Layout, label: str, request: Request) -> Found:
    """The two parts, from whichever form is there."""
    image = request.options.image or ImageOptions()

    def read(folder: Path) -> dict[str, ImageRows] | None:
        for where in (folder, *(folder / name for name in layout.folders)):
            names = {**layout.names, **_names_beside(where)}
            if all((where / file).is_file() for files in layout.binary.values() for file in files):
                return {
                    part: _rows(*binary_batches([where / file for file in files], layout.labels), layout, names)
                    for part, files in layout.binary.items()
                }
            if all((where / file).is_file() for files in layout.python.values() for file in files):
                return {
                    part: _rows(*pickled_batches([where / file for file in files], layout.keys), layout, names)
                    for part, files in layout.python.items()
                }
        return parquet_parts(folder, image, {}, {**layout.names, **_names_beside(folder)})

    return image_found(place.name, place.search(request, read), label, image)


def _rows(
    pixels: Any, found: Mapping[str, Sequence[int]], layout: Layout, names: Mapping[str, Sequence[str]]
) -> ImageRows:
    columns: dict[str, Texts] = {}
    for column, values in zip(layout.labels, found.values(), strict=True):
        known = names.get(column)
        if known is not None and max(values) >= len(known):
            raise UnreadableFile(f"a CIFAR file holds the {column} {max(values)}, and there are {len(known)} classes.")
        columns[column] = [str(value) if known is None else known[value] for value in values]
    return ImageRows(ArrayStore(pixels), columns, names)


def _names_beside(folder: Path) -> dict[str, list[str]]:
    """Class names from the files that lie beside the images, where they do."""
    names: dict[str, list[str]] = {}
    files = {
        "fine_label": "fine_label_names.txt",
        "coarse_label": "coarse_label_names.txt",
        "label": "batches.meta.txt",
    }
    for column, file in files.items():
        if (folder / file).is_file():
            names[column] = (folder / file).read_text(encoding="utf-8").split()
    if (folder / "labels.json").is_file():
        found = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
        names |= {f"{key}_label": value for key, value in found.items() if key in ("fine", "coarse")}
    return names
