"""The page of every file and field of a run folder, read from the forms that files are checked by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

HEAD = """# Run folder

Generated from `fairweight.runs.schema`, the forms that every file is checked by when it is read. Fields that a form does not name are let through. Rates are fractions, except where a name ends in `_before` or `_after`.

`fairweight verify RUN` compares every file with `manifest.json` and says what is whole. [Security](../project/security.md) says which files hold rows of people.
"""
FILES = {
    "run.json": "What determines the run: its settings, the data's fingerprint, versions, commit, device and command.",
    "log.jsonl": "One JSON object per line: what happened at each epoch.",
    "metrics.json": "The numbers on the test rows, with sizes and intervals, and the verdict.",
    "weights.parquet": "A row per training sample: score, weight and history.",
    "predictions.parquet": "A row per test sample: label, prediction and group.",
    "logits.safetensors": "What the model says of the training and exemplar rows, for `suspects`.",
    "paths.safetensors": "Scores and weights after every epoch, of all samples or an even selection.",
    "model.safetensors": "The parameters of the delivered model.",
    "preprocessing.json": "How a row becomes inputs: columns, categories, means; images: size and channels.",
    "checkpoint.safetensors": "Where an unfinished run stands; deleted at its end.",
    "manifest.json": "The size and sha256 of every file, written last: a folder without it is not finished.",
    "report.html": "The audit page, written by `audit`.",
    "MODEL_CARD.md": "The model card, written by `audit`.",
    "suspects.csv": "Training labels, the most suspect first, written by `suspects`.",
    "search.json": "Where a search over many trainings stands.",
    "trade_off.json": "The settings that a sweep of strengths was run with, written by `train --trade-off`.",
}


VERDICT = {
    "verdict": "`helps`, `no-effect` or `worse`",
    "outside_limits": "true where the gap is clearly smaller, and the budget or the bound is clearly not kept",
    "chosen": "the candidate that was handed over",
    "kept_epoch": "the epoch whose model was kept",
    "criterion": "what counts as fair",
    "gap_before": "the gap of plain training, with its interval and the number of rows",
    "gap_after": "the gap of the delivered model, likewise",
    "gap_change": "the difference, with its paired interval",
    "accuracy_before": "accuracy of plain training",
    "accuracy_after": "accuracy of the delivered model",
    "accuracy_change": "the difference, with its paired interval",
    "sentence": "the verdict as it is printed",
    "all_rates_move_together": "a sentence, where every group's rate moved the same way",
    "levelling": "where the gap fell and nobody gained, or as a moved threshold would do it: which, and what was lost",
    "notes": "more sentences",
}


def page() -> str:
    """Every file, then every field of each JSON file, then the columns of the parquet files."""
    from fairweight.runs import schema, sealed
    from fairweight.runs.folder import NEEDED

    names = dict.fromkeys([*FILES, *sealed.FILES, *schema.FORMS])
    parts = [
        HEAD,
        "| file | holds |\n|---|---|\n" + "\n".join(f"| `{n}` | {FILES.get(n, 'See below.')} |" for n in names),
    ]
    for name, form in schema.FORMS.items():
        rows = "\n".join(f"| `{path}` | {kind} | {needed} |" for path, kind, needed in _fields(form, ""))
        parts.append(f"## {name}\n\n{FILES.get(name, '')}\n\n| field | holds | always there |\n|---|---|---|\n{rows}")
        if name == "metrics.json":
            said = "\n".join(
                f"| `{key}` | {words} |" for key, words in {**dict.fromkeys(_verdict(), ""), **VERDICT}.items()
            )
            parts.append(
                f"If a plain model was trained too, `metrics.json` also holds the verdict:\n\n| field | holds |\n|---|---|\n{said}"
            )
    parts.append(
        "## Parquet files\n\n[What is kept of each sample](../audit.md#what-is-kept-of-each-sample) explains every column of "
        "`weights.parquet`. These are there for every method:\n\n"
        + "\n".join(f"- `{name}`: {', '.join(f'`{c}`' for c in columns)}" for name, columns in NEEDED.items())
    )
    return "\n\n".join(parts) + "\n"


def _verdict() -> list[str]:
    """The fields that a verdict writes."""
    from fairweight.apps.verdict import Verdict
    from fairweight.metrics import group_table
    from fairweight.metrics.criterion import criterion

    labels, groups = [0, 1, 1, 0, 1, 1], list("aaabbb")
    before, after = group_table(labels, [0, 1, 1, 0, 1, 0], groups), group_table(labels, [0, 1, 1, 0, 1, 1], groups)
    return list(Verdict(criterion("equal-opportunity"), before, after, "chosen", "plain").to_dict())


def _fields(form: Any, at: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(form, tuple):  # one of several kinds
        for kind in form:
            yield from _fields(kind, at or f"({next(iter(kind['kind']))}) ")
        return
    for key, inner in form.items():
        name, needed = key.removesuffix("?"), "no" if key.endswith("?") else "yes"
        path = f"{at}{name}"
        yield path, _kind(inner), needed
        core = inner[0] if isinstance(inner, tuple) else inner
        if isinstance(core, list):
            path, core = f"{path}[]", core[0]
        elif isinstance(core, Mapping) and str in core:
            path, core = f"{path}.NAME", core[str]
        if isinstance(core, Mapping) and str not in core:
            yield from _fields(core, f"{path}.")


def _kind(form: Any) -> str:
    if isinstance(form, tuple):
        return ", or ".join(_kind(one) for one in form)
    if isinstance(form, frozenset):
        return "one of " + ", ".join(f"`{value}`" for value in sorted(form))
    if isinstance(form, range):
        return "whole number" if form.start == 0 else f"whole number from {form.start}"
    if isinstance(form, list):
        return ("list" if len(form) == 1 else f"list of {len(form)}") + f": {_kind(form[0])}"
    if isinstance(form, Mapping):
        return f"names, each with {_kind(form[str])}" if str in form else "object"
    words = {None: "null", str: "text", int: "whole number", float: "number", bool: "true or false"}
    return words.get(form, "any value")
