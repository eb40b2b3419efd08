"""CelebA's other task."""

from __future__ import annotations

from fairweight.paper.tables import Plan, Row
from fairweight.paper.tables._celeba import CelebaTable


class CelebaYoung(CelebaTable):
    """CelebA, Young by Pale_Skin: Uniform and FORML."""

    label = "Young"
    group = "Pale_Skin"

    def rows(self, plan: Plan) -> tuple[Row, ...]:
        """The printed rows, and Uniform with its threshold moved to FORML's positive rate."""
        return tuple(self.main_rows(plan, {"Uniform"}))
