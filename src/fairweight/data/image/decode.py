"""Encoded images to uint8 [C, H, W], by threads; the codecs work outside the interpreter's lock."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairweight.errors import BadInput, UnreadableImage, option

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image

    Pixels = np.ndarray[Any, np.dtype[np.uint8]]

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"})
_STARTS = {b"\x89PNG": "PNG", b"\xff\xd8\xff": "JPEG", b"RIFF": "WEBP", b"GIF8": "GIF", b"BM": "BMP"}
_GREY = frozenset({"1", "L", "LA"})
_COLOUR = frozenset({"P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV", "LAB"})


@dataclass(frozen=True)
class Form:
    """What every image is brought to."""

    height: int | None = None
    width: int | None = None
    crop: int | None = None
    channels: int | None = None  # None: as the images are

    def __post_init__(self) -> None:
        for name in ("height", "width", "crop"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise BadInput(f"an image's {name} cannot be {value}; give at least 1.")

    @classmethod
    def of(cls, size: int | tuple[int, int] | None, crop: int | None, channels: int | None) -> Form:
        """From the size as users write it."""
        height, width = (size, size) if isinstance(size, int) or size is None else size
        return cls(height, width, crop, channels)


@dataclass(frozen=True)
class Picture:
    """One encoded image and what to call it when it cannot be read."""

    content: bytes | Path
    name: str


class _MixedError(Exception):
    """Grey and coloured images in one set."""


def decode_one(picture: Picture, form: Form, deep: set[str] | None = None) -> Pixels:
    """One image in its form; one of 16 bits is read as 8 bits, and its name put among the deep ones."""  # [C, H, W]
    import numpy as np
    from PIL import Image, ImageOps

    try:
        content = picture.content if isinstance(picture.content, bytes) else picture.content.read_bytes()
        with Image.open(io.BytesIO(content), formats=_formats(content)) as image:
            image.load()
            turned = ImageOps.exif_transpose(image)
            # Pillow has the 16 bits of these formats in integers of 32, over the same range.
            has_16_bits = image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM"))
    except FileNotFoundError as error:
        raise UnreadableImage(absent(picture.name)) from error
    except PermissionError as error:
        raise UnreadableImage(f"{picture.name} may not be read by this user; change its permissions.") from error
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise UnreadableImage(
            f"{picture.name} cannot be decoded; replace it, or leave such images out with "
            f"{option('image.unreadable', 'drop')}."
        ) from error
    if has_16_bits:
        turned = Image.fromarray((np.asarray(turned).astype(np.uint16) >> 8).astype(np.uint8))
        if deep is not None:
            deep.add(picture.name)
    formed = _bring(turned, form, picture.name)
    array = np.asarray(formed, dtype=np.uint8)
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)


def absent(name: str) -> str:
    """The sentence for an image that is not there."""
    return (
        f"there is no image {name}; check the list of files and its folder, or leave such images out with "
        f"{option('image.unreadable', 'drop')}."
    )


def _formats(content: bytes) -> list[str] | None:
    """The format by its first bytes, so that Pillow need not try them all; None leaves it to Pillow."""
    return next(([name] for start, name in _STARTS.items() if content.startswith(start)), None)


def decode_into(
    out: Pixels,
    pictures: Sequence[Picture],
    form: Form,
    workers: int | None,
    drop: bool,
    deep: set[str] | None = None,
) -> list[int]:
    """Decode every image into its row; gives the rows that could not be, where those may be dropped."""  # [N, C, H, W]
    bad: list[int] = []

    def work(rows: range) -> None:
        for row in rows:
            try:
                pixels = decode_one(pictures[row], form, deep)
            except UnreadableImage:
                if not drop:
                    raise
                bad.append(row)
                continue
            if pixels.shape[0] != out.shape[1]:
                raise _MixedError
            if pixels.shape != out.shape[1:]:
                raise UnreadableImage(
                    f"{pictures[row].name} is {pixels.shape[1]}x{pixels.shape[2]} and the first image "
                    f"{out.shape[2]}x{out.shape[3]}; set {option('image.size')} to bring all to one size."
                )
            out[row] = pixels

    chunks = [range(start, min(start + 64, len(pictures))) for start in range(0, len(pictures), 64)]
    # Small images spend their time in the interpreter, where threads only wait for each other (measured at 32x32).
    usual = 1 if out.shape[2] * out.shape[3] < 48 * 48 else os.cpu_count() or 1
    pool = ThreadPoolExecutor(workers or usual, thread_name_prefix="fairweight-decode")
    try:
        _finish(pool.map(work, chunks))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return sorted(bad)


def decode_all(
    allocate: Callable[[tuple[int, int, int, int]], Pixels],
    pictures: Sequence[Picture],
    form: Form,
    workers: int | None = None,
    drop: bool = False,
    deep: set[str] | None = None,
) -> tuple[Pixels, Form, list[int]]:
    """Decode all into memory that `allocate` gives; settles the number of channels where the form leaves it open.

    deep: takes the names of the images that have 16 bits per pixel.
    """
    if not pictures:
        raise UnreadableImage("there are no images to decode.")
    # Pillow remarks on odd metadata, which is not damage; set here once, as threads share the filters.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            out, bad = _decode(allocate, pictures, form, workers, drop, deep)
        except _MixedError:
            out, bad = _decode(allocate, pictures, replace(form, channels=3), workers, drop, deep)
    if len(bad) == len(pictures):
        raise UnreadableImage(f"none of the {len(pictures):,} images can be decoded; the first is {pictures[0].name}.")
    return out, Form(out.shape[2], out.shape[3], form.crop, out.shape[1]), bad


def _decode(
    allocate: Callable[[tuple[int, int, int, int]], Pixels],
    pictures: Sequence[Picture],
    form: Form,
    workers: int | None,
    drop: bool,
    deep: set[str] | None,
) -> tuple[Pixels, list[int]]:
    # The first image's shape holds for all; only a size that was asked for may change an image.
    out = allocate((len(pictures), *_first_shape(pictures, form, drop)))
    return out, decode_into(out, pictures, form, workers, drop, deep)


def _first_shape(pictures: Sequence[Picture], form: Form, drop: bool) -> tuple[int, int, int]:
    for picture in pictures:
        try:
            channels, height, width = decode_one(picture, form).shape
            return channels, height, width
        except UnreadableImage:
            if not drop:
                raise
    raise UnreadableImage(f"none of the {len(pictures):,} images can be decoded; the first is {pictures[0].name}.")


def _bring(image: Image.Image, form: Form, name: str) -> Image.Image:
    from PIL import Image

    if image.mode not in _GREY | _COLOUR:
        raise UnreadableImage(
            f"{name} has {image.mode} pixels, not 8 bits per colour; convert it to 8 bits, or leave such images out "
            f"with {option('image.unreadable', 'drop')}."
        )
    channels = form.channels or (1 if image.mode in _GREY else 3)
    image = image.convert("L" if channels == 1 else "RGB")
    if form.crop is not None:
        left, top = (image.width - form.crop) // 2, (image.height - form.crop) // 2
        if left < 0 or top < 0:
            raise UnreadableImage(
                f"{name} is {image.height}x{image.width}, smaller than the crop of {form.crop}; lower crop."
            )
        image = image.crop((left, top, left + form.crop, top + form.crop))
    if form.height is not None and form.width is not None and image.size != (form.width, form.height):
        image = image.resize((form.width, form.height), Image.Resampling.BILINEAR, reducing_gap=None)
    return image


def _finish(results: Iterable[None]) -> None:
    for _ in results:
        pass
