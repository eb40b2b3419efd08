"""FairFace, where CelebA cannot be had."""

from __future__ import annotations

from typing import ClassVar

from fairweight.paper.tables import Option, Plan, Row, Size, Table
from fairweight.paper.tables._celeba import FORML_OPTIONS, OPTIONS, same_rate
from fairweight.paper.tables._forml import as_printed, as_product, three_rows
from fairweight.runs.spec import Spec

TASKS = {"gender": ("Gender", "gender"), "age": ("Age ≥ 30", "age>=30")}


class Fairface(Table):
    """Ours: FairFace, gender by race and age ≥ 30 by race, with the rows of the CelebA table."""

    printed = False
    options: ClassVar = {
        **FORML_OPTIONS,
        "random": OPTIONS["random"],
        "per_cell": Option("10", (), OPTIONS["per_cell"].about),
        "schedule": Option(
            "constant",
            ("constant", "cosine"),
            "Adam's learning rate: as for CelebA, or falling along a cosine",
        ),
    }
    remarks = (
        "ResNet-18, Adam at 1e-3, batches of 128, flips and shifts; a tenth of train is the validation part, which is "
        "the exemplar set and chooses the epoch, by accuracy, for every method.",
        "The published validation part is the test part.",
        "TPRD and maxFNR are over the seven races among the positives (male; 30 or older).",
        "LB moves its multipliers for equal opportunity after every epoch of one training.",
    )
    sizes: ClassVar = {
        "quick": Size(
            "quick",
            "a network 4 wide on 600 images for 2 epochs: the code path, not the numbers.",
            seeds=2,
            epochs=2,
            limit=600,
            network={"width": 4},
        ),
        "short": Size("short", "8 epochs in place of 20.", seeds=5, epochs=8),
        "paper": Size("paper", "ours: 20 epochs.", seeds=5, epochs=20),
    }

    def base(self, plan: Plan, label: str) -> Spec:
        """Uniform."""
        size = plan.size
        quick = size.name == "quick"
        data = {"split": {"validation": 0.1}, "exemplar": {"source": "validation"}}
        return Spec(
            "fairface",
            label=label,
            group="race",
            data={**data, "limit": size.limit} if size.limit is not None else data,
            network={"name": "resnet18", "stem": "large", **size.network},
            method="uniform",
            optimizer="adam",
            lr=1e-3,
            schedule={"name": "cosine"} if plan.options["schedule"] == "cosine" else {},
            epochs=size.epochs,
            batch_size=64 if quick else 128,
            per_cell=2 if quick else int(plan.number("per_cell")),
            autocast=None if quick else "bfloat16",
            augment=True,
            early_stopping={"metric": "accuracy", "patience": size.epochs},
        )

    def rows(self, plan: Plan) -> tuple[Row, ...]:
        """Both tasks."""
        rows: list[Row] = []
        for key, (title, label) in TASKS.items():
            rows += self.task(plan, key, title, self.base(plan, label))
        return tuple(rows)

    def task(self, plan: Plan, key: str, title: str, base: Spec) -> list[Row]:
        """The CelebA rows on one task."""
        plain, against = f"{key}-uniform", (f"{key}-uniform",)
        objective = {"name": "mean-discrepancy", "of": plan.options["mean_loss"], "among": plan.options["compared"]}
        random = base.with_(method="random", method_options={"kind": plan.options["random"]})
        bias = base.with_(method="label-bias", method_options={"constraint": "equal-opportunity"})
        printed = as_printed(plan, base, objective, base.per_cell)
        forml = f"{key}-forml"
        default = as_product(base, classes=2, groups=7)
        default = default.with_(per_cell=base.per_cell) if plan.size.name == "quick" else default
        three = three_rows(printed, default, "FORML", key=forml, title=f"{title}: FORML", against=against)
        return [
            Row(plain, f"{title}: Uniform", base, None, against=()),
            Row(f"{key}-random", f"{title}: Random", random, None, against=against),
            Row(f"{key}-proportion", f"{title}: Proportion", base.with_(method="proportion"), None, against=against),
            Row(f"{key}-lb", f"{title}: LB", bias, None, against=against),
            *three,
            *same_rate(plain, forml, f"{title}: Uniform"),
        ]
