"""A model card: Markdown with a Hugging Face header, saying only what was measured."""

from __future__ import annotations

import json
import re
from typing import Any

from markupsafe import Markup

from fairweight.report._format import known, percent, short, templates
from fairweight.report.audit import Audit
from fairweight.report.findings import findings
from fairweight.report.table_rows import SUMMARY, group_rates, summary_rows

MOST_GROUPS = 30
_IN_HEADER = ("accuracy", "balanced_accuracy", "worst_group_accuracy", "tprd", "max_fnr")
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_ENTITIES = {"\\<": "&lt;", "\\>": "&gt;", "\\&": "&amp;"}


def model_card(audit: Audit, *, data: str = "", name: str = "fairweight model") -> str:
    """The card of a run's model; data: the source's name. Whatever comes from the data is escaped."""
    # It is Markdown: `finalize` escapes whatever is not marked as safe.
    environment = templates(autoescape=False, finalize=_escape, keep_trailing_newline=True)
    filters: dict[str, Any] = {"yaml": _as_yaml, "count": "{:,}".format, "percent": percent, "known": known}
    filters["joined"] = lambda texts: Markup(" ".join(texts).strip())  # noqa: S704 - our own numbers
    environment.filters |= filters
    values: dict[str, Any] = {"rates": group_rates(audit), "summary": summary_rows(audit), "findings": findings(audit)}
    values |= {"header": _header(audit, data, name), "most": MOST_GROUPS}
    return environment.get_template("card.md").render(audit=audit, name=name, **values)


def _escape(text: object) -> str:
    """A name or sentence that Markdown and HTML take as it is; what is marked as safe stays."""
    if isinstance(text, Markup):
        return text
    escaped = re.sub(r"([\\`*_\[\]|<>~&$])", r"\\\1", short(text, 400))
    return re.sub(r"\\[<>&]", lambda match: _ENTITIES[match[0]], escaped)


def _as_yaml(value: Any) -> str:
    """Plain values on one line of YAML: JSON with its letters as they are, but for those that YAML cannot print."""
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


def _header(audit: Audit, data: str, name: str) -> dict[str, Any]:
    images = audit.trained is not None and audit.trained.kind == "image"
    task = "image-classification" if images else "tabular-classification"
    measured = [{"type": key, "name": SUMMARY[key], "value": audit.metrics.get(key)} for key in _IN_HEADER]
    metrics = [metric for metric in measured if known(metric["value"])]
    dataset = {"name": data or "own data", "type": data or "own-data", "split": "test"}
    result = {"task": {"type": task}, "dataset": dataset, "metrics": metrics}
    tags = ["fairness", "sample-weights", "fairweight"]
    index = [{"name": name, "results": [result]}]
    return {"library_name": "fairweight", "pipeline_tag": task, "tags": tags, "model-index": index}
