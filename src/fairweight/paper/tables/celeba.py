"""CelebA."""

from __future__ import annotations

from typing import ClassVar

from fairweight.paper.tables import Plan, Row
from fairweight.paper.tables._celeba import FORML_OPTIONS, OPTIONS, CelebaTable


class Celeba(CelebaTable):
    """CelebA, Attractive by Male, ResNet-18, Adam, 10 epochs, 128x128."""

    options: ClassVar = {**FORML_OPTIONS, "random": OPTIONS["random"]}

    def rows(self, plan: Plan) -> tuple[Row, ...]:
        """The printed rows, and Uniform with its threshold moved to FORML's positive rate."""
        return tuple(self.main_rows(plan, {"Uniform", "Random", "Proportion", "LB"}))
