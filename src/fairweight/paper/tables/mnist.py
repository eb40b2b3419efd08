"""MNIST with wrong labels."""

from __future__ import annotations

from typing import Any

from fairweight.paper.tables import Row, Table, _forml
from fairweight.runs.spec import Spec


class Mnist(Table):
    """MNIST, 20 % of the training labels set to 2, an MLP with two hidden layers."""

    protocol = "mnist"

    def base(self, corrupted: bool = True) -> Spec:
        quick, epochs = self.quick, self.size.epochs
        data: dict[str, Any] = {
            # digits come in one part, of which a quarter is the test; MNIST's test part is given
            "split": {"validation": 0.15, "test": 0.25} if quick else {"validation": 5000 / 60000},
            "exemplar": {"source": "validation"},
        }
        if corrupted:
            data["corruptions"] = ["one-class:label=2,fraction=0.2"]
            if self.options["validation"] == "corrupted":
                data["corrupt_parts"] = ["train", "validation", "exemplar"]
        best = self.options["selection"] == "best"
        return Spec(
            "digits" if quick else "mnist", data=data, network={"name": "mlp", "hidden": [128 if quick else 512] * 2},
            method="uniform", optimizer="adam", lr=1e-3, epochs=epochs, batch_size=50,
            per_cell=int(self.number("per_class")),
            early_stopping={"metric": "accuracy", "patience": epochs} if best else {},
        )  # fmt: skip

    def forml(self) -> tuple[Spec, Spec]:
        """As printed, and the product's default."""
        base = self.base()
        return _forml.as_printed(self, base, _forml.max_loss(self)), _forml.as_product(base, 10)

    def rows(self) -> tuple[Row, ...]:
        """The printed rows, and LB within one training and with its pivot on class recalls."""
        base = self.base()
        quick, chosen = self.quick, self.options["selection"] == "best"
        plain = _forml.plain_uses(base, 4 if quick else 11, chosen=chosen)  # 1,078 digits to 270; 55,000 to 5,000
        printed, default = self.forml()
        l2rw = base.with_(method="l2rw", method_options={"objective": "mean"}, per_cell=default.per_cell)
        recall = base.with_(method="label-bias", method_options={"constraint": "equal-recall"})
        online = {"constraint": "rate", "target": {"2": 0.1}, "through": "sampling"}
        return (
            Row("uniform-clean", "Uniform (clean data)", self.base(corrupted=False), "Uniform (clean data)"),
            Row("uniform", "Uniform", base, "Uniform", against=()),
            Row("lb", "LB", self.label_bias(online), "LB"),
            Row("lb-rate-3", "LB, multiplier rate 3", self.label_bias(online, rate=3.0), None, "control"),
            *_forml.three_rows(printed, default, plain=(*(row.key for row in plain), _forml.BUDGETED)),
            *plain,
            *_forml.class_biases("uniform"),
            Row("lb-online", "LB within one training", base.with_(method="label-bias", method_options=online), None,
                "control"),
            Row("lb-recall", "LB, equal recall of classes, online", recall, None, "extra"),
            Row("l2rw", "L2RW, cross entropy", l2rw, None, "extra"),
            Row("forml-tied", "FORML, one more score per class", default.with_(method_options={"tie": "label"}), None,
                "extra"),
            _forml.heeding(default),
        )  # fmt: skip

    def label_bias(self, options: dict[str, Any], **rate: float) -> Spec:
        """One training per value of the multiplier."""
        iterations = int(self.number("lb_iterations"))
        if self.size.name != "paper" and self.options["lb_iterations"] == self.known["lb_iterations"].default:
            iterations = 3 if self.quick else 5
        search = {"name": "multiplier", "iterations": iterations, "keep": "last", **rate}
        return self.base().with_(method="label-bias", method_options={**options, "online": False}, search=search)
