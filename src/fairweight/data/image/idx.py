"""The idx format of MNIST: a header of big-endian sizes, then bytes."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairweight.data._texts import Texts
from fairweight.data.image.rows import ArrayStore, ImageRows
from fairweight.errors import UnreadableFile

if TYPE_CHECKING:
    import numpy as np

    Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def read_idx(path: Path) -> Bytes:
    """The array of an idx file of unsigned bytes, packed with gzip or not."""
    import numpy as np

    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise UnreadableFile(f"{path} is not a whole gzip file; it may be cut short: copy it again.") from error
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise UnreadableFile(f"{path} is not an idx file of bytes; copy it again.")
    dimensions = content[3]
    start = 4 + 4 * dimensions
    shape = struct.unpack(f">{dimensions}I", content[4:start]) if len(content) >= start else ()
    size = 1
    for length in shape:
        size *= length
    if not shape or len(content) - start != size:
        raise UnreadableFile(
            f"{path} says {'x'.join(map(str, shape)) or 'nothing'} and holds {max(len(content) - start, 0):,} bytes; "
            "it may be cut short: copy it again."
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def idx_rows(images: Path, labels: Path, names: tuple[str, ...]) -> ImageRows:
    """Rows of a pair of idx files."""
    pixels, classes = read_idx(images), read_idx(labels)
    if pixels.ndim != 3 or classes.ndim != 1 or len(pixels) != len(classes):
        raise UnreadableFile(
            f"{images.name} holds {len(pixels):,} images and {labels.name} {len(classes):,} labels; give a pair."
        )
    if len(classes) and int(classes.max()) >= len(names):
        raise UnreadableFile(f"{labels} holds the label {classes.max()}, and there are {len(names)} classes.")
    texts: Texts = [names[value] for value in classes.tolist()]
    return ImageRows(ArrayStore(pixels[:, None]), {"label": texts}, {"label": names})
