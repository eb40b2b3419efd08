"""The meta-loss."""

from __future__ import annotations

from fairweight.paper.tables import Row
from fairweight.paper.tables.celeba import Celeba


class MetaLoss(Celeba):
    """CelebA: FORML with MaxLossD, MeanLossD or cross entropy as the meta-loss."""

    without = ()

    def rows(self) -> tuple[Row, ...]:
        """Each meta-loss by Algorithm 1, under the reverse look-ahead, and with the product's score step."""
        losses = {
            "max": ("MaxLossD", {"objective": self.objective("max-discrepancy")}),
            "mean": ("MeanLossD", {"objective": self.objective()}),
            # of the exemplar batch as it is drawn, evenly by cell; "mean" alone would weigh it back to natural shares
            "cross-entropy": ("Cross Entropy", {"objective": {"name": "mean", "natural": False}}),
        }
        return (*self.ablation(losses), *self.ends())
