"""The form of each JSON file in a run's folder: checked on reading, so that a strange one is refused in a sentence.

A form is a type; a range of whole numbers; a set of values; None; a tuple of forms that a value may have one of; a list
of one form for every entry, or of one for each; {str: form} for any names; or forms by name, where one that ends in "?"
may be absent. Names that a form does not have are let through: another version may have written them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin, get_type_hints

from fairweight.constraints import between, whole
from fairweight.runs.spec import Spec

ANYTHING = object
WHOLE, SOME = range(2**53), range(1, 2**53)
NUMBER = (float, None)
OBJECT = {str: ANYTHING}
SCALAR = (str, float, bool)
_NUMBERS = {float: between(-math.inf), int: whole()}
_IN_WORDS = {str: "a text", int: "a whole number", float: "a finite number", bool: "true or false"}


def problem(value: Any, form: Any, where: str = "") -> str | None:
    """What is wrong with the value, such as "spec.epochs is not a whole number"; None where it has the form."""
    return next(_problems(value, form, where), None)


def _problems(value: Any, form: Any, where: str) -> Iterator[str]:
    at = where or "it"
    if isinstance(form, tuple):
        several = [problem(value, one, where) for one in form if one is not None or value is None]
        if None not in several:
            yield several[-1] or ""
    elif form is None:
        if value is not None:
            yield f"{at} is not null"
    elif isinstance(form, frozenset):
        if not isinstance(value, str | int) or value not in form:
            yield f"{at} is none of: {', '.join(sorted(map(str, form)))}"
    elif isinstance(form, range):
        if not isinstance(value, int) or isinstance(value, bool) or value not in form:
            yield f"{at} is no whole number from {form.start}"
    elif isinstance(form, type):
        if not (_NUMBERS[form].allows(value) if form in _NUMBERS else isinstance(value, form)):
            yield f"{at} is not {_IN_WORDS[form]}"
    elif isinstance(form, list):
        if not isinstance(value, list) or len(form) not in (1, len(value)):
            yield f"{at} is no list" + ("" if len(form) == 1 else f" of {len(form)}")
        else:
            for place, entry in enumerate(value):
                yield from _problems(entry, form[place % len(form)], f"{where}[{place}]")
    elif not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        yield f"{at} holds no names with values"
    elif str in form:
        for name, entry in value.items():
            yield from _problems(entry, form[str], f"{where}.{name}".lstrip("."))
    else:
        for key, inner in form.items():
            name, there = key.removesuffix("?"), f"{where}.{key.removesuffix('?')}".lstrip(".")
            if name in value:
                yield from _problems(value[name], inner, there)
            elif key == name:
                yield f"{there} is not there"


def _spec_form() -> dict[str, Any]:
    """The fields of a Spec, by their types; all but the source may be absent: another version lacked some."""
    forms: dict[str, Any] = {}
    for name, hint in get_type_hints(Spec).items():
        parts = (hint,) if get_origin(hint) is Mapping else get_args(hint) or (hint,)
        form = tuple(OBJECT if get_origin(part) is Mapping else None if part is type(None) else part for part in parts)
        forms[name if name == "source" else f"{name}?"] = form[0] if len(form) == 1 else form
    return forms


_PARTS = ("labels", "groups", "table", "image", "split", "exemplar")  # of the options of data
_DATA = {f"{part}?": (OBJECT, None) for part in _PARTS}
SPEC = {
    **_spec_form(),
    "data?": _DATA,
    "network?": {"name?": (str, None), "hidden?": [SOME], "dropout?": float, "stem?": str, "width?": SOME},
    "schedule?": {"name?": str, "at?": [WHOLE], "factor?": float, "warm_up?": WHOLE},
    "early_stopping?": {"metric?": str, "patience?": WHOLE},
    "rows?": {str: OBJECT},
    "weights?": {"file?": str, "sha256?": str, "runs?": [OBJECT]},
}
RUN = {
    "spec": SPEC,
    "fingerprint?": str,
    "data?": {
        "fingerprint?": str,
        "notes?": [str],
        "label?": (str, None),
        "group?": ([str], None),
        "content?": ANYTHING,
        "options?": {**_DATA, "exemplar?": ({"source?": str}, None)},
    },
    "versions?": {str: (str, None)},
    "commit?": (str, None),
    **dict.fromkeys(("device?", "command?", "date?"), str),
    "manifest?": WHOLE,
}
_LIMITS = {"mean": NUMBER, "low": NUMBER, "high": NUMBER}
_LIMIT_NAMES = ("", "_low", "_high")
_RATE_NAMES = ("accuracy", "tpr", "fnr", "fpr", "selection_rate")
_RATES = {f"{name}{limit}?": NUMBER for name in _RATE_NAMES for limit in _LIMIT_NAMES}
_CELL = {f"tpr{limit}": NUMBER for limit in _LIMIT_NAMES}
_ALWAYS = {f"{name}{limit}": NUMBER for name in ("accuracy", "tpr") for limit in _LIMIT_NAMES}
_SCALARS = ("balanced_accuracy", "fpr_gap", "equalised_odds_gap", "selection_rate_gap", "tpr_std", "tpr_worst_tenth")
_CHANGE = {"value": NUMBER, "low": NUMBER, "high": NUMBER, "n?": WHOLE}
_JUDGED = ("accuracy", "balanced_accuracy", "gap", "gap_change", "low", "high")
_CANDIDATE = {"name": str, "learner": str, **dict.fromkeys(_JUDGED, NUMBER)}
METRICS = {
    **dict.fromkeys(("n", "n_missing"), WHOLE),
    "accuracy": float,
    **dict.fromkeys(("tprd", "max_fnr", "worst_group_accuracy"), NUMBER),
    **{f"{name}?": NUMBER for name in _SCALARS},
    "intervals": {str: [NUMBER, NUMBER]},
    "interval": {"level": float, "method": str, "draws?": WHOLE, "seed?": int},
    "by": (frozenset({"label"}), [str]),
    "labels": [SCALAR],
    "positive": (*SCALAR, None),
    "groups": [{"group": str, "n": WHOLE, "n_positive": WHOLE, **_RATES, **_ALWAYS}],
    "noise_floor": {"tprd": _LIMITS, "max_fnr?": _LIMITS, "tpr_std?": _LIMITS},
    "cells?": [{"label": str, "group": str, "n": WHOLE, **_RATES, **_CELL}],
    "run?": {
        "epochs": WHOLE,
        "steps": WHOLE,
        "stopped": str,
        "best_epoch?": (WHOLE, None),
        "history": [{"epoch": SOME, "validation?": {str: NUMBER}, "group_losses?": {str: NUMBER}}],
        "warnings": [str],
        "seconds": float,
    },
    "scores?": {str: NUMBER},
    "search?": {"trainings": WHOLE, "chosen": str},
    "verdict?": frozenset({"helps", "no-effect", "worse"}),
    "outside_limits?": bool,
    **{f"{name}?": str for name in ("chosen", "criterion", "sentence", "all_rates_move_together")},
    "levelling?": {"kind": frozenset({"levels-down", "as-a-threshold"}), "sentence": str, "because?": str}
    | {f"{name}?": NUMBER for name in ("gap", "accuracy")},
    "kept_epoch?": (WHOLE, None),
    **{f"{name}?": _CHANGE for name in ("gap_before", "gap_after", "gap_change", "accuracy_change")},
    **{f"{name}?": NUMBER for name in ("accuracy_before", "accuracy_after")},
    "columns?": {str: {str: NUMBER}},
    "calibration?": {str: ({str: ANYTHING}, None)},
    "notes?": [str],
    "judged?": {"reference": str, "chosen": str, "rows?": WHOLE, "candidates": [_CANDIDATE], "notes": [str]},
}
_MEANING = {"label": str, "label_names": [str], "group": [str], "group_names": [str]}
_COLUMN = {
    "name": str,
    "kind": frozenset({"number", "date", "category"}),
    "form": str,
    **dict.fromkeys(("fill", "mean", "std"), float),
    "categories": [str],
    **dict.fromkeys(("other", "missing"), bool),
}
_SIDE = (range(1, 2**16 + 1), None)
_TABLE = {"columns": [_COLUMN], "meaning": _MEANING, "delimiter": (str, None), "encoding": str}
_IMAGE = {
    "form": {"height": _SIDE, "width": _SIDE, "crop": _SIDE, "channels": (frozenset({1, 3}), None)},
    "mean": [float],
    "std": [float],
    "meaning": _MEANING,
    "resized": bool,
}
PREPROCESSING = ({"kind": frozenset({"table"}), **_TABLE}, {"kind": frozenset({"image"}), **_IMAGE})
_ASKED = {"number": WHOLE, "options": OBJECT, "full": bool}
SEARCH = {"search": str, "settings": OBJECT, "asked": [_ASKED], "results": [[WHOLE, OBJECT]]}
SWEEP = {"of": str}
_FILE = {"sha256": str, "bytes": WHOLE}
MANIFEST = {"version": SOME, "files": {str: {**_FILE, "becomes?": _FILE}}, "sha256": str}
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
    """Find a number without its interval, or a rate that only some groups have."""
    for name in ("accuracy", "tprd", "max_fnr", "worst_group_accuracy", *_SCALARS):
        if metrics.get(name) is not None and name not in metrics["intervals"]:
            return f"intervals.{name} is not there"
    wanted = ("accuracy", "tpr") if "cells" in metrics else ("accuracy", "tpr", "fpr", "selection_rate")
    for place, group in enumerate(metrics["groups"]):
        for name in (f"{rate}{limit}" for rate in wanted for limit in _LIMIT_NAMES):
            if name not in group:
                return f"groups[{place}].{name} is not there"
    return None
