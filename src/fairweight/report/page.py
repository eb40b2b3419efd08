"""Self-contained pages: of an audit, and of candidates side by side. Words first; no request leaves them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from importlib.resources import files
from typing import Any

from fairweight.report import plots
from fairweight.report._format import percent
from fairweight.report.audit import Audit, Trained
from fairweight.report.findings import findings
from fairweight.report.front import Front, drawing, of_search
from fairweight.report.headline import headline
from fairweight.report.movement import Movement, movement
from fairweight.report.page_data import MOST_SAMPLES, chosen, data_for
from fairweight.report.sample_cards import most_suspect, sample_cards, weighted_most
from fairweight.report.table_rows import cell_rows, group_chart, group_columns, group_rows, summary_rows
from fairweight.report.terms import Glossary, coded
from fairweight.report.training_findings import expected_wrong

CARDS = 12  # samples shown as weighted up most, and as many down
SUSPECTS = 24
LINES = 10  # of one picture
ROWS = 60  # of the table of weights
_TEMPLATES = ("shell.html", "macros.html", "audit.html", "front.html")


def html(audit: Audit, *, most_samples: int = MOST_SAMPLES, rows: bool = True) -> str:
    """The page of an audit; rows=False leaves out every single sample. Whatever comes from the data is escaped."""
    trained = audit.trained
    data = None if trained is None or not rows else data_for(trained, chosen(trained, most_samples))
    front = of_search(audit)
    values = {
        "audit": audit,
        "top": headline(audit),
        "findings": [found for found in findings(audit) if found.kind not in ("verdict", "beside the baseline")],
        "chart": group_chart(audit),
        "front": front,
        "drawing": None if front is None else drawing(front),
        "columns": group_columns(audit),
        "groups": group_rows(audit),
        "summary": summary_rows(audit),
        "cells": cell_rows(audit),
        "run": trained,
        "trained": None if trained is None else _about(trained, rows=rows),
        "data": None if data is None else _markup(inside_script(data)),
        "carried": None if data is None else (data["n"], data["of"]),
    }
    return _rendered("audit.html", audit.title, values)


def front_html(front: Front) -> str:
    """The page of candidates side by side, as `compare` and `--trade-off` write it."""
    drawn = drawing(front) if front.dots else None
    return _rendered("front.html", front.title, {"front": front, "drawing": drawn, "data": None})


def _rendered(name: str, title: str, values: Mapping[str, Any]) -> str:
    from jinja2 import DictLoader, Environment, StrictUndefined

    here = files("fairweight.report")
    script = here.joinpath("page.js").read_text(encoding="utf-8")
    loader = DictLoader({file: here.joinpath(file).read_text(encoding="utf-8") for file in _TEMPLATES})
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, loader=loader
    )
    glossary = Glossary()
    filters: dict[str, Callable[..., Any]] = {
        "percent": percent,
        "tight": _tight,
        "coded": lambda text: coded(_tight(text)),
        "terms": lambda text: glossary.mark(_tight(text)),
    }
    environment.filters |= filters
    environment.globals["glossary"] = glossary.listed
    return environment.get_template(name).render(
        **values,
        title=title,
        style=_markup(here.joinpath("page.css").read_text(encoding="utf-8")),
        script=_markup(script),
        script_hash=_hash(script),
    )


def inside_script(values: Any) -> str:
    """JSON that can stand inside a script element: no angle bracket, ampersand or line separator is left in it."""
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _tight(text: str) -> str:
    """A number and its unit on one line, with a true minus sign."""
    return re.sub(r"(?<![\w-])-(?=\d)", "\u2212", text).replace(" %", "\u00a0%").replace(" points", "\u00a0points")


def _markup(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)  # noqa: S704 - our own files, matplotlib's output and JSON that inside_script escaped


def _hash(script: str) -> str:
    """What the page's security policy lets run: this script and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _about(trained: Trained, *, rows: bool) -> dict[str, Any]:
    by = "cell" if trained.grouped else "label"
    found = movement(trained, by)
    colours: dict[str, int] = {}  # a part has one colour in all pictures
    suspected = trained.suspects["suspected"].to_numpy()
    up, down = (
        weighted_most(trained.weights, trained.given_weight, up=up)[:CARDS].tolist() if trained.weighs else []
        for up in (True, False)
    )
    return {
        "moved": None if found is None else _moved(by, found, colours),
        "histogram": _histogram(trained),
        "losses": _losses(trained, colours if by == "label" else {}),
        "up": sample_cards(trained, up) if rows else [],
        "down": sample_cards(trained, down) if rows else [],
        "suspects": sample_cards(trained, most_suspect(trained.suspects)[:SUSPECTS].tolist()) if rows else [],
        "suspected": int(suspected.sum()),
        "suspected_up": int((trained.given_weight.to_numpy(dtype=float)[suspected] > 1).sum()) if trained.weighs else 0,
        "expected": expected_wrong(trained),
        "known": trained.detection is not None,
        "hard": int(trained.suspects["hard"].sum()) if "hard" in trained.suspects else 0,
        "wrong_counts": [row for row in trained.wrong_counts if row["n"]][:LINES],
    }


def _coloured(names: Iterable[str], colours: dict[str, int]) -> list[tuple[str, int]]:
    return [(name, colours.setdefault(name, len(colours))) for name in names]


def _moved(name: str, found: Movement, colours: dict[str, int]) -> dict[str, Any]:
    shown = found.most_moved(LINES)
    legend = _coloured(shown.names, colours)
    words = f"Mean weight of each {name} after each epoch"
    still = len(shown.means) < 3 or bool((shown.means == shown.means[0]).all())  # a line would say nothing
    plot = "" if still else plots.lines(shown.means, "mean weight", words, colours=[c for _, c in legend], even=1.0)
    rows = found.most_moved(ROWS).ends()
    return {
        "by": name,
        "plot": _markup(plot),
        "legend": legend,
        "left_out": len(found.names) - len(shown.names),
        "rows": rows,
        "farthest": max([abs(weight - 1) for _, _, weight in rows] + [0.25]),
    }


def _histogram(trained: Trained) -> dict[str, Any] | None:
    if not trained.has_scores:
        return None
    scores = trained.weights["score"].to_numpy(dtype=float)
    parts = {"all samples": scores}
    if "true_label" in trained.weights:
        wrong = (trained.weights["label"].astype(str) != trained.weights["true_label"].astype(str)).to_numpy()
        parts = {"right label": scores[~wrong], "wrong label": scores[wrong]}
    plot = plots.histogram(parts, "score at the end", "How many samples have which score")
    return {"plot": _markup(plot), "legend": [(name, place) for place, name in enumerate(parts)]}


def _losses(trained: Trained, colours: dict[str, int]) -> dict[str, Any] | None:
    import pandas as pd

    dtype = trained.weights["group"].dtype
    losses = pd.DataFrame([epoch.get("group_losses") or {} for epoch in trained.history]).dropna(axis=1)
    if losses.empty or not isinstance(dtype, pd.CategoricalDtype):
        return None
    shown = losses[losses.iloc[-1].astype(float).nlargest(LINES).index].astype(float)
    what = trained.group_word
    legend = _coloured((str(dtype.categories[int(code)]) for code in shown.columns), colours)
    words = f"Mean training loss of each {what} in each epoch"
    plot = plots.lines(shown.to_numpy(), "mean training loss", words, colours=[c for _, c in legend])
    return {"plot": _markup(plot), "legend": legend, "left_out": losses.shape[1] - shown.shape[1], "what": what}
