"""Encoded images to uint8 [C, H, W], by threads; the codecs work outside the interpreter's lock."""

from __future__ import annotations

import io
import os
import struct
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from fairweight.data.files import open_regular
from fairweight.data.image.normalize import Pixels
from fairweight.errors import BadInput, MissingData, UnreadableFile, UnreadableImage, option

if TYPE_CHECKING:
    from PIL import Image

Allocate: TypeAlias = Callable[[tuple[int, ...]], Pixels]  # memory of a shape [N, C, H, W]
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"})
# Those that the suffixes name; Pillow knows others, and hands EPS to another program.
_FORMATS = ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM"]
_BYTES_PER_PIXEL = 8  # no usual encoding takes more
_GREY = frozenset({"1", "L", "LA"})
DROP = f"leave such images out with {option('image.unreadable', 'drop')}"
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
            if (value := getattr(self, name)) is not None and value < 1:
                raise BadInput(f"an image's {name} cannot be {value}; give at least 1.")


class Picture(NamedTuple):
    """One encoded image and what to call it when it cannot be read."""

    content: bytes | Path
    name: str


# What Pillow's readers of headers raise besides, where a file is damaged in an odd place.
_ODD = (struct.error, KeyError, IndexError, TypeError, OverflowError, ZeroDivisionError, NotImplementedError)


class _MixedError(Exception):
    """Grey and coloured images in one set."""


@dataclass
class Decoder:
    """Decodes images into one form."""

    form: Form
    workers: int | None = None  # threads; None: one per core, or one where images are small
    drop: bool = False  # whether images that cannot be decoded are left out or refused
    max_megapixels: float = 50.0  # a larger image is not decoded
    deep: set[str] = field(default_factory=set)  # names of the images of 16 bits per pixel, of which 8 are read

    def one(self, picture: Picture) -> Pixels:  # [C, H, W]
        from PIL import Image, ImageOps

        content = _content(picture, self.max_megapixels)
        try:
            with _open_image(content, picture.name, self.max_megapixels) as image:
                image.load()
                turned = ImageOps.exif_transpose(image)
                # Pillow has the 16 bits of these formats in integers of 32, over the same range.
                has_16_bits = image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM"))
        except UnreadableImage:
            raise
        except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError, *_ODD) as error:
            raise UnreadableImage(f"{picture.name} cannot be decoded; replace it, or {DROP}.") from error
        if has_16_bits:
            turned = Image.fromarray((np.asarray(turned).astype(np.uint16) >> 8).astype(np.uint8))
            self.deep.add(picture.name)
        array = np.asarray(_converted(turned, self.form, picture.name), dtype=np.uint8)
        return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)

    def all(self, allocate: Allocate, pictures: Sequence[Picture]) -> tuple[Pixels, list[int]]:
        """Decode all into memory that `allocate` gives; also lists the rows that were dropped.

        The first image's shape holds for all: only a size that was asked for may change an image. Where the form
        leaves the channels open and there are grey and coloured images, all become coloured.
        """
        # Pillow remarks on odd metadata, which is not damage; set here once, as threads share the filters.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            first = next((found for found in map(self._one_or_none, pictures) if found is not None), None)
            if first is None:
                raise UnreadableImage(
                    f"none of the {len(pictures):,} images can be decoded; the first is {pictures[0].name}."
                )
            out = allocate((len(pictures), *first.shape))
            try:
                return out, self._fill(out, pictures)
            except _MixedError:
                out = allocate((len(pictures), 3, *first.shape[1:]))
                return out, replace(self, form=replace(self.form, channels=3))._fill(out, pictures)

    def _one_or_none(self, picture: Picture) -> Pixels | None:
        """Decode one; None where that cannot be done and such images are left out."""
        try:
            return self.one(picture)
        except UnreadableImage:
            if not self.drop:
                raise
            return None

    def _fill(self, out: Pixels, pictures: Sequence[Picture]) -> list[int]:
        bad: list[int] = []

        def work(rows: range) -> None:
            for row in rows:
                pixels = self._one_or_none(pictures[row])
                if pixels is None:
                    bad.append(row)
                    continue
                if pixels.shape[0] != out.shape[1]:
                    raise _MixedError
                if pixels.shape != out.shape[1:]:
                    ours, first = ("x".join(map(str, shape)) for shape in (pixels.shape[1:], out.shape[2:]))
                    raise UnreadableImage(
                        f"{pictures[row].name} is {ours} and the first image {first}; "
                        f"set {option('image.size')} to bring all to one size, such as {min(out.shape[2:])}."
                    )
                out[row] = pixels

        chunks = [range(start, min(start + 64, len(pictures))) for start in range(0, len(pictures), 64)]
        # Small images spend their time in the interpreter, where threads only wait for each other (measured at 32x32).
        usual = 1 if out.shape[2] * out.shape[3] < 48 * 48 else os.cpu_count() or 1
        pool = ThreadPoolExecutor(self.workers or usual, thread_name_prefix="fairweight-decode")
        try:
            list(pool.map(work, chunks))  # raises what a thread raised
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return sorted(bad)


