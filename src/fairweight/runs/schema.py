"""The form of each JSON file in a run's folder: checked on reading, so that a strange one is refused in a sentence.

Keys that a form does not name are let through: another version may have written them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin, get_type_hints

from fairweight.runs.spec import Spec


@dataclass(frozen=True)
class Maybe:
    """The form, or nothing."""

    form: Any


@dataclass(frozen=True)
class Each:
    """A list, every entry of the form; length: how many, where that is fixed."""

    form: Any
    length: int | None = None


@dataclass(frozen=True)
class By:
    """Names with a value of the form each."""

    form: Any


@dataclass(frozen=True)
class OneOf:
    """One of these values."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Either:
    """One of two forms."""

    first: Any
    second: Any


@dataclass(frozen=True)
class Whole:
    """A whole number from the least to the most."""

    least: int = 0
    most: int = 2**53


ANYTHING = object()
NUMBER = Maybe(float)
SCALAR = Either(str, Either(float, bool))
_IN_WORDS = {str: "a text", int: "a whole number", float: "a finite number", bool: "true or false"}


def problem(value: Any, form: Any, where: str = "") -> str | None:
    """What is wrong with the value, such as "spec.epochs is no whole number"; None where it has the form."""
    at = where or "it"
    if form is ANYTHING:
        return None
    if isinstance(form, Maybe):
        return None if value is None else problem(value, form.form, where)
    if isinstance(form, Either):
        return None if problem(value, form.first, where) is None else problem(value, form.second, where)
    if isinstance(form, OneOf):
        return None if value in form.values else f"{at} is none of: {', '.join(map(str, form.values))}"
    if isinstance(form, Whole):
        fits = isinstance(value, int) and not isinstance(value, bool) and form.least <= value <= form.most
        return None if fits else f"{at} is no whole number from {form.least}"
    if isinstance(form, type):
        return None if _is(value, form) else f"{at} is not {_IN_WORDS[form]}"
    if isinstance(form, Each):
        if not isinstance(value, list) or (form.length is not None and len(value) != form.length):
            return f"{at} is no list" + ("" if form.length is None else f" of {form.length}")
        return _first(problem(entry, form.form, f"{where}[{place}]") for place, entry in enumerate(value))
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        return f"{at} holds no names with values"
    if isinstance(form, By):
        return _first(problem(entry, form.form, f"{where}.{key}".lstrip(".")) for key, entry in value.items())
    for key, inner in form.items():
        name = key.removesuffix("?")
        if name not in value:
            if key == name:
                return f"{where}.{name} is not there".lstrip(".")
        elif found := problem(value[name], inner, f"{where}.{name}".lstrip(".")):
            return found
    return None


