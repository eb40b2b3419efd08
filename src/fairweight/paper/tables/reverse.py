"""The sign of the look-ahead."""

from __future__ import annotations

from fairweight.paper.tables import Row
from fairweight.paper.tables._faces import same_rate
from fairweight.paper.tables._forml import with_reverse
from fairweight.paper.tables.celeba import Celeba


class Reverse(Celeba):
    """CelebA: FORML with the look-ahead down the train loss, or up ("reverse")."""

    def rows(self) -> tuple[Row, ...]:
        """Both signs, the product's default and Uniform."""
        plain = self.printed_forml()
        return (
            Row("forml", "No Reverse (Algorithm 1)", plain, "No Reverse", "forml"),
            Row("forml-reverse", "Reverse", with_reverse(plain), "Reverse", "forml"),
            *self.ends(),
            *same_rate("uniform", "forml"),
        )
