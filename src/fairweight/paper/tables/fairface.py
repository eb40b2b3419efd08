"""FairFace, where CelebA cannot be had."""

from __future__ import annotations

from typing import ClassVar

from fairweight.paper.tables import Option, Plan, Row, Size
from fairweight.paper.tables._faces import PER_CELL, FaceTable


class Fairface(FaceTable):
    """A stand-in for CelebA: FairFace, 9,000 + 2,000 faces of 64x64, gender by race and age ≥ 30 by race."""

    printed = False
    why_not_run = "FairFace stands in for CelebA: 9,000 training and 2,000 test faces of 64x64."
    options: ClassVar = {
        **FaceTable.options,
        "per_cell": Option("10", (), PER_CELL),
        "schedule": Option("constant", ("constant", "cosine"), "Adam's learning rate: constant, or along a cosine"),
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
            "quick", "a network 4 wide on 600 images for 2 epochs: the code path, not the numbers.",
            seeds=2, epochs=2, limit=600, network={"width": 4},
        ),
        "short": Size("short", "8 epochs in place of 20.", seeds=5, epochs=8),
        "paper": Size("paper", "ours: 20 epochs.", seeds=5, epochs=20),
    }  # fmt: skip
    source, groups, batch_size, quick_per_cell = "fairface", 7, 128, 2

    def rows(self, plan: Plan) -> tuple[Row, ...]:
        schedule = {"name": "cosine"} if plan.options["schedule"] == "cosine" else {}
        data = {"split": {"validation": 0.1}, "exemplar": {"source": "validation"}}
        rows: tuple[Row, ...] = ()
        for label, key, title in (("gender", "gender-", "Gender: "), ("age>=30", "age-", "Age ≥ 30: ")):
            base = self.spec(plan, label, "race", data, schedule=schedule, augment=True)
            rows += self.main_rows(plan, base, key, title)
        return rows
