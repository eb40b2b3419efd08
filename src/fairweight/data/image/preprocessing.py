"""The way from image files to inputs, fixed on train rows; it travels with the model as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from fairweight.data.files import is_there
from fairweight.data.image.decode import Form
from fairweight.data.image.folder import FILE_COLUMNS, loose_images
from fairweight.data.image.normalize import Normalize, pixel_sums, statistics
from fairweight.data.image.pixels import HeldPixels
from fairweight.data.image.stream import Streamed
from fairweight.data.meaning import Meaning, New, with_tuples
from fairweight.data.options import ImageOptions, TableOptions
from fairweight.data.parts import Marked
from fairweight.data.rows import Rows
from fairweight.data.source import read_rows
from fairweight.data.texts import listing
from fairweight.errors import MissingColumn, MissingData, UnreadableImage, option
from fairweight.types import Batch


@dataclass(frozen=True)
class ImagePreprocessing:
    """The size and colours of the images, and each channel's mean and deviation over train."""

    kind: ClassVar[str] = "image"
    form: Form
    mean: tuple[float, ...]  # on the scale 0..1
    std: tuple[float, ...]
    meaning: Meaning
    resized: bool  # whether images were brought to this size, or had it

    @property
    def feature_names(self) -> tuple[str, ...]:
        return ()

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (len(self.mean), self.form.height or 0, self.form.width or 0)

    def read(
        self,
        source: str | Path,
        file_column: str | None = None,
        text: TableOptions | None = None,
        max_megapixels: float | None = None,
    ) -> New:
        """Read a new folder, list of files or parquet file, with labels and groups where it has them.

        Of a list of files, file_column names them where no usual name does, and text is how it is written.
        """
        size = (self.form.height or 1, self.form.width or 1) if self.resized else None
        channels: Literal[1, 3] = 1 if len(self.mean) == 1 else 3
        options = ImageOptions(size=size, crop=self.form.crop, channels=channels, file_column=file_column, cache=False)
        if max_megapixels is not None:
            options = replace(options, max_megapixels=max_megapixels)
        if not is_there(Path(source)):
            raise MissingData(f"there is no file or folder {str(source)!r}; check the path.")
        notes: list[str] = []
        rows = loose_images(Path(source), options) or read_rows(source, text or TableOptions(), options, notes)
        if rows.pixels is None:
            raise MissingColumn(
                f"no column of the list names image files; the columns are {listing(rows.names(), 12)}: name the one "
                f"that does with {option('image.file_column')}."
            )
        pixels = rows.pixels.read(torch.arange(len(rows)), notes)
        notes += rows.pixels.remarks()
        if pixels.shape[1:] != self.input_shape:
            ours, theirs = ("x".join(map(str, shape)) for shape in (pixels.shape[1:], self.input_shape))
            raise UnreadableImage(f"these images are {ours} and the model was trained on {theirs}; resize them.")
        known = (file_column,) if file_column is not None else FILE_COLUMNS
        files = next((rows.texts(name) for name in rows.names() if name in known or name.lower() in known), None)
        labels, groups = self.meaning.labels(rows), self.meaning.groups(rows, notes)
        return New(torch.from_numpy(pixels), labels, groups, tuple(notes), files, rows)

    def input_module(self) -> nn.Module:
        """Make what a model puts before its first layer: uint8 to normalised floats, on the device."""
        return Normalize(self.mean, self.std)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ImagePreprocessing:
        form, meaning = Form(**values["form"]), Meaning(**with_tuples(values["meaning"]))
        return cls(form, tuple(values["mean"]), tuple(values["std"]), meaning, values["resized"])


def image_samples(
    rows: Mapping[str, Rows], parts: Mapping[str, Marked], meaning: Meaning, options: ImageOptions, notes: list[str]
) -> tuple[dict[str, Batch | Streamed], ImagePreprocessing]:
    """Make the samples of every part, with what was fixed on train."""
    sources = {name: found.pixels for name, found in rows.items() if found.pixels is not None}
    samples: dict[str, Batch | Streamed] = {}
    for name, part in parts.items():
        samples[name] = _samples(sources[part.origin], part, options.memory_gb, name, notes)
    for origin in dict.fromkeys(part.origin for part in parts.values()):
        notes += sources[origin].remarks()
    samples = _alike(samples, notes)
    channels, height, width = _pixels(samples["train"]).shape[1:]
    sums = sources["train"].sums(parts["train"].rows)
    if sums is None or sums.shape[2] != channels:
        sums = pixel_sums(_pixels(samples["train"]).numpy())
    mean, std = statistics(sums, height * width)
    notes.append(f"Images: {channels}x{height}x{width} bytes each, normalised by the mean and deviation of train.")
    form = Form(height, width, options.crop, channels)
    return samples, ImagePreprocessing(form, mean, std, meaning, options.size is not None)


def _samples(source: HeldPixels, part: Marked, memory_gb: float, name: str, notes: list[str]) -> Batch | Streamed:
    size = len(part) * source.read(part.rows[:1], []).nbytes / 2**30
    path = source.mapped(notes) if size > memory_gb else None
    if path is None:
        return Batch(torch.from_numpy(source.read(part.rows, notes)), part.labels, part.groups, shares=part.shares)
    takes = f"The {name} images take {size:.1f} GiB, more than the {memory_gb:g} GiB allowed"
    notes.append(f"{takes}: they stream from a memory-mapped file.")
    return Streamed(path, part.rows, part.labels, part.groups, part.shares)


def _pixels(samples: Batch | Streamed) -> Tensor:
    pixels = samples.pixels if isinstance(samples, Streamed) else samples.inputs
    assert isinstance(pixels, Tensor)
    return pixels


def _alike(samples: dict[str, Batch | Streamed], notes: list[str]) -> dict[str, Batch | Streamed]:
    """Bring all parts to one shape: grey ones take three equal channels where others are coloured."""
    coloured = any(_pixels(part).shape[1] == 3 for part in samples.values())
    alike = dict(samples)
    for name, part in samples.items():
        if coloured and _pixels(part).shape[1] == 1 and isinstance(part, Batch):
            alike[name] = replace(part, inputs=_pixels(part).expand(-1, 3, -1, -1).contiguous())
            notes.append(f"All images of {name} are grey and others are not: they have three equal channels.")
    shapes = {name: "x".join(map(str, _pixels(part).shape[1:])) for name, part in alike.items()}
    for name, shape in shapes.items():
        if shape != shapes["train"]:
            raise UnreadableImage(
                f"images of {name} are {shape} and of train {shapes['train']} (channels, height, width); set "
                f"{option('image.size')} and {option('image.channels')} to bring all to one form."
            )
    return alike
