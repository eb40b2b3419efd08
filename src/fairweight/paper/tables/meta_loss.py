"""The meta-loss."""

from __future__ import annotations

from typing import ClassVar

from fairweight.paper.tables import Plan, Row
from fairweight.paper.tables._celeba import FORML_OPTIONS, OPTIONS, CelebaTable
from fairweight.paper.tables._forml import three_rows


class MetaLoss(CelebaTable):
    """CelebA: FORML with MaxLossD, MeanLossD or cross entropy as the meta-loss."""

    options: ClassVar = {**FORML_OPTIONS, "max_loss": OPTIONS["max_loss"]}

    def rows(self, plan: Plan) -> tuple[Row, ...]:
        """Each meta-loss by Algorithm 1, under the reverse look-ahead, and with the product's score step."""
        base = self.base(plan)
        losses = {
            "max": ("MaxLossD", self.objective(plan, "max-discrepancy")),
            "mean": ("MeanLossD", self.objective(plan)),
            # of the exemplar batch as it is drawn, evenly by cell; "mean" alone would weigh it back to natural shares
            "cross-entropy": ("Cross Entropy", {"name": "mean", "natural": False}),
        }
        rows: list[Row] = []
        for key, (title, objective) in losses.items():
            default = base.with_(method="forml", method_options={"objective": objective})
            rows += three_rows(self.printed_forml(plan, objective), default, title, key=key, title=title)
        own = Row("forml-default", "FORML, product default", self.default_forml(plan), None, "forml")
        return (*rows, own, Row("uniform", "Uniform", base, None, "control", against=()))
