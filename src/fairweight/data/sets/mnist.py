"""MNIST."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np

from fairweight.data.files import read_bytes
from fairweight.data.image.normalize import Pixels
from fairweight.data.image.pixels import HeldPixels
from fairweight.data.options import ImageOptions
from fairweight.data.rows import ClassRows, Rows
from fairweight.data.sets._local_set import ImageSet, parquet_parts
from fairweight.errors import UnreadableFile

_PAIRS = {
    part: (f"{name}-images-idx3-ubyte", f"{name}-labels-idx1-ubyte")
    for part, name in (("train", "train"), ("test", "t10k"))
}


class Mnist(ImageSet):
    """MNIST: 60,000 + 10,000 handwritten digits, 28x28 grey; the digit stands for the group."""

    name = "mnist"
    label = "label"
    needs = tuple(f"{name}(.gz)" for pair in _PAIRS.values() for name in pair)
    repository = "ylecun/mnist"
    class_names = tuple("0123456789")

    def read(self, folder: Path, image: ImageOptions) -> dict[str, Rows] | None:
        for where in (folder, folder / "raw", folder / "MNIST" / "raw", folder / "FashionMNIST" / "raw"):
            files = {part: [_or_gzipped(where / name) for name in pair] for part, pair in _PAIRS.items()}
            if all(path.is_file() for pair in files.values() for path in pair):
                return {part: self._rows(*pair) for part, pair in files.items()}
        return parquet_parts(folder, image, {}, {"label": self.class_names})

    def _rows(self, images: Path, labels: Path) -> Rows:
        pixels, classes = _read_idx(images), _read_idx(labels)
        if pixels.ndim != 3 or classes.ndim != 1 or len(pixels) != len(classes):
            raise UnreadableFile(
                f"{images.name} holds {len(pixels):,} images and {labels.name} {len(classes):,} labels; give a pair."
            )
        return ClassRows(HeldPixels(pixels[:, None]), {"label": classes}, {"label": self.class_names}, str(labels))


def _or_gzipped(path: Path) -> Path:
    return path if path.is_file() else path.with_name(f"{path.name}.gz")


def _read_idx(path: Path) -> Pixels:
    """Read an idx file of unsigned bytes: a header of big-endian sizes, then the bytes."""
    content = read_bytes(path)
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise UnreadableFile(f"{path} is not an idx file of bytes; copy it again.")
    start = 4 + 4 * content[3]
    shape = struct.unpack(f">{content[3]}I", content[4:start]) if len(content) >= start else ()
    if not shape or len(content) - start != math.prod(shape):
        raise UnreadableFile(
            f"{path} says {'x'.join(map(str, shape)) or 'nothing'} and holds {max(len(content) - start, 0):,} bytes; "
            "it may be cut short: copy it again."
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
