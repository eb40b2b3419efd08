"""A model card: Markdown with a Hugging Face header, saying only what was measured."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from fairweight.report._format import known, percent, short
from fairweight.report.audit import Audit
from fairweight.report.findings import findings
from fairweight.report.table_rows import SUMMARY, group_columns, group_rows, summary_rows

MOST_GROUPS = 30
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_SPECIAL = re.compile(r"([\\`*_\[\]|<>~&$])")


def model_card(audit: Audit, *, data: str = "", name: str = "fairweight model") -> str:
    """The card of a run's model; data: the source's name."""
    parts = [_header(audit, data, name), f"# {escaped(name)}", _what(audit)]
    parts += [_data(audit), _metrics(audit), _found(audit), _limits(audit)]
    return "\n\n".join(parts) + "\n"


def escaped(text: object) -> str:
    """A name or sentence that Markdown and HTML take as it is."""
    return _SPECIAL.sub(r"\\\1", short(text, 400)).replace("\\<", "&lt;").replace("\\>", "&gt;").replace("\\&", "&amp;")


def _header(audit: Audit, data: str, name: str) -> str:
    """Metadata that the Hugging Face Hub reads."""
    images = audit.trained is not None and audit.trained.kind == "image"
    task = "image-classification" if images else "tabular-classification"
    values: dict[str, Any] = {
        "library_name": "fairweight",
        "pipeline_tag": task,
        "tags": ["fairness", "sample-weights", "fairweight"],
        "model-index": [
            {
                "name": name,
                "results": [
                    {
                        "task": {"type": task},
                        "dataset": {"name": data or "own data", "type": data or "own-data", "split": "test"},
                        "metrics": _header_metrics(audit.metrics),
                    }
                ],
            }
        ],
    }
    lines = [f"{key}: {as_yaml(value)}" for key, value in values.items()]
    return "\n".join(["---", *lines, "---"])


def as_yaml(value: Any) -> str:
    """Plain values on one line of YAML: JSON, with the characters escaped that YAML calls unprintable.

    JSON's own escapes would not do: it writes a character beyond the first 65,536 as two halves, which YAML takes for
    two broken ones.
    """
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def _header_metrics(metrics: Mapping[str, Any]) -> list[dict[str, Any]]:
    chosen = ("accuracy", "balanced_accuracy", "worst_group_accuracy", "tprd", "max_fnr")
    return [
        {"type": name, "name": SUMMARY[name], "value": metrics[name]} for name in chosen if known(metrics.get(name))
    ]


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Cells hold escaped text already."""
    head = list(heads)
    lines = [head, ["---"] * len(head), *(list(row) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _what(audit: Audit) -> str:
    facts = _table(("", ""), ([escaped(key), escaped(value)] for key, value in audit.facts.items()))
    return f"Trained with fairweight. Every number below was measured on the run in this folder.\n\n{facts}"


def _data(audit: Audit) -> str:
    notes = "\n".join(f"- {escaped(note)}" for note in audit.notes) or "- Nothing was noted about the data."
    return f"## Data\n\n{notes}"


def _metrics(audit: Audit) -> str:
    level = f"{100 * audit.metrics['interval']['level']:g} %"
    heads = ["Number", f"Value [{level} interval]"]
    if audit.baseline is not None:
        heads += [escaped(audit.baseline.name), "Difference"]
    rows = []
    for row in summary_rows(audit):
        cells = [escaped(row["title"]), f"{row['value']} {row['interval']}".strip()]
        apart = f"{row['difference']} {row['difference_interval']}".strip()
        rows.append(cells if audit.baseline is None else [*cells, row["before"], apart])
    groups = group_rows(audit)
    by_group = _table(
        [audit.group_word.capitalize(), "n", *(escaped(title) for _, title in group_columns(audit))],
        (
            [escaped(g["name"]), f"{g['n']:,}", *(f"{rate.value} {rate.interval}".strip() for rate in g["rates"])]
            for g in groups[:MOST_GROUPS]
        ),
    )
    left = len(groups) - MOST_GROUPS
    rest = f"\n\nThe first {MOST_GROUPS}; metrics.json has {left} more." if left > 0 else ""
    return f"## Metrics\n\nOn {audit.metrics['n']:,} test samples.\n\n{_table(heads, rows)}\n\n{by_group}{rest}"


def _found(audit: Audit) -> str:
    lines = [f"- **{escaped(finding.kind)}**: {escaped(finding.sentence)}" for finding in findings(audit)]
    return "## What the audit found\n\n" + "\n".join(lines)


def _limits(audit: Audit) -> str:
    """What the numbers do not say."""
    lines = [
        f"The numbers are of {audit.metrics['n']:,} test samples of this source; another population was not measured.",
        "One training run: the intervals tell chance in the test set, not chance in training.",
    ]
    if audit.by_label:
        lines.append("No group was given, so nothing is known about people: gaps are between labels.")
    else:
        named = audit.facts.get("group") or ", ".join(map(str, audit.metrics["by"]))
        lines.append(f"Gaps were measured between groups of {named}; other attributes were not looked at.")
    if missing := audit.metrics["n_missing"]:
        lines.append(f"{missing:,} test samples without a known group are in no number.")
    worst = audit.metrics.get("worst_group_accuracy")
    if known(worst):
        lines.append(f"On its worst {audit.group_word} it is right {percent(worst)} of the time.")
    return "## Limits\n\n" + "\n".join(f"- {escaped(line)}" for line in [*lines, *audit.missing])
