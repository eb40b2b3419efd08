"""What CelebA and FairFace share: ResNet-18 with Adam, the rows, and the same positive rate."""

from __future__ import annotations

from typing import Any

from fairweight.paper.tables import Moved, Row, Table
from fairweight.paper.tables._forml import as_printed, as_product, heeding, three_rows
from fairweight.runs.spec import Spec


class FaceTable(Table):
    """ResNet-18 on faces, a binary label by a group."""

    source: str
    groups: int
    batch_size: int
    quick_per_cell: int

    def spec(self, label: str, group: str, data: dict[str, Any], **more: Any) -> Spec:
        size, quick = self.size, self.quick
        return Spec(
            self.source, label=label, group=group, data=data if size.limit is None else {**data, "limit": size.limit},
            network={"name": "resnet18", "stem": "large", **size.network},
            method="uniform", optimizer="adam", lr=1e-3, epochs=size.epochs,
            batch_size=64 if quick else self.batch_size,
            per_cell=self.quick_per_cell if quick else int(self.number("per_cell")),
            autocast=None if quick else "bfloat16",
            early_stopping={"metric": "accuracy", "patience": size.epochs}, **more,
        )  # fmt: skip

    def objective(self, name: str = "mean-discrepancy") -> dict[str, Any]:
        """MeanLossD or MaxLossD over the groups that are compared."""
        of = self.options["mean_loss"] if name == "mean-discrepancy" else self.options["max_loss"]
        return {"name": name, "of": of, "among": self.options["compared"]}

    def default_forml(self, base: Spec) -> Spec:
        """FORML as the product trains it."""
        default = as_product(base, classes=2, groups=self.groups)
        return default.with_(per_cell=base.per_cell) if self.quick else default

    def main_rows(self, base: Spec, task: str = "", title: str = "") -> tuple[Row, ...]:
        """Uniform, the baselines, FORML, and Uniform at FORML's positive rates; of a task beside others, if named."""
        plain, forml = f"{task}uniform", f"{task}forml"
        specs = {
            "Uniform": base,
            "Random": base.with_(method="random", method_options={"kind": "fixed"}),
            "Proportion": base.with_(method="proportion"),
            "LB": base.with_(method="label-bias", method_options={"constraint": "equal-opportunity"}),
        }
        rows = [
            Row(f"{task}{name.lower()}", f"{title}{name}", spec, None if task else name,
                against=() if name == "Uniform" else (plain,))
            for name, spec in specs.items()
        ]  # fmt: skip
        algorithm_1, default = as_printed(self, base, self.objective()), self.default_forml(base)
        return (
            *rows,
            *three_rows(algorithm_1, default, key=forml, title=f"{title}FORML", against=(plain,)),
            heeding(default, (plain,), key=forml, title=f"{title}FORML"),
            *same_rate(plain, forml, f"{title}Uniform"),
        )


def same_rate(of: str, forml: str, title: str = "Uniform") -> list[Row]:
    """Uniform with its threshold moved to the positive rate of each FORML row."""
    rows = {forml: "Algorithm 1", f"{forml}-reverse": "reverse", f"{forml}-default": "default"}
    return [
        Row(f"{of}-at-{key}", f"{title}, threshold at the rate of {words}", kind="control",
            moved=Moved("rate", of, key), against=(key,))
        for key, words in rows.items()
    ]  # fmt: skip
