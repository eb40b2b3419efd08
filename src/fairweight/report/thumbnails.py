"""Small pictures of samples, to be carried inside the page."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fairweight.errors import BadInput

if TYPE_CHECKING:
    import numpy as np

    Pixels = np.ndarray[Any, np.dtype[np.uint8]]

SIDE = 64  # pixels of the longer side, at most


def thumbnails(pixels: Pixels, positions: Sequence[int], side: int = SIDE) -> dict[int, str]:
    """A data URI for each position; pixels [n, C, H, W], 1 or 3 channels."""
    if pixels.ndim != 4 or pixels.shape[1] not in (1, 3) or len(pixels) != len(positions):
        raise BadInput(f"thumbnails needs pixels [n, 1 or 3, H, W], one per position; got {pixels.shape}.")
    return {place: data_uri(pixels[k], side) for k, place in enumerate(positions)}


def data_uri(pixels: Pixels, side: int = SIDE) -> str:
    """One picture [C, H, W]: PNG where it is tiny or grey, which keeps every pixel, JPEG otherwise."""
    from PIL import Image

    grey = pixels.shape[0] == 1
    image = Image.fromarray(pixels[0] if grey else pixels.transpose(1, 2, 0))
    if max(image.size) > side:
        image.thumbnail((side, side))
    kind = "PNG" if grey or max(image.size) <= 16 else "JPEG"
    out = io.BytesIO()
    image.save(out, kind, **({"optimize": True} if kind == "PNG" else {"quality": 80}))
    return f"data:image/{kind.lower()};base64,{base64.b64encode(out.getvalue()).decode()}"