def _is(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


def _first(problems: Any) -> str | None:
    return next((found for found in problems if found is not None), None)


def _spec_form() -> dict[str, Any]:
    """The fields of a Spec, by their types; all but the source may be absent: another version lacked some."""
    forms: dict[str, Any] = {}
    for name, hint in get_type_hints(Spec).items():
        parts = (hint,) if get_origin(hint) is Mapping else get_args(hint) or (hint,)
        kind = next(part for part in parts if part is not type(None))
        form = By(ANYTHING) if get_origin(kind) is Mapping else kind if kind in _IN_WORDS else ANYTHING
        forms[name if name == "source" else f"{name}?"] = Maybe(form) if type(None) in parts else form
    return forms


_PARTS = ("labels", "groups", "table", "image", "split", "exemplar")  # of the options of data
_DATA = {f"{part}?": Maybe(By(ANYTHING)) for part in _PARTS}
SPEC = {
    **_spec_form(),
    "data?": _DATA,
    "network?": {"name?": Maybe(str), "hidden?": Each(Whole(1)), "dropout?": float, "stem?": str, "width?": Whole(1)},
    "schedule?": {"name?": str, "at?": Each(Whole()), "factor?": float, "warm_up?": Whole()},
    "early_stopping?": {"metric?": str, "patience?": Whole()},
    "rows?": By(By(ANYTHING)),
    "weights?": {"file?": str, "sha256?": str, "runs?": Each(By(ANYTHING))},
}
RUN = {
    "spec": SPEC,
    "fingerprint?": str,
    "data?": {
        "fingerprint?": str,
        "notes?": Each(str),
        "label?": Maybe(str),
        "group?": Maybe(Each(str)),
        "content?": ANYTHING,
        "options?": {**_DATA, "exemplar?": Maybe({"source?": str})},
    },
    "versions?": By(Maybe(str)),
    "commit?": Maybe(str),
    "device?": str,
    "command?": str,
    "date?": str,
    "manifest?": Whole(),
}
_LIMITS = {"mean": NUMBER, "low": NUMBER, "high": NUMBER}
_LIMIT_NAMES = ("", "_low", "_high")
_RATE_NAMES = ("accuracy", "tpr", "fnr", "fpr", "selection_rate")
_RATES = {f"{name}{limit}?": NUMBER for name in _RATE_NAMES for limit in _LIMIT_NAMES}
_CELL = {f"tpr{limit}": NUMBER for limit in _LIMIT_NAMES}
_ALWAYS = {f"{name}{limit}": NUMBER for name in ("accuracy", "tpr") for limit in _LIMIT_NAMES}
_SCALARS = ("balanced_accuracy", "fpr_gap", "equalised_odds_gap", "selection_rate_gap", "tpr_std", "tpr_worst_tenth")
METRICS = {
    "n": Whole(),
    "n_missing": Whole(),
    "accuracy": float,
    "tprd": NUMBER,
    "max_fnr": NUMBER,
    "worst_group_accuracy": NUMBER,
    **{f"{name}?": NUMBER for name in _SCALARS},
    "intervals": By(Each(NUMBER, 2)),
    "interval": {"level": float, "method": str, "draws?": Whole(), "seed?": int},
    "by": Either(OneOf(("label",)), Each(str)),
    "labels": Each(SCALAR),
    "positive": Maybe(SCALAR),
    "groups": Each({"group": str, "n": Whole(), "n_positive": Whole(), **_RATES, **_ALWAYS}),
    "noise_floor": {"tprd": _LIMITS, "max_fnr?": _LIMITS, "tpr_std?": _LIMITS},
    "cells?": Each({"label": str, "group": str, "n": Whole(), **_RATES, **_CELL}),
    "run?": {
        "epochs": Whole(),
        "steps": Whole(),
        "stopped": str,
        "best_epoch?": Maybe(Whole()),
        "history": Each({"epoch": Whole(1), "validation?": By(NUMBER), "group_losses?": By(NUMBER)}),
        "warnings": Each(str),
        "seconds": float,
    },
    "scores?": By(NUMBER),
    "search?": {"trainings": Whole(), "chosen": str},
    **{f"{name}?": str for name in ("verdict", "chosen", "criterion", "sentence")},
    "kept_epoch?": Maybe(Whole()),
    "judged?": {"reference": str, "chosen": str, "rows": Whole(), "candidates": Each(By(ANYTHING)), "notes": Each(str)},
}
_MEANING = {"label": str, "label_names": Each(str), "group": Each(str), "group_names": Each(str)}
_COLUMN = {
    "name": str,
    "kind": OneOf(("number", "date", "category")),
    "form": str,
    "fill": float,
    "mean": float,
    "std": float,
    "categories": Each(str),
    "other": bool,
    "missing": bool,
}
_SIDE = Maybe(Whole(1, 2**16))
_TABLE = {"columns": Each(_COLUMN), "meaning": _MEANING, "delimiter": Maybe(str), "encoding": str}
_IMAGE = {
    "form": {"height": _SIDE, "width": _SIDE, "crop": _SIDE, "channels": Maybe(OneOf((1, 3)))},
    "mean": Each(float),
    "std": Each(float),
    "meaning": _MEANING,
    "resized": bool,
}
PREPROCESSING = Either({"kind": OneOf(("table",)), **_TABLE}, {"kind": OneOf(("image",)), **_IMAGE})
SEARCH = {
    "search": str,
    "settings": By(ANYTHING),
    "asked": Each({"number": Whole(), "options": By(ANYTHING), "full": bool}),
    "results": Each(Each(ANYTHING, 2)),
}
SWEEP = {"of": str}
_FILE = {"sha256": str, "bytes": Whole()}
MANIFEST = {"version": Whole(1), "files": By({**_FILE, "becomes?": _FILE}), "sha256": str}
FORMS: dict[str, Any] = {
    "run.json": RUN,
    "metrics.json": METRICS,
    "preprocessing.json": PREPROCESSING,
    "search.json": SEARCH,
    "trade_off.json": SWEEP,
    "manifest.json": MANIFEST,
}


def problem_of(name: str, value: Any) -> str | None:
    """What is wrong with the content of the file of that name; None where it is as a run writes it."""
    found = problem(value, FORMS.get(name, {}))
    return _gap(value) if found is None and name == "metrics.json" else found


def _gap(metrics: Mapping[str, Any]) -> str | None:
    """A number without its interval, or a rate that some groups have and others lack."""
    for name in ("accuracy", "tprd", "max_fnr", "worst_group_accuracy", *_SCALARS):
        if metrics.get(name) is not None and name not in metrics["intervals"]:
            return f"intervals.{name} is not there"
    wanted = ("accuracy", "tpr") if "cells" in metrics else ("accuracy", "tpr", "fpr", "selection_rate")
    for place, group in enumerate(metrics["groups"]):
        for name in (f"{rate}{limit}" for rate in wanted for limit in _LIMIT_NAMES):
            if name not in group:
                return f"groups[{place}].{name} is not there"
    return None
