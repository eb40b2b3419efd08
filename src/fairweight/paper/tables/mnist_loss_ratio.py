"""How much more the samples with label 2 lose."""

from __future__ import annotations

from typing import ClassVar

from fairweight.paper.tables import Plan, Row
from fairweight.paper.tables._forml import three_rows
from fairweight.paper.tables.mnist import Mnist
from fairweight.runs.statistics import Number


class MnistLossRatio(Mnist):
    """MNIST as in the table mnist: EMA loss of the training samples with label 2 over that of the others."""

    options: ClassVar = {name: option for name, option in Mnist.options.items() if name != "lb_iterations"}
    remarks = Mnist.remarks[:-1]
    numbers = (
        # Uniform's is where FORML starts from; the paper calls a lower one better.
        Number("loss_ratio", "EMA loss, label 2 over others", "lower", unit=""),
        Number("weighted_loss_ratio", "EMA weighted loss, label 2 over others", "lower", unit=""),
    )

    def rows(self, plan: Plan) -> tuple[Row, ...]:
        """The runs of the table mnist, looked at otherwise."""
        return (Row("uniform", "Uniform", self.base(plan), "Uniform", against=()), *three_rows(*self.forml(plan)))
