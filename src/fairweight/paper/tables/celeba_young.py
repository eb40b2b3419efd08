"""CelebA's other task."""

from __future__ import annotations

from fairweight.paper.tables import Row
from fairweight.paper.tables.celeba import Celeba


class CelebaYoung(Celeba):
    """CelebA, Young by Pale_Skin: Uniform and FORML."""

    label, group = "Young", "Pale_Skin"

    def rows(self) -> tuple[Row, ...]:
        """Without the baselines, which are not printed."""
        rows = self.main_rows(self.base())
        return tuple(row for row in rows if row.key not in ("random", "proportion", "lb"))
