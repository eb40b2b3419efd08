"""What the CIFAR tables share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from fairweight.paper.tables import Option, Plan, Row, Size, Table
from fairweight.paper.tables._forml import (
    CLASS_BIAS,
    GUESSES,
    MAX_LOSS,
    PER_CLASS,
    RANDOM,
    as_printed,
    as_product,
    class_biases,
    heeding,
    max_loss,
    three_rows,
)
from fairweight.runs.spec import Spec

OPTIONS = {
    "exemplar": Option(
        "heldout",
        ("heldout", "inside"),
        "whether the 5,000 exemplars leave the training set, as the text says, or stay",
    ),
    "per_class": PER_CLASS,
    "exemplar_batch": Option(
        "cells", ("cells", "batch"), "an exemplar batch: so many of each class, or at least as many as a training batch"
    ),
    "augment_exemplars": Option("no", ("no", "yes"), "whether exemplar batches are flipped and shifted as batches are"),
    "max_loss": MAX_LOSS,
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
    "random": RANDOM,
    "lb_measure": Option("train", ("train", "exemplar"), "where LB measures its violation"),
    "mwn": Option("normalised", ("normalised", "stable"), "which of the two published Meta-Weight-Nets"),
    "moew": Option("short", ("short", "full"), "whether the best short candidate is used, or its weights retrained"),
}
DRAWING = ("forml", "l2rw", "meta-weight-net")  # methods that draw exemplars at every step
TIED_RATE = 0.003  # of one score per class: the best trade-off of those tried (docs/choices.md)


class CifarTable(Table):
    """ResNet-18 on CIFAR, the class as the attribute."""

    options: ClassVar = OPTIONS
    why_not_run: ClassVar[str] = "200 epochs of 9 rows and 30 seeds take about 43 hours of an H200."
    remarks: ClassVar[tuple[str, ...]] = (
        "LB moves its multipliers after every epoch of one training, with the mean recall over classes as the pivot: "
        "the paper says nothing, and one training per value is not affordable here.",
    )
    source: str
    exemplars: int  # of each class
    classes: int
    hard: ClassVar[Mapping[int, float]] = {}  # classes that are known to be hard: the static weights of an extra row
    rounds: int  # of MOEW's search

    def base(self, plan: Plan) -> Spec:
        """Uniform on all of train; the exemplars stay in it."""
        size = plan.size
        in_steps = plan.options["schedule"] == "step" or (plan.options["schedule"] == "auto" and size.name == "paper")
        at = [round(part * size.epochs) for part in (0.3, 0.6, 0.8)]
        step = {"name": "step", "at": at, "factor": plan.number("decay")}
        # Begun at its height, the rate would first make a network 64 wide lose ground.
        warm_up = 0 if size.name == "quick" else min(2, size.epochs // 4)
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
            schedule=step if in_steps else {"name": "cosine", "warm_up": warm_up},
            epochs=size.epochs,
            batch_size=128 if size.limit is None else 64,
            per_cell=int(plan.number("per_class")),
            autocast=None if size.name == "quick" else "bfloat16",
            augment=True,
        )

    def data(self, plan: Plan, *, inside: bool) -> dict[str, Any]:
        each = self.exemplars if plan.size.limit is None else 100 // self.classes + 2
        exemplar = {"source": "train", "size": each, "inside": inside}
        found: dict[str, Any] = {"split": {"validation": 0.0}, "exemplar": exemplar}
        return found if plan.size.limit is None else {**found, "limit": plan.size.limit}

    def rows(self, plan: Plan) -> tuple[Row, ...]:
        """The printed rows, uniform on the same rows as the methods that hold exemplars out, and extra ones."""
        chosen = plan.options
        whole = self.base(plan)
        held = chosen["exemplar"] == "heldout"
        part = whole.with_(data=self.data(plan, inside=False)) if held else whole
        beside = ("uniform", "uniform-same") if held else ("uniform",)
        default = as_product(part, self.classes)
        random = whole.with_(method="random", method_options={"kind": chosen["random"]})
        mwn = {"normalised": chosen["mwn"] == "normalised", "objective": "mean"}
        recall = {"constraint": "equal-recall", "measured_on": chosen["lb_measure"]}
        measured = whole if chosen["lb_measure"] == "train" else part
        rows = [
            Row("uniform", "Uniform / Proportion", whole, "Uniform / Proportion", against=()),
            *([Row("uniform-same", "Uniform, exemplars held out too", part, None, "control")] if held else []),
            Row("random", "Random", random, "Random"),
            Row("moew", "MOEW", self.moew(plan, part), "MOEW", against=beside),
            Row("mwn", "MWN", part.with_(method="meta-weight-net", method_options=mwn), "MWN", against=beside),
            Row("lb", "LB", measured.with_(method="label-bias", method_options=recall), "LB"),
            *three_rows(
                as_printed(plan, part, max_loss(plan)), default, against=beside, plain=(f"{CLASS_BIAS}-budget",)
            ),
            *self.extras(part, default, beside),
            *([self.refit(whole, default)] if held else []),
        ]
        if chosen["augment_exemplars"] == "yes":
            rows = [_with_exemplars(row, augment_exemplars=True) for row in rows]
        if chosen["exemplar_batch"] == "batch":
            rows = [_with_exemplars(row, exemplar_batch=whole.batch_size) for row in rows]
        return tuple(rows)

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

    def refit(self, whole: Spec, default: Spec) -> Row:
        """A second training, on all rows, with the class weights that FORML learned while exemplars were held out."""
        first = default.with_(method_options=_tied(TIED_RATE))
        again = whole.with_(method="given", weights={"runs": [first.to_dict()]})
        return Row("forml-refit", "FORML, one score per class, then all rows", again, None, "extra")

    def extras(self, base: Spec, default: Spec, beside: tuple[str, ...]) -> list[Row]:
        """What else the front of TPRD against accuracy is drawn with."""

        def extra(key: str, title: str, method: str, start: Spec = base, **options: Any) -> Row:
            spec = start.with_(method=method, method_options=options)
            return Row(key, title, spec, None, "extra", against=beside)

        alpha = [self.hard.get(k, -0.5) for k in range(self.classes)]
        return [
            *([extra("static-weights", "Static class weights by hand", "moew", alpha=alpha)] if self.hard else []),
            extra("forml-tied", "FORML, one score per class", "forml", default, **_tied(TIED_RATE)),
            extra("forml-tied-faster", "FORML, one score per class, rate 0.01", "forml", default, **_tied(0.01)),
            heeding(default, beside),
            extra("mwn-fair", "MWN, MaxLossD", "meta-weight-net", objective="max-discrepancy"),
            extra("l2rw", "L2RW, mean + variance", "l2rw", default, objective="mean + variance"),
            extra("class-difficulty", "Class weights by difficulty", "class-difficulty"),
            extra("class-difficulty-2", "Class weights by difficulty, τ = 2", "class-difficulty", tau=2.0),
            extra("group-dro", "GroupDRO over classes", "group-dro", by="label"),
            *class_biases(beside[-1], beside),
        ]


def _tied(rate: float) -> dict[str, Any]:
    """FORML's options for one score per class, and none of the samples' own."""
    step = {"name": "adaptive", "rate": rate}
    return {"objective": "mean + variance", "tie": "label", "own": False, "score_step": step}


def _with_exemplars(row: Row, **how: Any) -> Row:
    """The row, where it or the run that it takes weights from draws exemplars at every step, with others."""
    if row.spec is None:
        return row
    if row.spec.weights:
        runs = [Spec.from_dict(values).with_(**how).to_dict() for values in row.spec.weights["runs"]]
        return replace(row, spec=row.spec.with_(weights={"runs": runs}))
    return replace(row, spec=row.spec.with_(**how)) if row.spec.method in DRAWING else row


def sizes(seeds: int, limit: int) -> dict[str, Size]:
    """Quick, short and the paper's own."""
    quick = f"a network 4 wide on {limit} training images for 2 epochs: the code path, not the numbers."
    short = "8 epochs in place of 200, the learning rate rising over 2 of them, then falling along a cosine."
    return {
        "quick": Size("quick", quick, seeds=2, epochs=2, limit=limit, network={"width": 4}),
        "short": Size("short", short, seeds=5, epochs=8),
        "paper": Size("paper", "the paper's own: 200 epochs.", seeds=seeds, epochs=200),
    }
