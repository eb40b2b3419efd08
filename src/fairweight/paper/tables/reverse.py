"""The sign of the look-ahead."""

from __future__ import annotations

from fairweight.paper.tables import Plan, Row
from fairweight.paper.tables._celeba import CelebaTable, same_rate
from fairweight.paper.tables._forml import with_reverse


class Reverse(CelebaTable):
    """CelebA: FORML with the look-ahead down the train loss, or up ("reverse")."""

    def rows(self, plan: Plan) -> tuple[Row, ...]:
        """Both signs, the product's default and Uniform."""
        plain, base = self.printed_forml(plan), self.base(plan)
        return (
            Row("forml", "No Reverse (Algorithm 1)", plain, "No Reverse", "forml"),
            Row("forml-reverse", "Reverse", with_reverse(plain), "Reverse", "forml"),
            Row("forml-default", "FORML, product default", self.default_forml(plan), None, "forml"),
            Row("uniform", "Uniform", base, None, "control", against=()),
            *same_rate("uniform", "forml"),
        )
