"""The way from image files to inputs, fixed on train rows; it travels with the model as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from fairweight.data._meaning import Meaning, New
from fairweight.data.image.decode import Form
from fairweight.data.normalize import Normalize
from fairweight.data.options import ImageOptions, TableOptions
from fairweight.errors import UnreadableImage


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
        """Pixels have no names."""
        return ()

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return (len(self.mean), self.form.height or 0, self.form.width or 0)

    def read(self, source: str | Path, file_column: str | None = None, text: TableOptions | None = None) -> New:
        """The pixels of a new folder, list of files or parquet file, with labels and groups where it has them.

        Of a list of files, file_column names them where no usual name does, and text is how it is written.
        """
        from fairweight.data.image.find import read_images
        from fairweight.data.image.folder import FILE_COLUMNS

        size = (self.form.height or 1, self.form.width or 1) if self.resized else None
        channels: Literal[1, 3] = 1 if len(self.mean) == 1 else 3
        options = ImageOptions(size=size, crop=self.form.crop, channels=channels, file_column=file_column, cache=False)
        notes: list[str] = []
        rows = read_images(Path(source), options, text or TableOptions(), notes)
        pixels = rows.store.read(torch.arange(len(rows)), notes)
        notes += rows.store.remarks()
        if pixels.shape[1:] != self.input_shape:
            ours, theirs = ("x".join(map(str, shape)) for shape in (pixels.shape[1:], self.input_shape))
            raise UnreadableImage(f"these images are {ours} and the model was trained on {theirs}; resize them.")
        known = (file_column,) if file_column is not None else FILE_COLUMNS
        files = next((rows.texts(name) for name in rows.names() if name in known or name.lower() in known), None)
        labels, groups = self.meaning.labels(rows), self.meaning.groups(rows)
        return New(torch.from_numpy(pixels), labels, groups, tuple(notes), files)

    def input_module(self) -> nn.Module:
        """What a model puts before its first layer: uint8 to normalised floats, on the device."""
        return Normalize(self.mean, self.std)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "kind": self.kind,
            "form": asdict(self.form),
            "mean": list(self.mean),
            "std": list(self.std),
            "meaning": self.meaning.to_dict(),
            "resized": self.resized,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ImagePreprocessing:
        """The preprocessing that to_dict described."""
        form, meaning = Form(**values["form"]), Meaning.from_dict(values["meaning"])
        return cls(form, tuple(values["mean"]), tuple(values["std"]), meaning, values["resized"])
