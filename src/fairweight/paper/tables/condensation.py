"""A smaller training set."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from fairweight.paper.tables import Option, Plan, Row
from fairweight.paper.tables._cifar import OPTIONS, CifarTable, sizes
from fairweight.paper.tables._forml import as_printed, as_product, max_loss, with_reverse
from fairweight.runs.spec import Spec

MEASURES = {
    "weight": "ema_weighted_loss",
    "epoch": "ema_relative_weighted_loss",
    "set": "ema_set_weighted_loss",
    "loss": "ema_relative_loss",
}


class Condensation(CifarTable):
    """CIFAR-100 without the tenth that FORML, on the 1,000 least-forgotten exemplars, finds least worth; retrained."""

    source = "cifar100"
    why_not_run = "200 epochs of 8 rows and 5 seeds, with the runs that they build on, take about 6 hours of an H200."
    sizes = sizes(seeds=5, limit=600)
    exemplars = 50
    classes = 100
    options: ClassVar = {
        **{name: OPTIONS[name] for name in ("per_class", "max_loss", "scale", "statistics", "decay", "schedule")},
        "drop": Option("0.1", (), "the share of the training samples that is dropped"),
        "forgetting_runs": Option("2", (), "Uniform trainings whose forgetting events are added up"),
        "exemplars": Option(
            "balanced", ("balanced", "lowest"), "ten least-forgotten of each class, or the 1,000 lowest of all"
        ),
        "ties": Option(
            "loss",
            ("loss", "random", "learned"),
            "of equally forgotten samples: those of the lower EMA loss, any, or those learned earliest, are exemplars",
        ),
        "normalised": Option(
            "weight",
            ("weight", "epoch", "set", "loss"),
            "the weighted loss that is averaged: with the weight in the batch; that divided by each epoch's mean; with "
            "the weight over the whole set; or the loss alone, divided by each epoch's mean",
        ),
        "ema": Option("0.9", ("0.9", "0.99"), "the decay of the averages of each sample's losses over epochs"),
        "within": Option("all", ("all", "class"), "whether the tenth is taken over all samples or within each class"),
    }
    remarks = (
        "Dropped are the lowest EMA of weight times loss, the weight being the softmax weight in the batch times its "
        "size.",
        "Each seed has its own forgetting runs, its own FORML run, its own subset and its own retraining.",
        "The exemplars stay in the training set; their batches are not augmented.",
    )

    def base(self, plan: Plan) -> Spec:
        """Uniform on all of train, which is the same for every seed."""
        return super().base(plan).with_(data_seed=0)

    def rows(self, plan: Plan) -> tuple[Row, ...]:
        """The printed rows, and what else could choose the same number of samples."""
        base = self.base(plan)
        measured = base.with_(ema_decay=plan.number("ema"))
        uniform = [base] * int(plan.number("forgetting_runs"))
        printed = self.chooser(plan, measured, uniform)
        drop = plan.number("drop")

        def lowest(measure: str, runs: list[Spec]) -> dict[str, Any]:
            plain = [run.to_dict() for run in runs]
            return {"drop": drop, "lowest": measure, "runs": plain, "within": plan.options["within"]}

        def row(
            key: str,
            title: str,
            rule: dict[str, Any],
            printed_row: str | None = None,
            kind: Literal["forml", "control"] = "control",
        ) -> Row:
            against = ("uniform-50k", "random-45k")
            return Row(key, title, base.with_(rows={"train": rule}), printed_row, kind, against=against)

        measure = MEASURES[plan.options["normalised"]]
        by_forml, kept = lowest(measure, [printed]), {"drop": drop, "random": 0}
        reverse, default = (
            lowest(measure, [with_reverse(printed)]),
            lowest(measure, [as_product(printed, self.classes)]),
        )
        return (
            Row("uniform-50k", "Uniform 50k", base, "Uniform 50k", against=()),
            Row("random-45k", "Random 45k", base.with_(rows={"train": kept}), "Random 45k", against=("uniform-50k",)),
            row("forml-45k", "FORML 45k, Algorithm 1", by_forml, "FORML 45k", "forml"),
            row("forml-45k-reverse", "FORML 45k, reverse look-ahead", reverse, "FORML 45k", "forml"),
            row("forml-45k-default", "FORML 45k, default of 0.1", default, kind="forml"),
            row("ema-loss-45k", "EMA of Uniform's loss 45k", lowest("ema_loss", [measured])),
            row("forgetting-45k", "Forgetting events 45k", lowest("forgetting_events", uniform)),
            row("random-same-45k", "Random 45k, FORML's counts per class", {**kept, "like": by_forml}),
        )

    def chooser(self, plan: Plan, base: Spec, forgetting: list[Spec]) -> Spec:
        """FORML on the least-forgotten exemplars: its history says what to drop."""
        exemplar: dict[str, Any] = {
            "size": 1000 if plan.size.limit is None else 300,
            "lowest": "forgetting_events",
            "runs": [run.to_dict() for run in forgetting],
            "balanced": plan.options["exemplars"] == "balanced",
        }
        if plan.options["ties"] != "loss":
            exemplar["ties"] = {"random": 0} if plan.options["ties"] == "random" else plan.options["ties"]
        return as_printed(plan, base, max_loss(plan)).with_(rows={"exemplar": exemplar})
