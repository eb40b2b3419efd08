"""CelebA."""

from __future__ import annotations

from typing import ClassVar

from fairweight.paper.tables import Plan, Row
from fairweight.paper.tables._faces import OPTIONS, CelebaTable
from fairweight.paper.tables._forml import RANDOM


class Celeba(CelebaTable):
    """CelebA, Attractive by Male, ResNet-18, Adam, 10 epochs, 128x128."""

    options: ClassVar = {**OPTIONS, "random": RANDOM}

    def rows(self, plan: Plan) -> tuple[Row, ...]:
        return self.main_rows(plan, self.base(plan))
