"""Self-contained pages: of an audit, and of candidates side by side. Words first; no request leaves them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup, escape

from fairweight.errors import printable
from fairweight.report import plots
from fairweight.report._format import file_text, percent, templates, words
from fairweight.report.audit import Audit, Trained
from fairweight.report.findings import expected_wrong, findings
from fairweight.report.front import Front, drawing, of_search
from fairweight.report.headline import headline
from fairweight.report.samples import MOST_SAMPLES, data_for, sample_cards, weighted_most
from fairweight.report.table_rows import cell_rows, group_rates, movement, summary_rows

CARDS = 12  # samples shown as weighted up most, and as many down
SUSPECTS = 24
LINES = 10  # of one picture
ROWS = 60  # of the table of weights
_CODE = re.compile(r"(`[^`\n]+`|(?<![\w-])--[a-z][a-z-]+)")


def html(audit: Audit, *, most_samples: int = MOST_SAMPLES, rows: bool = True) -> str:
    """The page of an audit; rows=False leaves out every single sample. Whatever comes from the data is escaped."""
    trained, front = audit.trained, of_search(audit)
    data = None if trained is None or not rows else data_for(trained, most_samples)
    values = {
        "audit": audit,
        "top": headline(audit),
        "findings": [finding for finding in findings(audit) if finding.kind not in ("verdict", "beside the baseline")],
        "rates": group_rates(audit),
        "front": front,
        "drawing": None if front is None else drawing(front),
        "summary": summary_rows(audit),
        "cells": cell_rows(audit),
        "run": trained,
        "trained": None if trained is None else _training_values(trained, rows=rows),
        "data": None if data is None else inside_script(data),
        "carried": None if data is None else (data["n"], data["of"]),
    }
    return _render("audit.html", audit.title, values)


def front_html(front: Front) -> str:
    """The page of candidates side by side, as `compare` and `--trade-off` write it."""
    drawn = drawing(front) if front.dots else None
    return _render("front.html", front.title, {"front": front, "drawing": drawn, "data": None})


def _render(name: str, title: str, values: Mapping[str, Any]) -> str:
    from jinja2 import pass_context

    # Control characters would be copied with a command, and marks that turn text round hide what it says.
    environment = templates(autoescape=True, finalize=lambda value: printable(value) if type(value) is str else value)
    glossary = Glossary()
    environment.filters |= {"percent": percent, "tight": _tight, "coded": lambda text: _with_code(_tight(text))}
    # With the context, a constant is marked where it is shown and not while the template is compiled.
    environment.filters["terms"] = pass_context(lambda _, text: glossary.mark(_tight(text)))
    environment.globals["glossary"] = glossary.listed
    # What the page's security policy lets run: this script and no other.
    script = file_text("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assets = {"style": file_text("page.css"), "script": script, "script_hash": f"sha256-{digest}"}
    return environment.get_template(name).render(title=title, **values, **assets)


def inside_script(values: Any) -> str:
    """JSON that can stand inside a script element: no angle bracket, ampersand or line separator is left in it."""
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return re.sub("[<>&]", lambda match: f"\\u{ord(match[0]):04x}", text)


def _tight(text: str) -> str:
    """A number and its unit on one line, with a true minus sign."""
    return re.sub(r"(?<![\w-])-(?=\d)", "\u2212", text).replace(" %", "\u00a0%").replace(" points", "\u00a0points")


def _training_values(trained: Trained, *, rows: bool) -> dict[str, Any]:
    colours: dict[str, int] = {}  # a part has one colour in all pictures
    suspected = trained.suspects["suspected"].to_numpy()
    places_of = {"suspects": trained.suspects["rank"].to_numpy().argsort()[:SUSPECTS]}
    places_of |= {name: weighted_most(trained, up=name == "up")[: CARDS * trained.weighs] for name in ("up", "down")}
    weights = trained.given_weight.to_numpy(dtype=float)
    return {
        **{name: sample_cards(trained, places.tolist() if rows else []) for name, places in places_of.items()},
        "moved": _movement_chart(trained, colours),
        "histogram": _score_histogram(trained),
        "losses": _loss_chart(trained, {} if trained.grouped else colours),
        "suspected": int(suspected.sum()),
        "suspected_up": int((weights[suspected] > 1).sum()) if trained.weighs else 0,
        "expected": expected_wrong(trained),
        "known": trained.detection is not None,
        "hard": int(trained.suspects["hard"].sum()) if "hard" in trained.suspects else 0,
        "wrong_counts": [row for row in trained.wrong_counts if row["n"]][:LINES],
    }


def _lines(
    names: Sequence[str], colours: dict[str, int], values: Any, title: str, words: str, even: float | None = None
) -> dict[str, Any]:
    """A picture of lines with its legend; title: of the axis, words: what the whole shows."""
    legend = [(name, colours.setdefault(name, len(colours))) for name in names]
    plot = plots.lines(values, title, words, [colour for _, colour in legend], even)
    return {"legend": legend, "plot": plot}


def _movement_chart(trained: Trained, colours: dict[str, int]) -> dict[str, Any] | None:
    by, parts = trained.part, movement(trained, trained.part)
    if not parts:
        return None
    shown, rows = parts[:LINES], sorted(parts[:ROWS], key=lambda part: -part.end)
    means = np.stack([part.means for part in shown], axis=1)
    words = f"Mean weight of each {by} after each epoch"
    picture = _lines([part.name for part in shown], colours, means, "mean weight", words, even=1.0)
    if len(means) < 3 or (means == means[0]).all():  # a line would say nothing
        picture["plot"] = ""
    farthest = max(abs(parts[0].end - 1), 0.25)
    return {**picture, "by": by, "left_out": len(parts) - len(shown), "rows": rows, "farthest": farthest}


def _score_histogram(trained: Trained) -> dict[str, Any] | None:
    if not trained.has_scores:
        return None
    scores, wrong = trained.weights["score"].to_numpy(dtype=float), trained.wrong
    parts = {"all samples": scores}
    if wrong is not None:
        parts = {"right label": scores[~wrong], "wrong label": scores[wrong]}
    plot = plots.histogram(parts, "score at the end", "How many samples have which score")
    return {"plot": plot, "legend": [(name, place) for place, name in enumerate(parts)], "left_out": 0}


def _loss_chart(trained: Trained, colours: dict[str, int]) -> dict[str, Any] | None:
    dtype = trained.weights["group"].dtype
    losses = pd.DataFrame([epoch.get("group_losses") or {} for epoch in trained.history]).dropna(axis=1)
    if losses.empty or not isinstance(dtype, pd.CategoricalDtype):
        return None
    shown = losses[losses.iloc[-1].astype(float).nlargest(LINES).index].astype(float)
    what = "group" if trained.grouped else "label"
    names = [str(dtype.categories[int(code)]) for code in shown.columns]
    words = f"Mean training loss of each {what} in each epoch"
    picture = _lines(names, colours, shown.to_numpy(), "mean training loss", words)
    return {**picture, "left_out": losses.shape[1] - shown.shape[1], "what": what}


class Glossary:
    """Marks words of a page that a reader may not know, and lists afterwards which ones it has used."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self._names = {name.lower(): name for name in words("terms")}
        self._anchors = {name: f"term-{k}" for k, name in enumerate(self._names.values())}
        known = "|".join(sorted(map(re.escape, self._names), key=len, reverse=True))
        self._known = re.compile(rf"(?<![\w-])({known})(?![\w-])", re.IGNORECASE)

    def mark(self, text: str) -> Any:
        """The escaped text, with each known word that was not marked before as something to point at or tab to."""
        template = Markup('<span class="term" role="button" tabindex="0" aria-describedby="{}">{}</span>')
        marked_text = Markup("")
        for k, part in enumerate(self._known.split(text)):
            name = self._names.get(part.lower(), "") if k % 2 else ""
            marked = template.format(self._anchors[name], part) if name and name not in self.used else escape(part)
            marked_text += marked if k % 2 else _with_code(part)
            self.used |= {name} if name else set()
        return marked_text

    def listed(self) -> list[tuple[str, str, str]]:
        return [(self._anchors[name], name, words("terms")[name]) for name in sorted(self.used, key=str.lower)]


def _with_code(text: str) -> Any:
    """The escaped text, with commands in backticks and flags set as code."""
    template = Markup("<code>{}</code>")
    parts = enumerate(_CODE.split(text))
    return Markup("").join(template.format(part.strip("`")) if k % 2 else escape(part) for k, part in parts)
