"""CIFAR's own two forms: fixed-length binary records, and Python pickles read without running anything in them."""

from __future__ import annotations

import io
import pickle  # only subclassed below, to allow arrays and plain containers and nothing else
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairweight.errors import UnreadableFile

if TYPE_CHECKING:
    import numpy as np

    Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_PIXELS = 3 * 32 * 32
# What a pickled array of numpy 1 or 2 is made of; none of these runs code of the file's choosing.
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode"),
}  # fmt: skip


class _ArraysOnly(pickle.Unpickler):
    """An unpickler that knows arrays and plain containers, and refuses every other name."""

    def find_class(self, module: str, name: str) -> Any:
        """One of the few allowed names."""
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        if module == "_codecs":
            return _encode
        import numpy as np

        return {"_reconstruct": _reconstruct, "ndarray": np.ndarray, "dtype": np.dtype}[name]


def _encode(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes in old pickles."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it encodes bytes as {encoding}")
    return text.encode("latin1")


def _reconstruct(kind: Any, shape: Any, code: Any) -> Any:
    """An empty array, to be filled by the state that follows in the file."""
    import numpy as np

    if kind is not np.ndarray:
        raise pickle.UnpicklingError("it makes something that is no array")
    return np.ndarray.__new__(np.ndarray, shape, code)


def read_pickle(path: Path) -> dict[str, Any]:
    """The dictionary in a CIFAR batch; anything but arrays, numbers, text and containers is refused."""
    try:
        found = _ArraysOnly(io.BytesIO(path.read_bytes()), encoding="bytes").load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise UnreadableFile(
            f"{path} is not a CIFAR batch that can be read safely ({error}); copy it again from the published archive."
        ) from error
    if not isinstance(found, dict):
        raise UnreadableFile(f"{path} is not a CIFAR batch; copy it again from the published archive.")
    return {key.decode() if isinstance(key, bytes) else str(key): value for key, value in found.items()}


def pickled_batches(paths: Sequence[Path], label_keys: Sequence[str]) -> tuple[Bytes, dict[str, list[int]]]:
    """Pixels and labels of the Python form."""  # [N, 3, 32, 32]
    import numpy as np

    blocks = []
    labels: dict[str, list[int]] = {key: [] for key in label_keys}
    for path in paths:
        batch = read_pickle(path)
        data = batch.get("data")
        if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != _PIXELS:
            raise UnreadableFile(f"{path} holds no images of 3x32x32 bytes; copy it again from the published archive.")
        for key in label_keys:
            values = batch.get(key)
            if values is None or len(values) != len(data):
                raise UnreadableFile(f"{path} has no {key!r} for its {len(data):,} images; copy it again.")
            labels[key] += [int(value) for value in values]
        blocks.append(data.reshape(-1, 3, 32, 32))
    return np.concatenate(blocks), labels


def binary_batches(paths: Sequence[Path], label_keys: Sequence[str]) -> tuple[Bytes, dict[str, list[int]]]:
    """Pixels and labels of the binary form: one byte per label, then 3,072 of pixels."""  # [N, 3, 32, 32]
    import numpy as np

    record = len(label_keys) + _PIXELS
    blocks = []
    for path in paths:
        content = np.frombuffer(path.read_bytes(), dtype=np.uint8)
        if len(content) == 0 or len(content) % record:
            raise UnreadableFile(
                f"{path} has {len(content):,} bytes, not a multiple of {record:,}; it may be cut short: copy it again."
            )
        blocks.append(content.reshape(-1, record))
    whole = np.concatenate(blocks)
    labels = {key: whole[:, place].tolist() for place, key in enumerate(label_keys)}
    return np.ascontiguousarray(whole[:, len(label_keys) :]).reshape(-1, 3, 32, 32), labels
