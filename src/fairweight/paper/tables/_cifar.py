"""What the two CIFAR tables share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from fairweight.paper.tables import Moved, Option, Plan, Row, Size, Table
from fairweight.paper.tables._forml import GUESSES, as_printed, as_product, heeding, three_rows
from fairweight.runs.spec import Spec

OPTIONS = {
    "exemplar": Option(
        "heldout",
        ("heldout", "inside"),
        "whether the 5,000 exemplars leave the training set, as the text says, or stay",
    ),
    "per_class": Option("3", (), "exemplars of each class in a batch, for the rows as printed"),
    "exemplar_batch": Option(
        "cells", ("cells", "batch"), "an exemplar batch: so many of each class, or at least as many as a training batch"
    ),
    "augment_exemplars": Option("no", ("no", "yes"), "whether exemplar batches are flipped and shifted as batches are"),
    "direction": Option(
        "gradient",
        ("gradient", "optimizer"),
        "the look-ahead of the rows as printed: bare gradient descent, or SGD's own step with momentum and decay",
    ),
    "max_loss": Option(
        "range", ("range", "mean"), "MaxLossD: largest minus smallest, or largest distance from the mean"
    ),
    **GUESSES,
    "decay": Option(
        "0.1",
        ("0.1", "0.2"),
        "what the rate is multiplied by at 30, 60 and 80 % of the epochs; the text has 0.1; 0.2 met CIFAR-10's Uniform",
    ),
    "schedule": Option(
        "auto",
        ("auto", "step", "cosine"),
        "how the learning rate falls: in steps, or along a cosine where the schedule is shortened",
    ),
    "random": Option("fixed", ("fixed", "redrawn", "uniform"), "how random weights are drawn"),
    "lb_measure": Option("train", ("train", "exemplar"), "where LB measures its violation"),
    "mwn": Option("normalised", ("normalised", "stable"), "which of the two published Meta-Weight-Nets"),
    "moew": Option("short", ("short", "full"), "whether the best short candidate is used, or its weights retrained"),
}
REMARKS = (
    "LB moves its multipliers after every epoch of one training, with the mean recall over classes as the pivot: the "
    "paper says nothing, and one training per value is not affordable here.",
)


DRAWING = ("forml", "l2rw", "meta-weight-net")  # methods that draw exemplars at every step
TIED_RATE = 0.003  # of one score per class: of the rates of benchmarks/class_fairness.py the best trade-off


class CifarTable(Table):
    """ResNet-18 on CIFAR, the class as the attribute."""

    options: ClassVar = OPTIONS
    remarks: ClassVar[tuple[str, ...]] = REMARKS
    source: str
    exemplars: int  # of each class
    classes: int
    hard: ClassVar[Mapping[int, float]] = {}  # classes that are known to be hard: the static weights of an extra row
    rounds: int  # of MOEW's search

    def base(self, plan: Plan) -> Spec:
        """Uniform on all of train; the exemplars stay in it."""
        size = plan.size
        at = [round(part * size.epochs) for part in (0.3, 0.6, 0.8)]
        step = {"name": "step", "at": at, "factor": plan.number("decay")}
        return Spec(
            self.source,
            data=self.data(plan, inside=True),
            network={"name": "resnet18", "stem": "small", **size.network},
            method="uniform",
            optimizer="sgd",
            lr=0.1,
            momentum=0.9,
            nesterov=True,
            weight_decay=5e-4,
            schedule=step if in_steps(plan) else {"name": "cosine", "warm_up": warm_up(size)},
            epochs=size.epochs,
            batch_size=128 if size.limit is None else 64,
            per_cell=int(plan.number("per_class")),
            autocast=None if size.name == "quick" else "bfloat16",
            augment=True,
        )

    def data(self, plan: Plan, *, inside: bool) -> dict[str, Any]:
        """What is said of the data."""
        each = self.exemplars if plan.size.limit is None else 100 // self.classes + 2
        exemplar = {"source": "train", "size": each, "inside": inside}
        found: dict[str, Any] = {"split": {"validation": 0.0}, "exemplar": exemplar}
        return found if plan.size.limit is None else {**found, "limit": plan.size.limit}

    def rows(self, plan: Plan) -> tuple[Row, ...]:
        """The printed rows, uniform on the same rows as the methods that hold exemplars out, and extra ones."""
        whole = self.base(plan)
        held = plan.options["exemplar"] == "heldout"
        part = whole.with_(data=self.data(plan, inside=False)) if held else whole
        same = Row("uniform-same", "Uniform, exemplars held out too", part, None, "control")
        beside = ("uniform", "uniform-same") if held else ("uniform",)
        max_loss = {"name": "max-discrepancy", "of": plan.options["max_loss"]}
        printed = as_printed(plan, part, max_loss, int(plan.number("per_class")))
        default = as_product(part, self.classes)
        rows = [
            Row("uniform", "Uniform / Proportion", whole, "Uniform / Proportion", against=()),
            *([same] if held else []),
            Row(
                "random",
                "Random",
                whole.with_(method="random", method_options={"kind": plan.options["random"]}),
                "Random",
            ),
            Row("moew", "MOEW", self.moew(plan, part), "MOEW", against=beside),
            Row("mwn", "MWN", self.mwn(plan, part), "MWN", against=beside),
            Row("lb", "LB", self.label_bias(plan, whole if plan.options["lb_measure"] == "train" else part), "LB"),
            *three_rows(printed, default, against=beside),
            *self.extras(part, default, beside),
            *([self.refit(whole, default)] if held else []),
        ]
        if plan.options["augment_exemplars"] == "yes":
            rows = [_with_exemplars(row, augment_exemplars=True) for row in rows]
        if plan.options["exemplar_batch"] == "batch":
            rows = [_with_exemplars(row, exemplar_batch=whole.batch_size) for row in rows]
        return tuple(rows)

    def mwn(self, plan: Plan, base: Spec) -> Spec:
        """Meta-Weight-Net with cross entropy on the exemplar set."""
        normalised = plan.options["mwn"] == "normalised"
        return base.with_(method="meta-weight-net", method_options={"normalised": normalised, "objective": "mean"})

    def label_bias(self, plan: Plan, base: Spec) -> Spec:
        """LB with the class as the attribute, online."""
        options = {"constraint": "equal-recall", "measured_on": plan.options["lb_measure"]}
        return base.with_(method="label-bias", method_options=options)

    def moew(self, plan: Plan, base: Spec) -> Spec:
        """A search over class weights by maxFNR on the exemplar set."""
        quick = plan.size.name == "quick"
        search = {
            "name": "alpha",
            "rounds": 1 if quick else self.rounds,
            "per_round": 2 if quick else 5,
            "short": {"epochs": max(1, min(15, plan.size.epochs // 2)), "schedule": {"name": "cosine"}},
            "retrain": plan.options["moew"] == "full",
        }
        return base.with_(method="moew", search=search)

    def tied(self, base: Spec, rate: float, per_cell: int) -> Spec:
        """FORML with one score per class, and none of the samples' own."""
        step = {"name": "adaptive", "rate": rate}
        one_each = {"objective": "mean + variance", "tie": "label", "own": False, "score_step": step}
        return base.with_(method="forml", method_options=one_each, per_cell=per_cell)

    def refit(self, whole: Spec, default: Spec) -> Row:
        """A second training, on all rows, with the class weights that FORML learned while exemplars were held out."""
        first = self.tied(default, TIED_RATE, default.per_cell)
        again = whole.with_(method="given", weights={"runs": [first.to_dict()]})
        return Row("forml-refit", "FORML, one score per class, then all rows", again, None, "extra")

    def extras(self, base: Spec, default: Spec, beside: tuple[str, ...]) -> list[Row]:
        """What else the front of TPRD against accuracy is drawn with."""
        difficulty = base.with_(method="class-difficulty")
        strong = base.with_(method="class-difficulty", method_options={"tau": 2.0})
        dro = base.with_(method="group-dro", method_options={"by": "label"})
        tied = self.tied(base, TIED_RATE, default.per_cell)
        faster = self.tied(base, 0.01, default.per_cell)
        fair = base.with_(method="meta-weight-net", method_options={"objective": "max-discrepancy"})
        l2rw = base.with_(method="l2rw", method_options={"objective": "mean + variance"}, per_cell=default.per_cell)
        bias = Moved("class-bias", of=beside[-1])
        fixed = base.with_(
            method="moew", method_options={"alpha": [self.hard.get(k, -0.5) for k in range(self.classes)]}
        )
        static = Row("static-weights", "Static class weights by hand", fixed, None, "extra", against=beside)
        return [
            *([static] if self.hard else []),
            Row("forml-tied", "FORML, one score per class", tied, None, "extra", against=beside),
            Row("forml-tied-faster", "FORML, one score per class, rate 0.01", faster, None, "extra", against=beside),
            heeding(default, beside),
            Row("mwn-fair", "MWN, MaxLossD", fair, None, "extra", against=beside),
            Row("l2rw", "L2RW, mean + variance", l2rw, None, "extra", against=beside),
            Row("class-difficulty", "Class weights by difficulty", difficulty, None, "extra", against=beside),
            Row("class-difficulty-2", "Class weights by difficulty, τ = 2", strong, None, "extra", against=beside),
            Row("group-dro", "GroupDRO over classes", dro, None, "extra", against=beside),
            Row("class-bias", "Uniform with a bias per class", None, None, "extra", moved=bias, against=beside),
        ]


