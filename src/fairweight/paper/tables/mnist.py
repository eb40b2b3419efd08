"""MNIST with wrong labels."""

from __future__ import annotations

from typing import ClassVar

from fairweight.paper.tables import Plan, Row
from fairweight.paper.tables._forml import CLASS_BIAS, class_biases, heeding, plain_uses, three_rows
from fairweight.paper.tables._mnist import REMARKS, MnistTable
from fairweight.runs.spec import Spec


class Mnist(MnistTable):
    """MNIST, 20 % of the training labels set to 2, an MLP with two hidden layers."""

    remarks: ClassVar = (
        *REMARKS,
        "LB is the notebook's protocol: the net is trained anew for each value of the multiplier, weights act through "
        "sampling, and the predicted rate of label 2 on train is brought to 0.1; the last training counts. It has 15 "
        "trainings where the notebook has 100 (--option lb_iterations=100); by rate 1 the multiplier is still on its "
        "way after them, by rate 3 it has arrived.",
    )

    def rows(self, plan: Plan) -> tuple[Row, ...]:
        """The printed rows, and LB within one training and with its pivot on class recalls."""
        base = self.base(plan)
        quick, chosen = plan.size.name == "quick", plan.options["selection"] == "best"
        plain = plain_uses(base, 4 if quick else 11, chosen=chosen)  # 1,078 digits to 270; 55,000 to 5,000
        printed, default = self.forml(plan)
        tied = default.with_(method_options={"tie": "label"})
        l2rw = base.with_(method="l2rw", method_options={"objective": "mean"}, per_cell=default.per_cell)
        recall = base.with_(method="label-bias", method_options={"constraint": "equal-recall"})
        return (
            Row("uniform-clean", "Uniform (clean data)", self.base(plan, corrupted=False), "Uniform (clean data)"),
            Row("uniform", "Uniform", base, "Uniform", against=()),
            Row("lb", "LB", self.label_bias(plan), "LB"),
            Row("lb-rate-3", "LB, multiplier rate 3", self.label_bias(plan, rate=3.0), None, "control"),
            *three_rows(printed, default, plain=(*(row.key for row in plain), f"{CLASS_BIAS}-budget")),
            *plain,
            *class_biases("uniform"),
            Row("lb-online", "LB within one training", self.online(base), None, "control"),
            Row("lb-recall", "LB, equal recall of classes, online", recall, None, "extra"),
            Row("l2rw", "L2RW, cross entropy", l2rw, None, "extra"),
            Row("forml-tied", "FORML, one more score per class", tied, None, "extra"),
            heeding(default),
        )

    def label_bias(self, plan: Plan, rate: float = 1.0) -> Spec:
        """One training per value of the multiplier."""
        iterations = int(plan.number("lb_iterations"))
        if plan.size.name != "paper" and plan.options["lb_iterations"] == self.options["lb_iterations"].default:
            iterations = 3 if plan.size.name == "quick" else 5
        online = self.online(self.base(plan))
        return online.with_(
            method_options={**online.method_options, "online": False},
            search={
                "name": "multiplier",
                "iterations": iterations,
                "keep": "last",
                **({"rate": rate} if rate != 1 else {}),
            },
        )

    def online(self, base: Spec) -> Spec:
        """The multiplier moved after every epoch of one training."""
        options = {"constraint": "rate", "target": {"2": 0.1}, "through": "sampling"}
        return base.with_(method="label-bias", method_options=options)
