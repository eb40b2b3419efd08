"""The three FORML rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairweight.experiments.defaults import EXEMPLARS, STRENGTH, TIED_RATE
from fairweight.experiments.spec import Spec
from fairweight.experiments.tables import Row

PLAIN = {"name": "plain", "scale": 1.0}  # the paper's: the model's learning rate, times 1


def as_printed(base: Spec, objective: Any, per_cell: int, **options: Any) -> Spec:
    """Algorithm 1: plain look-ahead, plain score step at the model's learning rate."""
    given: dict[str, Any] = {"objective": objective, "score_step": PLAIN, **options}
    return base.with_(method="forml", method_options=given, per_cell=per_cell)


def as_product(base: Spec, cells: int, *, groups: bool) -> Spec:
    """What `fairweight train` does when it is not told otherwise: so many cells, groups beside the label or not."""
    per_cell = min(32, max(3, EXEMPLARS // cells))
    if not groups:
        return base.with_(method="forml", per_cell=per_cell)
    objective = f"mean + {STRENGTH:g} * equal-opportunity-rate"
    options = {"objective": objective, "tie": "cell", "score_step": {"name": "adaptive", "rate": TIED_RATE}}
    return base.with_(method="forml", method_options=options, per_cell=per_cell)


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
) -> list[Row]:
    """As printed, with the reverse look-ahead, and the product's default, all beside the same printed row."""
    return [
        Row(key, f"{title}, Algorithm 1", printed, row, "forml", against=against),
        Row(f"{key}-reverse", f"{title}, reverse look-ahead", with_reverse(printed), row, "forml", against=against),
        Row(f"{key}-default", f"{title}, product default", default, row, "forml", against=against),
    ]