def _with_exemplars(row: Row, **how: Any) -> Row:
    """The row, where it or the run that it takes weights from draws exemplars at every step, with others."""
    if row.spec is None:
        return row
    if row.spec.weights:
        runs = [Spec.from_dict(values).with_(**how).to_dict() for values in row.spec.weights["runs"]]
        return replace(row, spec=row.spec.with_(weights={"runs": runs}))
    return replace(row, spec=row.spec.with_(**how)) if row.spec.method in DRAWING else row


def in_steps(plan: Plan) -> bool:
    """Whether the learning rate falls in steps: a few epochs at its height do not train a network."""
    return plan.options["schedule"] == "step" or (plan.options["schedule"] == "auto" and plan.size.name == "paper")


def warm_up(size: Size) -> int:
    """Epochs over which the learning rate rises: begun at its height, a network 64 wide first loses ground."""
    return 0 if size.name == "quick" else min(2, size.epochs // 4)


def sizes(seeds: int, limit: int) -> dict[str, Size]:
    """Quick, short and the paper's own."""
    quick = f"a network 4 wide on {limit} training images for 2 epochs: the code path, not the numbers."
    short = "8 epochs in place of 200, the learning rate rising over 2 of them, then falling along a cosine."
    return {
        "quick": Size("quick", quick, seeds=2, epochs=2, limit=limit, network={"width": 4}),
        "short": Size("short", short, seeds=5, epochs=8),
        "paper": Size("paper", "the paper's own: 200 epochs.", seeds=seeds, epochs=200),
    }
