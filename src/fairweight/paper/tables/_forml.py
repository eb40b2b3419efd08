"""FORML's rows, and the options that tables share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairweight.paper.moved_decisions import BUDGET
from fairweight.paper.tables import Moved, Option, Plan, Row
from fairweight.runs.defaults import EXEMPLARS, HEEDING, LOOKS_EVERY, method_defaults
from fairweight.runs.spec import Spec

CLASS_BIAS, TUNED = "class-bias", "fine-tuned"  # keys of rows
CHOOSING = 0.2  # of the exemplars that a row trains on
PLAIN = {"name": "plain", "scale": 1.0}  # the paper's: the model's learning rate, times 1
GUESSES = {  # what the paper leaves open wherever FORML stands
    "scale": Option("1", (), "what multiplies the scores' learning rate (lr_w_scale in a comment of the source)"),
    "statistics": Option("batch", ("batch", "running"), "batch norm on the exemplar pass: the batch's, or the running"),
}
MAX_LOSS = Option("range", ("range", "mean"), "MaxLossD: largest minus smallest, or largest distance from the mean")
PER_CLASS = Option("3", (), "exemplars of each class in a batch, for the rows as printed")
RANDOM = Option("fixed", ("fixed", "redrawn", "uniform"), "how random weights are drawn")


def max_loss(plan: Plan) -> dict[str, Any]:
    """MaxLossD over classes."""
    return {"name": "max-discrepancy", "of": plan.options["max_loss"]}


def as_printed(plan: Plan, base: Spec, objective: Any, **options: Any) -> Spec:
    """Algorithm 1: plain look-ahead, plain score step at the model's learning rate."""
    given: dict[str, Any] = {"objective": objective, "score_step": {**PLAIN, "scale": plan.number("scale")}, **options}
    if plan.options.get("statistics", "batch") != "batch":
        given["look_ahead"] = {"statistics": plan.options["statistics"]}
    return base.with_(method="forml", method_options=given)


def as_product(base: Spec, classes: int, groups: int = 0) -> Spec:
    """What `fairweight train` did by default in 0.1, with so many classes and groups; `heeding` is today's."""
    options = method_defaults("forml", classes, groups=groups > 0, train_groups=groups > 0)
    per_cell = min(32, max(3, EXEMPLARS // (classes * max(1, groups))))
    return base.with_(method="forml", method_options=options, per_cell=per_cell)


def heeding(spec: Spec, against: tuple[str, ...] = ("uniform",), *, key: str = "forml", title: str = "FORML") -> Row:
    """The product's default on images: scores move the less, the less exemplars agree."""
    step = {"name": "adaptive", **spec.method_options.get("score_step", {}), **HEEDING}
    heeded = spec.with_(method_options={**spec.method_options, "score_step": step, "agreement_every": LOOKS_EVERY})
    return Row(f"{key}-heeding", f"{title}, product default (heeds agreement)", heeded, None, "extra", against=against)


def class_biases(of: str, against: tuple[str, ...] = ("uniform",)) -> list[Row]:
    """Plain training with a bias per class on its logits: no training, and what learned weights must beat."""
    parts: dict[str, tuple[str, float | None]] = {
        "-budget": (f", within {100 * BUDGET:g} points", None),
        "-quarter": (" at a quarter", 0.25),
        "-half": (" at a half", 0.5),
        "": (" at its full strength", 1.0),
    }
    return [
        Row(
            f"{CLASS_BIAS}{ending}",
            f"Uniform with a bias per class{words}",
            kind="control" if fraction is None else "extra",
            moved=Moved("class-bias", of, fraction=fraction),
            against=against,
        )
        for ending, (words, fraction) in parts.items()
    ]


def plain_uses(uniform: Spec, per_exemplar: float, *, chosen: bool) -> list[Row]:
    """Rows that use the exemplars plainly: alone, after Uniform, beside the other rows.

    per_exemplar: training rows to one exemplar. chosen: whether exemplars choose the epoch, a fifth of them then.
    """
    kept = {"choosing": CHOOSING} if chosen else {}
    alone = uniform.with_(rows={"train": {"exemplars": "only", **kept}})
    long = round(uniform.epochs * per_exemplar / (1 - kept.get("choosing", 0.0)))  # as many steps as Uniform takes
    patient = {**uniform.early_stopping, "patience": long} if chosen else {}
    added = uniform.with_(rows={"train": {"exemplars": "added", **kept}})
    return [
        Row("exemplars-only", "Exemplars only", alone.with_(epochs=long, early_stopping=patient), None, "control"),
        Row(TUNED, "Uniform, then fine-tuned on the exemplars", alone.with_(start={"runs": [uniform.to_dict()]}), None,
            "control"),
        Row("exemplars-added", "Uniform with the exemplars added", added, None, "control"),
    ]  # fmt: skip


def with_reverse(spec: Spec) -> Spec:
    """The same with the look-ahead that the appendix says the main paper used."""
    look_ahead: Mapping[str, Any] = spec.method_options.get("look_ahead", {})
    return spec.with_(method_options={**spec.method_options, "look_ahead": {**look_ahead, "reverse": True}})


def three_rows(
    printed: Spec,
    default: Spec,
    row: str = "FORML",
    *,
    key: str = "forml",
    title: str = "FORML",
    against: tuple[str, ...] = ("uniform",),
    plain: tuple[str, ...] = (),
) -> list[Row]:
    """As printed and with the reverse look-ahead, beside the printed row; the default of 0.1, which the paper lacks.

    plain: rows without learned weights that the default is compared with, too.
    """
    return [
        Row(key, f"{title}, Algorithm 1", printed, row, "forml", against=against),
        Row(f"{key}-reverse", f"{title}, reverse look-ahead", with_reverse(printed), row, "forml", against=against),
        Row(f"{key}-default", f"{title}, default of 0.1", default, None, "forml", against=(*against, *plain)),
    ]
