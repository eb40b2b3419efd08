"""One self-contained page: words first, then tables, pictures and every sample. No request leaves it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from fairweight.report import plots
from fairweight.report.audit import Audit, Trained
from fairweight.report.findings import findings
from fairweight.report.movement import Movement, movement
from fairweight.report.page_data import MOST_SAMPLES, chosen, data_for
from fairweight.report.sample_cards import most_suspect, sample_cards, weighted_most
from fairweight.report.table_rows import cell_rows, group_columns, group_rows, summary_rows

CARDS = 12  # samples shown as weighted up most, and as many down
SUSPECTS = 24
LINES = 10  # of one picture
ROWS = 60  # of the table of weights


def html(audit: Audit, *, most_samples: int = MOST_SAMPLES) -> str:
    """The page; whatever comes from the data is escaped, in the text and in what the script reads."""
    from jinja2 import Environment, StrictUndefined

    here = files("fairweight.report")
    script = here.joinpath("page.js").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["tight"] = _tight
    template = environment.from_string(here.joinpath("page.html").read_text(encoding="utf-8"))
    trained = audit.trained
    data = None if trained is None else data_for(trained, chosen(trained, most_samples))
    return template.render(
        audit=audit,
        findings=findings(audit),
        style=_markup(here.joinpath("page.css").read_text(encoding="utf-8")),
        script=_markup(script),
        script_hash=_hash(script),
        data=None if data is None else _markup(inside_script(data)),
        carried=None if data is None else (data["n"], data["of"]),
        columns=group_columns(audit),
        groups=group_rows(audit),
        summary=summary_rows(audit),
        cells=cell_rows(audit),
        interval_plot=_markup(_interval_plot(audit)),
        trained=None if trained is None else _about(trained),
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


def _interval_plot(audit: Audit) -> str:
    metric, title = ("accuracy", "Accuracy") if audit.has_cells else ("tpr", "True positive rate")
    before = None if audit.baseline is None else audit.baseline.metrics["groups"]
    return plots.intervals_by_group(audit.metrics["groups"], metric, title, before)


def _about(trained: Trained) -> dict[str, Any]:
    """Everything that the page says of training."""
    parts = {name: movement(trained, name) for name in (("group", "cell") if trained.grouped else ("label",))}
    colours: dict[str, int] = {}  # a part has one colour in all pictures
    moved = [_moved(name, found, colours) for name, found in parts.items() if found is not None]
    up, down = (
        weighted_most(trained.weights, trained.given_weight, up=up)[:CARDS].tolist() if trained.weighs else []
        for up in (True, False)
    )
    suspects = most_suspect(trained.suspects)[:SUSPECTS].tolist()
    return {
        "moved": moved,
        "histogram": _histogram(trained),
        "losses": _losses(trained, colours),
        "up": sample_cards(trained, up),
        "down": sample_cards(trained, down),
        "suspects": sample_cards(trained, suspects),
        "suspected": int(trained.suspects["suspected"].sum()),
        "hard": int(trained.suspects["hard"].sum()) if "hard" in trained.suspects else 0,
        "suspect_rule": trained.suspect_rule,
        "wrong_counts": [row for row in trained.wrong_counts if row["n"]][:LINES],
        "weighs": trained.weighs,
        "fixed": trained.weights_are_fixed,
        "method": trained.method,
    }


def _coloured(names: Iterable[str], colours: dict[str, int]) -> list[tuple[str, int]]:
    return [(name, colours.setdefault(name, len(colours))) for name in names]


def _moved(name: str, found: Movement, colours: dict[str, int]) -> dict[str, Any]:
    shown = found.most_moved(LINES)
    legend = _coloured(shown.names, colours if name != "cell" else {})
    words = f"Mean weight of each {name} after each epoch"
    return {
        "by": name,
        "plot": _markup(plots.lines(shown.means, "mean weight", words, colours=[c for _, c in legend], even=1.0)),
        "legend": legend,
        "left_out": len(found.names) - len(shown.names),
        "rows": found.most_moved(ROWS).ends(),
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
    """The mean training loss of each group over epochs, from the run's history."""
    import numpy as np
    import pandas as pd

    dtype = trained.weights["group"].dtype
    if not trained.history or not isinstance(dtype, pd.CategoricalDtype):
        return None
    names = [str(name) for name in dtype.categories]
    rows = [epoch.get("group_losses") or {} for epoch in trained.history]
    known = [k for k in range(len(names)) if all(str(k) in row for row in rows)]
    if not known:
        return None
    values = np.array([[float(row[str(k)]) for k in known] for row in rows])
    worst = np.argsort(-values[-1], kind="stable")[:LINES]
    what = trained.group_word
    legend = _coloured((names[known[k]] for k in worst), colours)
    words = f"Mean training loss of each {what} in each epoch"
    plot = plots.lines(values[:, worst], "mean training loss", words, colours=[c for _, c in legend])
    return {"plot": _markup(plot), "legend": legend, "left_out": len(known) - len(worst), "what": what}
