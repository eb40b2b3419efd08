"""Pictures as SVG text for the page: drawn by matplotlib, coloured by the page, so that dark mode and print follow."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes

    Array = np.ndarray[Any, Any]

SERIES = 8  # colours that the page defines
STYLES = ("-", "--", ":")  # beside its colour a line has a style, for readers who see few colours
# Colours that stand for the page's own; the page's style sheet says what they are in light and in dark.
INK, FAINT = "#010101", "#020202"
_MEANING = {INK: "currentColor", FAINT: "var(--line)"}
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "text.parse_math": False,  # a name such as "$x" is a name
    "font.size": 11.0,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
}


def series(place: int) -> str:
    """The colour of a series."""
    return f"#0a00{place % SERIES:02x}"


def svg(draw: Callable[[Axes], None], words: str, *, width: float = 5.6, height: float = 3.1) -> str:
    """What draw puts on the axes, as an SVG element; words: the text alternative."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    out = io.StringIO()
    with mpl.rc_context({**_STYLE, "svg.hashsalt": words}), warnings.catch_warnings():
        # Names may be in any script; the browser has the letters that matplotlib's font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure.add_subplot())
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Format": None})
    return _for_the_page(out.getvalue(), words)


def _for_the_page(text: str, words: str) -> str:
    from html import escape

    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<style type=\"text/css\">.*?</style>", "", text, flags=re.DOTALL)  # it would style the whole page
    for colour, meaning in _MEANING.items():
        text = text.replace(colour, meaning)
    text = re.sub(r"#0a00(0[0-7])", lambda match: f"var(--series-{int(match[1])})", text)
    text = re.sub(r' width="[^"]*"| height="[^"]*"', "", text[: text.index(">")]) + text[text.index(">") :]
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(words)}"', 1)


def lines(
    values: Array, title: str, words: str, *, colours: Sequence[int] | None = None, even: float | None = None
) -> str:
    """One line per column [epochs, lines]; colours: the series each takes; even: a level to compare with."""
    places = range(values.shape[1]) if colours is None else colours

    def draw(axes: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        start = 0 if even is not None else 1
        for column, place in enumerate(places):
            axes.plot(
                range(start, start + len(values)),
                values[:, column],
                color=series(place),
                linewidth=1.8,
                linestyle=STYLES[place % len(STYLES)],
                marker="o" if len(values) <= 2 else None,
                markersize=4,
            )
        if even is not None:
            axes.axhline(even, color=INK, linewidth=0.8, linestyle=":")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("epoch")
        axes.set_ylabel(title)

    return svg(draw, words)


def histogram(parts: Mapping[str, Array], title: str, words: str, bins: int = 48) -> str:
    """How many samples have which value, part upon part."""
    import numpy as np

    everything = np.concatenate([values[np.isfinite(values)] for values in parts.values()])
    low, high = (float(everything.min()), float(everything.max())) if len(everything) else (0.0, 1.0)
    edges = np.linspace(low, high if high > low else low + 1e-6, bins + 1)

    def draw(axes: Axes) -> None:
        floor = np.zeros(bins)
        for place, values in enumerate(parts.values()):
            counts = np.histogram(values[np.isfinite(values)], edges)[0].astype(float)
            axes.stairs(floor + counts, edges, baseline=floor, fill=True, color=series(place))
            floor = floor + counts
        axes.set_xlabel(title)
        axes.set_ylabel("samples")
        axes.margins(x=0.01)

    return svg(draw, words)
