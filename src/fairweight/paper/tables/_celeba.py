"""What the CelebA tables share."""

from __future__ import annotations

from typing import Any, ClassVar

from fairweight.paper.tables import Moved, Option, Plan, Row, Size, Table
from fairweight.paper.tables._forml import GUESSES, as_printed, as_product, three_rows
from fairweight.runs.spec import Spec

OPTIONS = {
    "compared": Option(
        "positives",
        ("positives", "all", "cells"),
        "which groups the meta-loss compares: those of positives, as TPRD does, all members, or label and group",
    ),
    "mean_loss": Option(
        "mean", ("mean", "pairs", "best"), "MeanLossD: distance from the mean, over pairs, from the best"
    ),
    "max_loss": Option(
        "range", ("range", "mean"), "MaxLossD: largest minus smallest, or largest distance from the mean"
    ),
    "per_cell": Option("20", (), "exemplars of each label and group in a batch"),
    "direction": Option(
        "gradient", ("gradient", "optimizer"), "the look-ahead: bare gradient descent, or Adam's preconditioned step"
    ),
    "random": Option("fixed", ("fixed", "redrawn", "uniform"), "how random weights are drawn"),
}
FORML_OPTIONS = {name: OPTIONS[name] for name in ("compared", "mean_loss", "per_cell", "direction")} | GUESSES
REMARKS = (
    "The validation part is the exemplar set and chooses the epoch, by accuracy, for every method.",
    "LB moves its multipliers for equal opportunity after every epoch of one training.",
    "The network starts from random weights; no image is augmented.",
)
SIZES = {
    "quick": Size(
        "quick",
        "a network 4 wide on 400 images of 32x32 for 2 epochs: the code path, not the numbers.",
        seeds=2,
        epochs=2,
        limit=400,
        network={"width": 4},
    ),
    "short": Size("short", "4 epochs in place of 10.", seeds=5, epochs=4),
    "paper": Size("paper", "the paper's own: 10 epochs.", seeds=5, epochs=10),
}


class CelebaTable(Table):
    """ResNet-18 on CelebA."""

    options: ClassVar = FORML_OPTIONS
    remarks = REMARKS
    sizes = SIZES
    label = "Attractive"
    group = "Male"

    def base(self, plan: Plan) -> Spec:
        """Uniform."""
        size = plan.size
        quick = size.name == "quick"
        data: dict[str, Any] = {
            "image": {"crop": 178, "size": 32 if quick else 128},
            "exemplar": {"source": "validation"},
        }
        return Spec(
            "celeba",
            label=self.label,
            group=self.group,
            data={**data, "limit": size.limit} if size.limit is not None else data,
            network={"name": "resnet18", "stem": "large", **size.network},
            method="uniform",
            optimizer="adam",
            lr=1e-3,
            epochs=size.epochs,
            batch_size=64 if quick else 256,
            per_cell=4 if quick else int(plan.number("per_cell")),
            autocast=None if quick else "bfloat16",
            early_stopping={"metric": "accuracy", "patience": size.epochs},
            data_seed=0,  # the split is published: seeds differ in the training alone
        )

    def objective(self, plan: Plan, name: str = "mean-discrepancy") -> dict[str, Any]:
        """MeanLossD or MaxLossD over the groups that are compared."""
        of = plan.options["mean_loss"] if name == "mean-discrepancy" else plan.options["max_loss"]
        return {"name": name, "of": of, "among": plan.options["compared"]}

    def printed_forml(self, plan: Plan, objective: Any = None, **options: Any) -> Spec:
        """FORML as Algorithm 1 prints it."""
        base = self.base(plan)
        chosen = self.objective(plan) if objective is None else objective
        return as_printed(plan, base, chosen, base.per_cell, **options)

    def default_forml(self, plan: Plan) -> Spec:
        """FORML as the product trains it."""
        made = as_product(self.base(plan), classes=2, groups=2)
        return made.with_(per_cell=4) if plan.size.name == "quick" else made

    def main_rows(self, plan: Plan, printed: set[str]) -> list[Row]:
        """Uniform, the baselines and FORML, each beside its printed row where there is one."""
        base = self.base(plan)
        random = {"kind": plan.options.get("random", OPTIONS["random"].default)}
        rows = [
            Row("uniform", "Uniform", base, "Uniform", against=()),
            Row(
                "random",
                "Random",
                base.with_(method="random", method_options=random),
                "Random",
            ),
            Row("proportion", "Proportion", base.with_(method="proportion"), "Proportion"),
            Row("lb", "LB", base.with_(method="label-bias", method_options={"constraint": "equal-opportunity"}), "LB"),
        ]
        kept = [row for row in rows if row.printed in printed]
        return [
            *kept,
            *three_rows(self.printed_forml(plan), self.default_forml(plan)),
            *same_rate("uniform", "forml"),
        ]


def same_rate(of: str, forml: str, title: str = "Uniform") -> list[Row]:
    """Uniform with its threshold moved to the positive rate of each FORML row."""
    words = {"": "Algorithm 1", "-reverse": "reverse", "-default": "default"}
    return [
        Row(
            f"{of}-at-{forml}{ending}",
            f"{title}, threshold at the rate of {word}",
            kind="control",
            moved=Moved("rate", of, f"{forml}{ending}"),
            against=(f"{forml}{ending}",),
        )
        for ending, word in words.items()
    ]
