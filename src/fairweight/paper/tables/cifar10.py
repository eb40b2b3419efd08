"""CIFAR-10, and what it shares with CIFAR-100."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fairweight.paper.tables import Row, Table, _forml
from fairweight.runs.spec import Spec

TIED_RATE = 0.003  # of one score per class: the best trade-off of those tried (docs/choices.md)


class Cifar10(Table):
    """CIFAR-10, ResNet-18, the class as the attribute, 200 epochs."""

    protocol = "cifar10"
    source, exemplars, classes = "cifar10", 500, 10  # exemplars: of each class
    rounds = 20  # of MOEW's search
    # Classes that are known to be hard (bird, cat, deer, dog), for an extra row: cats count twice as much as ships.
    hard: ClassVar[Mapping[int, float]] = {2: 0.5, 3: 1.0, 4: 0.0, 5: 0.5}

    def base(self) -> Spec:
        """Uniform on all of train; the exemplars stay in it."""
        size, quick = self.size, self.quick
        at = [round(part * size.epochs) for part in (0.3, 0.6, 0.8)]
        step = {"name": "step", "at": at, "factor": self.number("decay")}
        # Begun at its height, the rate would first make a network 64 wide lose ground.
        cosine = {"name": "cosine", "warm_up": 0 if quick else min(2, size.epochs // 4)}
        return Spec(
            self.source, data=self.data(inside=True),
            network={"name": "resnet18", "stem": "small", **size.network},
            method="uniform", optimizer="sgd", lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4,
            schedule=step if size.name == "paper" else cosine, epochs=size.epochs,
            batch_size=128 if size.limit is None else 64, per_cell=int(self.number("per_class")),
            autocast=None if quick else "bfloat16", augment=True,
        )  # fmt: skip

    def data(self, *, inside: bool) -> dict[str, Any]:
        each = self.exemplars if self.size.limit is None else 100 // self.classes + 2
        exemplar = {"source": "train", "size": each, "inside": inside}
        options: dict[str, Any] = {"split": {"validation": 0.0}, "exemplar": exemplar}
        return options if self.size.limit is None else {**options, "limit": self.size.limit}

    def rows(self) -> tuple[Row, ...]:
        """The printed rows, uniform on the same rows as the methods that hold exemplars out, and extra ones."""
        whole = self.base()
        held = self.options["exemplar"] == "heldout"
        part = whole.with_(data=self.data(inside=False)) if held else whole
        beside = ("uniform", "uniform-same") if held else ("uniform",)
        printed, default = _forml.as_printed(self, part, _forml.max_loss(self)), _forml.as_product(part, self.classes)
        random = whole.with_(method="random", method_options={"kind": "fixed"})
        mwn = {"normalised": True, "objective": "mean"}
        recall = {"constraint": "equal-recall", "measured_on": "train"}
        same = [Row("uniform-same", "Uniform, exemplars held out too", part, None, "control")]
        return (
            Row("uniform", "Uniform / Proportion", whole, "Uniform / Proportion", against=()),
            *(same if held else []),
            Row("random", "Random", random, "Random"),
            Row("moew", "MOEW", self.moew(part), "MOEW", against=beside),
            Row("mwn", "MWN", part.with_(method="meta-weight-net", method_options=mwn), "MWN", against=beside),
            Row("lb", "LB", whole.with_(method="label-bias", method_options=recall), "LB"),
            *_forml.three_rows(printed, default, against=beside, plain=(_forml.BUDGETED,)),
            *self.extras(part, default, beside),
            *([self.refit(whole, default)] if held else []),
        )

    def moew(self, base: Spec) -> Spec:
        """A search over class weights by maxFNR on the exemplar set; the best short candidate is used."""
        short = {"epochs": max(1, min(15, self.size.epochs // 2)), "schedule": {"name": "cosine"}}
        tries = {"rounds": 1 if self.quick else self.rounds, "per_round": 2 if self.quick else 5}
        return base.with_(method="moew", search={"name": "alpha", **tries, "short": short, "retrain": False})

    def refit(self, whole: Spec, default: Spec) -> Row:
        """A second training, on all rows, with the class weights that FORML learned while exemplars were held out."""
        first = default.with_(method_options=_tied(TIED_RATE))
        second = whole.with_(method="given", weights={"runs": [first.to_dict()]})
        return Row("forml-refit", "FORML, one score per class, then all rows", second, None, "extra")

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
            _forml.heeding(default, beside),
            extra("mwn-fair", "MWN, MaxLossD", "meta-weight-net", objective="max-discrepancy"),
            extra("l2rw", "L2RW, mean + variance", "l2rw", default, objective="mean + variance"),
            extra("class-difficulty", "Class weights by difficulty", "class-difficulty"),
            extra("class-difficulty-2", "Class weights by difficulty, τ = 2", "class-difficulty", tau=2.0),
            extra("group-dro", "GroupDRO over classes", "group-dro", by="label"),
            *_forml.class_biases(beside[-1], beside),
        ]


def _tied(rate: float) -> dict[str, Any]:
    """FORML's options for one score per class, and none of the samples' own."""
    step = {"name": "adaptive", "rate": rate}
    return {"objective": "mean + variance", "tie": "label", "own": False, "score_step": step}
