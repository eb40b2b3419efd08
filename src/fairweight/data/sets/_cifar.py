"""CIFAR-10 and CIFAR-100 in their three forms: binary records, Python pickles (no code in them runs) and parquet."""

from __future__ import annotations

import io
import json
import pickle  # only subclassed below, to allow arrays and plain containers and nothing else
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fairweight.data.files import read_bytes, read_text
from fairweight.data.image.normalize import Pixels
from fairweight.data.image.pixels import HeldPixels
from fairweight.data.options import ImageOptions
from fairweight.data.rows import ClassRows, Rows
from fairweight.data.sets._local_set import ImageSet, parquet_parts
from fairweight.errors import UnreadableFile

_PIXELS = 3 * 32 * 32
_NAME_FILES = {
    "fine_label": "fine_label_names.txt", "coarse_label": "coarse_label_names.txt", "label": "batches.meta.txt",
}  # fmt: skip
# What a pickled array of numpy 1 or 2 is made of; none of these runs code of the file's choosing.
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode"),
}  # fmt: skip


_TOO_MUCH = (MemoryError, OverflowError, RecursionError)


class CifarSet(ImageSet):
    """A set in CIFAR's formats."""

    batches: ClassVar[Mapping[str, Sequence[str]]]  # files of each part; in the binary form they end in .bin
    folders: Sequence[str]  # those that the published archives unpack to
    columns: Sequence[str]  # labels, in the order of the binary records; the Python form has them in the plural
    class_names: ClassVar[Mapping[str, Sequence[str]]] = {}  # of each column's classes

    def read(self, folder: Path, image: ImageOptions) -> dict[str, Rows] | None:
        for where in (folder, *(folder / name for name in self.folders)):
            names = {**self.class_names, **_names_beside(where)}
            for ending, read in ((".bin", _read_binary), ("", _read_pickled)):
                files = {part: [where / f"{name}{ending}" for name in found] for part, found in self.batches.items()}
                if all(path.is_file() for paths in files.values() for path in paths):
                    return {
                        part: _rows([read(path, self.columns) for path in paths], names)
                        for part, paths in files.items()
                    }
        return parquet_parts(folder, image, {}, {**self.class_names, **_names_beside(folder)})


def _rows(batches: Sequence[tuple[Pixels, dict[str, list[int]]]], names: Mapping[str, Sequence[str]]) -> Rows:
    numbers = {column: [number for _, labels in batches for number in labels[column]] for column in batches[0][1]}
    for column, found in numbers.items():
        if column in names and max(found) >= len(names[column]):
            raise UnreadableFile(
                f"a CIFAR file holds the {column} {max(found)}, and there are {len(names[column])} classes."
            )
    return ClassRows(HeldPixels(np.concatenate([pixels for pixels, _ in batches])), numbers, names)


def _names_beside(folder: Path) -> dict[str, list[str]]:
    """Read class names from the files that lie beside the images, where they do."""
    names = {
        column: read_text(folder / file).split() for column, file in _NAME_FILES.items() if (folder / file).is_file()
    }
    if (folder / "labels.json").is_file():
        names |= _names_in(folder / "labels.json")
    return names


def _names_in(path: Path) -> dict[str, list[str]]:
    wrong = UnreadableFile(f"{path} does not hold lists of names under 'fine' and 'coarse'; copy it again.")
    try:
        found = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise wrong from error
    if not isinstance(found, dict):
        raise wrong
    names = {f"{key}_label": value for key, value in found.items() if key in ("fine", "coarse")}
    if not all(isinstance(value, list) and all(isinstance(name, str) for name in value) for value in names.values()):
        raise wrong
    return names


def _read_binary(path: Path, columns: Sequence[str]) -> tuple[Pixels, dict[str, list[int]]]:
    """Read records of one byte per label, then 3,072 of pixels."""  # [N, 3, 32, 32]
    content = np.frombuffer(read_bytes(path), dtype=np.uint8)
    record = len(columns) + _PIXELS
    if len(content) % record:
        raise UnreadableFile(
            f"{path} has {len(content):,} bytes, not a multiple of {record:,}; it may be cut short: copy it again."
        )
    records = content.reshape(-1, record)
    labels = {column: records[:, place].tolist() for place, column in enumerate(columns)}
    return np.ascontiguousarray(records[:, len(columns) :]).reshape(-1, 3, 32, 32), labels


def _read_pickled(path: Path, columns: Sequence[str]) -> tuple[Pixels, dict[str, list[int]]]:
    batch = read_pickle(path)
    data = batch.get("data")
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != _PIXELS:
        raise UnreadableFile(f"{path} holds no images of 3x32x32 bytes; copy it again from the published archive.")
    labels = {}
    for column in columns:
        values = batch.get(f"{column}s")
        if values is None or len(values) != len(data):
            raise UnreadableFile(f"{path} has no '{column}s' for its {len(data):,} images; copy it again.")
        labels[column] = [int(value) for value in values]
    return data.reshape(-1, 3, 32, 32), labels


def read_pickle(path: Path) -> dict[str, Any]:
    """Read the dictionary in a CIFAR batch; anything but arrays, numbers, text and containers is refused."""
    try:
        found = _ArraysOnly(io.BytesIO(read_bytes(path)), encoding="bytes").load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, LookupError, AttributeError, *_TOO_MUCH) as error:
        raise UnreadableFile(
            f"{path} is not a CIFAR batch that can be read safely ({error}); copy it again from the published archive."
        ) from error
    if not isinstance(found, dict):
        raise UnreadableFile(f"{path} is not a CIFAR batch; copy it again from the published archive.")
    return {
        key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key): value for key, value in found.items()
    }


class _ArraysOnly(pickle.Unpickler):
    """An unpickler that knows arrays and plain containers, and refuses every other name."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        if module == "_codecs":
            return _encode
        return {"_reconstruct": _reconstruct, "ndarray": _ArrayName, "dtype": np.dtype}[name]


class _ArrayName:
    """Stands for numpy's array, which a file could otherwise make of any size."""


def _encode(text: str, encoding: str) -> bytes:
    """Make bytes as Python 3 writes them in old pickles."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it encodes bytes as {encoding}")
    return text.encode("latin1")


def _reconstruct(kind: Any, shape: Any, code: Any) -> Any:
    """Make an empty array, to be filled by the state that follows in the file."""
    if kind is not _ArrayName or shape != (0,):
        raise pickle.UnpicklingError("it makes something that is no pickled array")
    return np.ndarray.__new__(np.ndarray, shape, code)
