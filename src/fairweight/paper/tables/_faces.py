"""What the CelebA tables and FairFace share: ResNet-18 with Adam, the rows, and the same positive rate."""

from __future__ import annotations

from typing import Any, ClassVar

from fairweight.paper.tables import Moved, Option, Plan, Row, Size, Table
from fairweight.paper.tables._forml import GUESSES, as_printed, as_product, heeding, three_rows
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
    "per_cell": Option("20", (), "exemplars of each label and group in a batch"),
    **GUESSES,
}


class FaceTable(Table):
    """ResNet-18 on faces, a binary label by a group."""

    options: ClassVar = OPTIONS
    source: str
    groups: int
    batch_size: int
    quick_per_cell: int

    def spec(self, plan: Plan, label: str, group: str, data: dict[str, Any], **more: Any) -> Spec:
        size = plan.size
        quick = size.name == "quick"
        return Spec(
            self.source,
            label=label,
            group=group,
            data=data if size.limit is None else {**data, "limit": size.limit},
            network={"name": "resnet18", "stem": "large", **size.network},
            method="uniform",
            optimizer="adam",
            lr=1e-3,
            epochs=size.epochs,
            batch_size=64 if quick else self.batch_size,
            per_cell=self.quick_per_cell if quick else int(plan.number("per_cell")),
            autocast=None if quick else "bfloat16",
            early_stopping={"metric": "accuracy", "patience": size.epochs},
            **more,
        )

    def objective(self, plan: Plan, name: str = "mean-discrepancy") -> dict[str, Any]:
        """MeanLossD or MaxLossD over the groups that are compared."""
        of = plan.options["mean_loss"] if name == "mean-discrepancy" else plan.options["max_loss"]
        return {"name": name, "of": of, "among": plan.options["compared"]}

    def default_forml(self, plan: Plan, base: Spec) -> Spec:
        """FORML as the product trains it."""
        made = as_product(base, classes=2, groups=self.groups)
        return made.with_(per_cell=base.per_cell) if plan.size.name == "quick" else made

    def main_rows(self, plan: Plan, base: Spec, task: str = "", title: str = "") -> tuple[Row, ...]:
        """Uniform, the baselines, FORML, and Uniform at FORML's positive rates; of a task beside others, if named."""
        plain, forml = f"{task}uniform", f"{task}forml"
        kind = {"kind": plan.options.get("random", "fixed")}
        equal = {"constraint": "equal-opportunity"}
        specs = {
            "Uniform": base,
            "Random": base.with_(method="random", method_options=kind),
            "Proportion": base.with_(method="proportion"),
            "LB": base.with_(method="label-bias", method_options=equal),
        }
        rows = []
        for name, spec in specs.items():
            against = () if name == "Uniform" else (plain,)
            printed = None if task else name
            rows.append(Row(f"{task}{name.lower()}", f"{title}{name}", spec, printed, against=against))
        algorithm_1, default = as_printed(plan, base, self.objective(plan)), self.default_forml(plan, base)
        return (
            *rows,
            *three_rows(algorithm_1, default, key=forml, title=f"{title}FORML", against=(plain,)),
            heeding(default, (plain,), key=forml, title=f"{title}FORML"),
            *same_rate(plain, forml, f"{title}Uniform"),
        )


class CelebaTable(FaceTable):
    """CelebA, Attractive by Male unless a table says otherwise."""

    why_not_run: ClassVar[str] = (
        "CelebA's terms forbid passing it on, and it is not at hand: put img_align_celeba/ and its two lists into "
        "DATA/celeba. On 10,000 of its images every row runs."
    )
    remarks = (
        "The validation part is the exemplar set and chooses the epoch, by accuracy, for every method.",
        "LB moves its multipliers for equal opportunity after every epoch of one training.",
        "The network starts from random weights; no image is augmented.",
    )
    sizes: ClassVar = {
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
    source, groups, batch_size, quick_per_cell = "celeba", 2, 256, 4
    label, group = "Attractive", "Male"

    def base(self, plan: Plan) -> Spec:
        """Uniform; the split is published, so seeds differ in the training alone."""
        image = {"crop": 178, "size": 32 if plan.size.name == "quick" else 128}
        data = {"image": image, "exemplar": {"source": "validation"}}
        return self.spec(plan, self.label, self.group, data, data_seed=0)

    def printed_forml(self, plan: Plan, objective: Any = None, **options: Any) -> Spec:
        """FORML as Algorithm 1 prints it."""
        return as_printed(plan, self.base(plan), objective or self.objective(plan), **options)

    def ends(self, plan: Plan) -> tuple[Row, Row]:
        """The product's default and Uniform, beside the rows of an ablation."""
        base = self.base(plan)
        return (
            Row("forml-default", "FORML, default of 0.1", self.default_forml(plan, base), None, "forml"),
            Row("uniform", "Uniform", base, None, "control", against=()),
        )


def same_rate(of: str, forml: str, title: str = "Uniform") -> list[Row]:
    """Uniform with its threshold moved to the positive rate of each FORML row."""
    return [
        Row(
            f"{of}-at-{forml}{ending}",
            f"{title}, threshold at the rate of {words}",
            kind="control",
            moved=Moved("rate", of, f"{forml}{ending}"),
            against=(f"{forml}{ending}",),
        )
        for ending, words in {"": "Algorithm 1", "-reverse": "reverse", "-default": "default"}.items()
    ]
