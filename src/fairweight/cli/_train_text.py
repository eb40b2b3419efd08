"""What `fairweight train` says before it trains and after."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING

from fairweight.apps.train import in_words
from fairweight.cli._words import in_flags

if TYPE_CHECKING:
    from fairweight.apps.trade_off import TradeOff
    from fairweight.apps.train import Prepared, Trained


def opening(prepared: Prepared, device: str) -> str:
    """What was found in the data, and every setting that was chosen or given."""
    dataset = prepared.dataset
    lines = [f"Data: {dataset.name}"]
    lines += [
        _wrapped(in_flags(note), "  ") for note in sorted(dataset.notes, key=lambda n: not n.startswith("Warning: "))
    ]
    lines.append("Settings")
    settings = {**in_words(prepared.spec, dataset), "device": device}
    settings["network"] += f" ({prepared.parameters:,} parameters)"
    lines += [_wrapped(f"{name:10s} {value}", "  ", hang=11) for name, value in settings.items()]
    return "\n".join(lines) + "\n"


def closing(done: Trained, seconds: float) -> str:
    """The last screen: the table by group, plain training beside it, and what changed in words."""
    parts = [f"{done.result.spec.title} on the test rows\n\n{done.table.text(_columns_of_terminal())}"]
    if done.differences is not None:
        heads = ("points [95 %]", "uniform", done.result.spec.title, "difference")
        parts.append(_columns([heads, *done.differences.rows()]))
        parts.append("\n".join(_wrapped(s) for s in (done.differences.sentence(), *done.differences.notes())))
    folder = done.result.folder.path
    found = [run.spec.title for run in (done.result, done.baseline) if run is not None and run.reused]
    reused = f" ({' and '.join(found)} found finished)" if found else ""
    parts.append(
        f"Run folder: {folder}{reused}\n"
        f"  weights.parquet  a row for every training sample: score, weight and history\n"
        f"  Predict:         fairweight predict {folder} FILE --out predictions.csv\n"
        f"Done in {seconds:.0f} seconds."
    )
    return "\n" + "\n\n".join(parts)


def front(found: TradeOff) -> str:
    """The points on validation, and why one was chosen."""
    heads = ("validation, points", "accuracy", "TPRD", "")
    rows = [heads]
    for point in found.points:
        marks = ["on the front"] * (point in found.front) + ["chosen"] * (point is found.chosen)
        rows.append((point.title, point.accuracy_text, point.gap_text, ", ".join(marks)))
    return f"\n{_columns(rows)}\n\n{_wrapped(found.rule)}\nPicture: {found.picture}"


def _columns(rows: list[tuple[str, str, str, str]]) -> str:
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    lines = []
    for first, *rest in rows:
        cells = [f"{cell:>{width}s}" for cell, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join([f"{first:{widths[0]}s}", *cells]).rstrip())
    return "\n".join(lines)


def _wrapped(text: str, indent: str = "", hang: int = 2) -> str:
    width = max(60, min(120, _columns_of_terminal()))
    return textwrap.fill(
        text, width, initial_indent=indent, subsequent_indent=indent + " " * (hang if indent else 0),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _columns_of_terminal() -> int:
    return shutil.get_terminal_size((120, 24)).columns
