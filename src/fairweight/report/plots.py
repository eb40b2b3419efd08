"""Pictures as SVG text: coloured by the page's style sheet, so that dark mode and print follow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

WIDTH, HEIGHT = 460.0, 280.0
LEFT, RIGHT, TOP, BOTTOM = 50.0, 446.0, 12.0, 240.0  # of the part between the axes
STYLES = ("none", "6 3", "1.5 2.5")  # dashes: beside its colour a line has a style, for readers who see few colours
BINS = 48  # of a histogram


def ticks(values: Sequence[float], most: int = 6, *, pad: float = 0.06, whole: bool = False) -> list[float]:
    """Round numbers that span the values with some room."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    room = pad * (high - low) if high > low else 0.5
    raw = (high - low + 2 * room) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * (1 - 1e-9))
    step = math.ceil(step) if whole else step
    first, last = math.floor((low - room) / step + 1e-9), math.ceil((high + room) / step - 1e-9)
    first = max(first, 0) if low >= 0 else first  # rates and counts have nothing below 0
    return [round(k * step, 9) for k in range(first, last + 1)]


@dataclass(frozen=True)
class Axes:
    """Where numbers stand on the canvas."""

    x_ticks: Sequence[float]
    y_ticks: Sequence[float]

    def x(self, value: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * (value - self.x_ticks[0]) / (self.x_ticks[-1] - self.x_ticks[0]), 1)

    def y(self, value: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * (value - self.y_ticks[0]) / (self.y_ticks[-1] - self.y_ticks[0]), 1)

    def drawn(self, across: str, up: str, body: str, words: str) -> str:
        """A picture for people who see it and, in words, for those who do not."""
        head = f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(words)}">'
        return f"{head}{self.frame(across, up)}{body}</svg>"

    def frame(self, across: str, up: str) -> str:
        lines = [(x, x, TOP, BOTTOM) for x in map(self.x, self.x_ticks)]
        lines += [(LEFT, RIGHT, y, y) for y in map(self.y, self.y_ticks)]
        texts = [(self.x(at), BOTTOM + 14, "middle", f"{at:g}") for at in self.x_ticks]
        texts += [(LEFT - 6, self.y(at) + 4, "end", f"{at:g}") for at in self.y_ticks]
        texts += [((LEFT + RIGHT) / 2, BOTTOM + 32, "middle", escape(across))]
        middle = f"translate(11 {(TOP + BOTTOM) / 2}) rotate(-90)"
        return "".join(
            [f'<line class="grid" x1="{a}" x2="{b}" y1="{c}" y2="{d}"/>' for a, b, c, d in lines]
            + [f'<text x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>' for x, y, anchor, text in texts]
            + [f'<text transform="{middle}" text-anchor="middle">{escape(up)}</text>']
        )


def lines(values: Any, title: str, words: str, colours: Sequence[int], even: float | None = None) -> str:
    """One line per column [epochs, lines]; colours: the series each takes; even: a level to compare with."""
    start = 0 if even is not None else 1
    levels = [float(v) for v in values.ravel() if math.isfinite(v)] + ([] if even is None else [even])
    axes = Axes(ticks([start, start + max(1, len(values) - 1)], pad=0, whole=True), ticks(levels))
    body = ""
    if even is not None:
        body = f'<line class="level" x1="{LEFT}" x2="{RIGHT}" y1="{axes.y(even)}" y2="{axes.y(even)}"/>'
    for column, place in enumerate(colours):
        path = " ".join(f"{axes.x(start + k)},{axes.y(float(v))}" for k, v in enumerate(values[:, column]))
        look = f"stroke:var(--series-{place % 8});stroke-dasharray:{STYLES[place % len(STYLES)]}"
        body += f'<polyline class="series" style="{look}" points="{path}"/>'
    return axes.drawn("epoch", title, body, words)


def histogram(parts: Mapping[str, Any], title: str, words: str) -> str:
    """How many samples have which value, part upon part."""
    known = [values[np.isfinite(values)] for values in parts.values()]
    edges = np.histogram_bin_edges(np.concatenate(known) if any(map(len, known)) else np.array([0.0, 1.0]), BINS)
    tops = np.cumsum([np.histogram(values, edges)[0] for values in known], axis=0)
    axes = Axes(ticks([float(edges[0]), float(edges[-1])], pad=0), ticks([0.0, float(tops.max())], pad=0))
    places, body = [axes.x(float(edge)) for edge in edges], ""
    for series in reversed(range(len(tops))):  # the highest first: those below are drawn upon it
        steps = zip(places[:-1], (axes.y(float(top)) for top in tops[series]), places[1:], strict=True)
        path = " ".join(f"H{left}V{y}H{right}" for left, y, right in steps)
        body += f'<path style="fill:var(--series-{series})" d="M{places[0]},{BOTTOM}{path}V{BOTTOM}Z"/>'
    return axes.drawn(title, "samples", body, words)
