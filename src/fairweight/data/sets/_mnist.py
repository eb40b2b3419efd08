"""MNIST and its relatives: the four idx files, packed or not, or parquet."""

from __future__ import annotations

from pathlib import Path

from fairweight.data._found import Found, Request
from fairweight.data.image.idx import idx_rows
from fairweight.data.image.rows import ImageRows
from fairweight.data.options import ImageOptions
from fairweight.data.sets._local import Place, image_found, parquet_parts

PAIRS = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
NEEDS = tuple(f"{name}(.gz)" for pair in PAIRS.values() for name in pair)


def find_idx(place: Place, names: tuple[str, ...], request: Request) -> Found:
    """The two parts, from idx files or parquet."""
    image = request.options.image or ImageOptions()

    def read(folder: Path) -> dict[str, ImageRows] | None:
        for where in (folder, folder / "raw", folder / "MNIST" / "raw", folder / "FashionMNIST" / "raw"):
            files = {part: [_either(where, name) for name in pair] for part, pair in PAIRS.items()}
            parts = {}
            for part, (images, labels) in files.items():
                if images is not None and labels is not None:
                    parts[part] = idx_rows(images, labels, names)
            if len(parts) == 2:
                return parts
        return parquet_parts(folder, image, {}, {"label": names})

    return image_found(place.name, place.search(request, read), "label", image)


def _either(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)
