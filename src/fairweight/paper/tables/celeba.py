"""CelebA."""

from __future__ import annotations

from typing import Any, ClassVar

from fairweight.paper.tables import Plan, Row, Size
from fairweight.paper.tables._faces import FaceTable
from fairweight.paper.tables._forml import as_printed
from fairweight.runs.spec import Spec


class Celeba(FaceTable):
    """CelebA, Attractive by Male, ResNet-18, Adam, 10 epochs, 128x128."""

    why_not_run: ClassVar[str] = (
        "CelebA may not be redistributed: put img_align_celeba/ and its two lists into DATA/celeba. Every row was "
        "tried on 10,000 of its images."
    )
    remarks = (
        "The validation part is the exemplar set and chooses the epoch, by accuracy, for every method.",
        "LB moves its multipliers for equal opportunity after every epoch of one training.",
        "The network starts from random weights; no image is augmented.",
    )
    sizes: ClassVar = {
        "quick": Size(
            "quick", "a network 4 wide on 400 images of 32x32 for 2 epochs: the code path, not the numbers.",
            seeds=2, epochs=2, limit=400, network={"width": 4},
        ),
        "short": Size("short", "4 epochs in place of 10.", seeds=5, epochs=4),
        "paper": Size("paper", "the paper's own: 10 epochs.", seeds=5, epochs=10),
    }  # fmt: skip
    source, groups, batch_size, quick_per_cell = "celeba", 2, 256, 4
    label, group = "Attractive", "Male"

    def rows(self, plan: Plan) -> tuple[Row, ...]:
        return self.main_rows(plan, self.base(plan))

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
