"""How much more the samples with label 2 lose."""

from __future__ import annotations

from fairweight.paper.tables import Row
from fairweight.paper.tables._forml import three_rows
from fairweight.paper.tables.mnist import Mnist
from fairweight.runs.statistics import Number


class MnistLossRatio(Mnist):
    """MNIST as in the table mnist: EMA loss of the training samples with label 2 over that of the others."""

    without = ("lb_iterations",)
    explained = "The ratio rises with every epoch: stopped early, Uniform's is the printed one within its error."
    numbers = (
        # Uniform's is where FORML starts from; the paper calls a lower one better.
        Number("loss_ratio", "EMA loss, label 2 over others", "lower", unit=""),
        Number("weighted_loss_ratio", "EMA weighted loss, label 2 over others", "lower", unit=""),
    )

    @property
    def remarks(self) -> list[str]:
        return super().remarks[:-1]  # the last is of LB

    def rows(self) -> tuple[Row, ...]:
        """The runs of the table mnist, looked at otherwise."""
        return (Row("uniform", "Uniform", self.base(), "Uniform", against=()), *three_rows(*self.forml()))
