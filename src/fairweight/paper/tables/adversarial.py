"""The sign of the score step."""

from __future__ import annotations

from fairweight.paper.tables import Row
from fairweight.paper.tables._forml import with_reverse
from fairweight.paper.tables.celeba import Celeba


class Adversarial(Celeba):
    """CelebA: FORML with the scores moved down the meta-loss, or up ("reverse")."""

    def rows(self) -> tuple[Row, ...]:
        """Both signs under the reverse look-ahead, as the appendix has them, and under Algorithm 1's."""
        down, up = self.printed_forml(), self.printed_forml(up=True)
        return (
            Row("no-reverse", "No Reverse, reverse look-ahead", with_reverse(down), "No Reverse", "forml"),
            Row("reverse", "Reverse, reverse look-ahead", with_reverse(up), "Reverse", "forml"),
            Row("no-reverse-plain", "No Reverse, Algorithm 1", down, "No Reverse", "forml"),
            Row("reverse-plain", "Reverse, Algorithm 1", up, "Reverse", "forml"),
            *self.ends(),
        )
