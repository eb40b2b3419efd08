"""FORML's rows, controls, and the options that tables share."""

from __future__ import annotations

from typing import Any

from fairweight.paper.moved_decisions import BUDGET
from fairweight.paper.tables import Moved, Row, Table
from fairweight.runs.defaults import EXEMPLARS, HEEDING, LOOKS_EVERY, method_defaults
from fairweight.runs.spec import Spec

BUDGETED = "class-bias-budget"  # key of a row
CHOOSING = 0.2  # of the exemplars that a row trains on


def max_loss(table: Table) -> dict[str, Any]:
    """MaxLossD over classes."""
    return {"name": "max-discrepancy", "of": table.options["max_loss"]}


def as_printed(table: Table, base: Spec, objective: Any, up: bool = False, **options: Any) -> Spec:
    """Algorithm 1: plain look-ahead, plain score step at the model's learning rate; up: scores climb the meta-loss."""
    step = {"name": "plain", "scale": table.number("scale"), **({"reverse": True} if up else {})}
    return base.with_(method="forml", method_options={"objective": objective, "score_step": step, **options})


def as_product(base: Spec, classes: int, groups: int = 0) -> Spec:
    """What `fairweight train` did by default in 0.1, with so many classes and groups; `heeding` is today's."""
    options = method_defaults("forml", classes, groups=groups > 0, train_groups=groups > 0)
    per_cell = min(32, max(3, EXEMPLARS // (classes * max(1, groups))))
    return base.with_(method="forml", method_options=options, per_cell=per_cell)


def with_reverse(spec: Spec) -> Spec:
    """The same with the look-ahead that the appendix says the main paper used."""
    return spec.with_(method_options={**spec.method_options, "look_ahead": {"reverse": True}})


def heeding(spec: Spec, against: tuple[str, ...] = ("uniform",), *, key: str = "forml", title: str = "FORML") -> Row:
    """The product's default on images: scores move the less, the less exemplars agree."""
    step = {"name": "adaptive", **spec.method_options.get("score_step", {}), **HEEDING}
    heeded = spec.with_(method_options={**spec.method_options, "score_step": step, "agreement_every": LOOKS_EVERY})
    return Row(f"{key}-heeding", f"{title}, product default (heeds agreement)", heeded, None, "extra", against=against)


def class_biases(of: str, against: tuple[str, ...] = ("uniform",)) -> list[Row]:
    """Plain training with a bias per class on its logits: no training, and what learned weights must beat."""
    parts = {
        BUDGETED: (f", within {100 * BUDGET:g} points", None),
        "class-bias-quarter": (" at a quarter", 0.25),
        "class-bias-half": (" at a half", 0.5),
        "class-bias": (" at its full strength", 1.0),
    }
    return [
        Row(key, f"Uniform with a bias per class{words}", kind="control" if fraction is None else "extra",
            moved=Moved("class-bias", of, fraction=fraction), against=against)
        for key, (words, fraction) in parts.items()
    ]  # fmt: skip


def plain_uses(uniform: Spec, per_exemplar: float, *, chosen: bool) -> list[Row]:
    """Rows that use the exemplars plainly: alone, after Uniform, beside the other rows.

    per_exemplar: training rows to one exemplar. chosen: whether exemplars choose the epoch, a fifth of them then.
    """
    kept = {"choosing": CHOOSING} if chosen else {}
    alone = uniform.with_(rows={"train": {"exemplars": "only", **kept}})
    long = round(uniform.epochs * per_exemplar / (1 - kept.get("choosing", 0.0)))  # as many steps as Uniform takes
    patient = {**uniform.early_stopping, "patience": long} if chosen else {}
    specs = {
        "exemplars-only": ("Exemplars only", alone.with_(epochs=long, early_stopping=patient)),
        "fine-tuned": ("Uniform, then fine-tuned on the exemplars", alone.with_(start={"runs": [uniform.to_dict()]})),
        "exemplars-added": (
            "Uniform with the exemplars added",
            uniform.with_(rows={"train": {"exemplars": "added", **kept}}),
        ),
    }
    return [Row(key, title, spec, None, "control") for key, (title, spec) in specs.items()]


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
