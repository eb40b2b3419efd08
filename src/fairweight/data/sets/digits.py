"""Digits."""

from __future__ import annotations

from fairweight.data.image.pixels import HeldPixels
from fairweight.data.rows import Rows
from fairweight.data.source import Found, Request


class Digits:
    """Digits: 1,797 handwritten digits, 8x8 grey, that come with scikit-learn; nothing to fetch."""

    label = "label"
    group: tuple[str, ...] = ()
    needs = ("scikit-learn",)

    def find(self, request: Request) -> Found:
        import pandas as pd
        from sklearn.datasets import load_digits

        digits = load_digits()
        pixels = (digits.images[:, None] * 15).astype("uint8")  # 16 steps of grey over the range of a byte
        return Found("digits", {"train": Rows(pd.DataFrame({"label": digits.target}), HeldPixels(pixels))}, self.label)
