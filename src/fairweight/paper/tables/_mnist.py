"""What the two MNIST tables share."""

from __future__ import annotations

from typing import Any, ClassVar

from fairweight.paper.tables import Option, Plan, Size, Table
from fairweight.paper.tables._forml import GUESSES, MAX_LOSS, PER_CLASS, as_printed, as_product, max_loss
from fairweight.runs.spec import Spec

CORRUPTION = "one-class:label=2,fraction=0.2"
OPTIONS = {
    "validation": Option("clean", ("clean", "corrupted"), "whether the 5,000 held-out samples have their true labels"),
    "selection": Option("best", ("best", "last"), "which epoch counts: the best on the held-out samples, or the last"),
    "layers": Option("2", ("2", "3"), "hidden layers of 512: two as the paper says, three as the notebook of LB has"),
    "per_class": PER_CLASS,
    "max_loss": MAX_LOSS,
    "scale": GUESSES["scale"],
    "lb_iterations": Option("15", (), "trainings of LB; the notebook has 100"),
}
REMARKS = (
    "5,000 samples are held out of train, serve as exemplars and choose the epoch of every row, by accuracy: early "
    "stopping for all methods, as the paper's appendix has it. With selection=last no row chooses. What speaks for "
    "looking there too: Uniform then ends at its printed numbers, and under early stopping far below them.",
    "Adam at 1e-3, batches of 50 for 9 epochs: the 10,000 steps of LB's notebook on the 55,000 samples that remain.",
    "Rows that train on the exemplars keep a fifth of them back to choose the epoch. Alone they take as many steps as "
    "Uniform does; after Uniform, as many epochs.",
    "Layers start as torch starts them and inputs are standardised; the notebook's truncated normal is not copied.",
)


class MnistTable(Table):
    """An MLP on MNIST with 20 % of the training labels set to 2."""

    options: ClassVar = OPTIONS
    why_not_run = "10 seeds take about an hour of a GPU."
    remarks: ClassVar[tuple[str, ...]] = REMARKS
    sizes: ClassVar = {
        "quick": Size(
            "quick",
            "scikit-learn's 1,797 digits of 8x8 stand in for MNIST, so that nothing has to be fetched; 15 epochs.",
            seeds=3,
            epochs=15,
        ),
        "short": Size("short", "3 epochs in place of 9, 5 trainings of LB in place of 15.", seeds=5, epochs=3),
        "paper": Size("paper", "the paper's own: 10,000 steps.", seeds=10, epochs=9),
    }

    def base(self, plan: Plan, corrupted: bool = True) -> Spec:
        size = plan.size
        quick = size.name == "quick"
        data: dict[str, Any] = {
            # digits come in one part, of which a quarter is the test; MNIST's test part is given
            "split": {"validation": 0.15, "test": 0.25} if quick else {"validation": 5000 / 60000},
            "exemplar": {"source": "validation"},
        }
        if corrupted:
            data["corruptions"] = [CORRUPTION]
            if plan.options["validation"] == "corrupted":
                data["corrupt_parts"] = ["train", "validation", "exemplar"]
        layers, best = int(plan.number("layers")), plan.options["selection"] == "best"
        return Spec(
            "digits" if quick else "mnist",
            data=data,
            network={"name": "mlp", "hidden": [128 if quick else 512] * layers},
            method="uniform",
            optimizer="adam",
            lr=1e-3,
            epochs=size.epochs,
            batch_size=50,
            per_cell=int(plan.number("per_class")),
            early_stopping={"metric": "accuracy", "patience": size.epochs} if best else {},
        )

    def forml(self, plan: Plan) -> tuple[Spec, Spec]:
        """As printed, and the product's default."""
        base = self.base(plan)
        return as_printed(plan, base, max_loss(plan)), as_product(base, 10)