def absent(name: str) -> str:
    """Say that an image is not there."""
    return f"there is no image {name}; check the list of files and its folder, or {DROP}."


def _content(picture: Picture, max_megapixels: float) -> bytes:
    """Read an encoded image, unless it has more bytes than pixels may take."""
    content, most = picture.content, int(min(max_megapixels * 1e6 * _BYTES_PER_PIXEL, 2**62))
    try:
        if not isinstance(content, bytes):
            with open_regular(content) as file:
                content = file.read(most + 1)
    except MissingData as error:
        raise UnreadableImage(absent(picture.name)) from error
    except UnreadableFile as error:
        raise UnreadableImage(error.sentence.marked) from error
    if len(content) > most:
        raise _too_large(picture.name, max_megapixels)
    return content


def _open_image(content: bytes, name: str, max_megapixels: float) -> Image.Image:
    """Open an image of a known format and of a size that may be decoded; its pixels are not read yet."""
    from PIL import Image

    try:
        image = Image.open(io.BytesIO(content), formats=_FORMATS)
    except Image.DecompressionBombError as error:
        if max_megapixels < 2e-6 * (Image.MAX_IMAGE_PIXELS or 0):
            raise _too_large(name, max_megapixels) from error
        raise UnreadableImage(f"{name} is larger than Pillow opens; make it smaller, or {DROP}.") from error
    if image.width * image.height > max_megapixels * 1e6:
        raise _too_large(name, max_megapixels)
    return image


def _too_large(name: str, max_megapixels: float) -> UnreadableImage:
    limit = f"{max_megapixels:g} megapixels"
    return UnreadableImage(f"{name} has more than {limit}; raise {option('image.max_megapixels')}, or {DROP}.")


def _converted(image: Image.Image, form: Form, name: str) -> Image.Image:
    from PIL import Image

    if image.mode not in _GREY | _COLOUR:
        what = f"{name} has {image.mode} pixels, not 8 bits per colour"
        raise UnreadableImage(f"{what}; convert it to 8 bits, or {DROP}.")
    channels = form.channels or (1 if image.mode in _GREY else 3)
    image = image.convert("L" if channels == 1 else "RGB")
    if form.crop is not None:
        left, top = (image.width - form.crop) // 2, (image.height - form.crop) // 2
        if left < 0 or top < 0:
            raise UnreadableImage(f"{name} is {image.height}x{image.width}, smaller than crop={form.crop}; lower crop.")
        image = image.crop((left, top, left + form.crop, top + form.crop))
    if form.height is not None and form.width is not None and image.size != (form.width, form.height):
        image = image.resize((form.width, form.height), Image.Resampling.BILINEAR, reducing_gap=None)
    return image
