"""CIFAR-10."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from fairweight.data.files import read_bytes, read_text
from fairweight.data.image.pixels import HeldPixels
from fairweight.data.options import ImageOptions
from fairweight.data.rows import ClassRows, Rows
from fairweight.data.sets._local_set import ImageSet, parquet_parts
from fairweight.errors import UnreadableFile

_NAME_FILES = {
    "fine_label": "fine_label_names.txt", "coarse_label": "coarse_label_names.txt", "label": "batches.meta.txt",
}  # fmt: skip


class Cifar10(ImageSet):
    """CIFAR-10: 50,000 + 10,000 photographs of ten things, 32x32; the class stands for the group."""

    name = "cifar10"
    label = "label"
    needs = ("data_batch_1.bin to data_batch_5.bin, test_batch.bin (or the parquet shards train-*, test-*)",)
    repository = "uoft-cs/cifar10"
    batches: ClassVar[Mapping[str, Sequence[str]]] = {  # files of each part, without their .bin
        "train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"],
    }  # fmt: skip
    folder = "cifar-10-batches-bin"  # that the published archive unpacks to
    columns: Sequence[str] = ("label",)  # in the order of the records
    class_names: ClassVar[Mapping[str, Sequence[str]]] = {
        "label": ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    }

    def read(self, folder: Path, image: ImageOptions) -> dict[str, Rows] | None:
        for where in (folder, folder / self.folder):
            files = {part: [where / f"{name}.bin" for name in names] for part, names in self.batches.items()}
            if all(path.is_file() for paths in files.values() for path in paths):
                names = {**self.class_names, **_names_beside(where)}
                return {part: _rows(paths, self.columns, names) for part, paths in files.items()}
        return parquet_parts(folder, image, {}, {**self.class_names, **_names_beside(folder)})


def _rows(paths: Sequence[Path], columns: Sequence[str], names: Mapping[str, Sequence[str]]) -> Rows:
    """Read records of one byte per label, then 3,072 of pixels."""
    length = len(columns) + 3 * 32 * 32
    records = []
    for path in paths:
        content = np.frombuffer(read_bytes(path), dtype=np.uint8)
        if len(content) % length:
            raise UnreadableFile(
                f"{path} has {len(content):,} bytes, not a multiple of {length:,}; it may be cut short: copy it again."
            )
        records.append(content.reshape(-1, length))
    content = np.concatenate(records)
    pixels = np.ascontiguousarray(content[:, len(columns) :]).reshape(-1, 3, 32, 32)
    return ClassRows(HeldPixels(pixels), {name: content[:, k] for k, name in enumerate(columns)}, names, "a CIFAR file")


def _names_beside(folder: Path) -> dict[str, list[str]]:
    """Read class names from the files that lie beside the images, where they do."""
    names = {
        column: read_text(folder / file).split() for column, file in _NAME_FILES.items() if (folder / file).is_file()
    }
    path = folder / "labels.json"
    if not path.is_file():
        return names
    try:
        content = json.loads(read_text(path))
        listed = {f"{key}_label": content[key] for key in ("fine", "coarse") if key in content}
        if all(isinstance(value, list) and all(isinstance(name, str) for name in value) for value in listed.values()):
            return {**names, **listed}
    except (ValueError, TypeError, RecursionError):
        pass  # refused below
    raise UnreadableFile(f"{path} does not hold lists of names under 'fine' and 'coarse'; copy it again.")
