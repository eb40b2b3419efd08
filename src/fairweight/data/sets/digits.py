"""Digits."""

from __future__ import annotations

from fairweight.data._found import Found, Request, digest
from fairweight.data.image.rows import ArrayStore, ImageRows


class Digits:
    """Digits: 1,797 handwritten digits, 8x8 grey, that come with scikit-learn; nothing to fetch."""

    label = "label"
    group: tuple[str, ...] = ()
    needs = ("scikit-learn",)

    def find(self, request: Request) -> Found:
        """All rows as train: test rows are drawn."""
        from sklearn.datasets import load_digits

        found = load_digits()
        pixels = (found.images[:, None] * 15).astype("uint8")  # 16 steps of grey over the range of a byte
        rows = ImageRows(ArrayStore(pixels), {"label": [str(value) for value in found.target]})
        return Found("digits", {"train": rows}, self.label, content={"train": digest(rows)})
