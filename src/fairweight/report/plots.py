"""Pictures as SVG text: coloured by the page's style sheet, so that dark mode and print follow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

WIDTH, HEIGHT = 460.0, 280.0
LEFT, RIGHT, TOP, BOTTOM = 50.0, 446.0, 12.0, 240.0  # of the part between the axes
STYLES = ("none", "6 3", "1.5 2.5")  # dashes: beside its colour a line has a style, for readers who see few colours


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
        """Across."""
        return round(LEFT + (RIGHT - LEFT) * (value - self.x_ticks[0]) / (self.x_ticks[-1] - self.x_ticks[0]), 1)

    def y(self, value: float) -> float:
        """Down."""
        return round(BOTTOM - (BOTTOM - TOP) * (value - self.y_ticks[0]) / (self.y_ticks[-1] - self.y_ticks[0]), 1)

    def frame(self, across: str, up: str) -> str:
        """Grid, numbers and titles of the axes."""
        parts = []
        for at in self.x_ticks:
            x = self.x(at)
            parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{BOTTOM}"/>')
            parts.append(f'<text x="{x}" y="{BOTTOM + 14}" text-anchor="middle">{at:g}</text>')
        for at in self.y_ticks:
            y = self.y(at)
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{y}" y2="{y}"/>')
            parts.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{at:g}</text>')
        middle = f"translate(11 {(TOP + BOTTOM) / 2}) rotate(-90)"
        parts.append(f'<text x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 32}" text-anchor="middle">{escape(across)}</text>')
        parts.append(f'<text transform="{middle}" text-anchor="middle">{escape(up)}</text>')
        return "".join(parts)


def _svg(body: str, words: str) -> str:
    return f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(words)}">{body}</svg>'


def lines(
    values: Array, title: str, words: str, *, colours: Sequence[int] | None = None, even: float | None = None
) -> str:
    """One line per column [epochs, lines]; colours: the series each takes; even: a level to compare with."""
    start = 0 if even is not None else 1
    levels = [float(v) for v in values.ravel() if math.isfinite(v)] + ([] if even is None else [even])
    axes = Axes(ticks([start, start + max(1, len(values) - 1)], pad=0, whole=True), ticks(levels))
    body = axes.frame("epoch", title)
    if even is not None:
        body += f'<line class="level" x1="{LEFT}" x2="{RIGHT}" y1="{axes.y(even)}" y2="{axes.y(even)}"/>'
    for column, place in enumerate(range(values.shape[1]) if colours is None else colours):
        path = " ".join(f"{axes.x(start + k)},{axes.y(float(v))}" for k, v in enumerate(values[:, column]))
        look = f"stroke:var(--series-{place % 8});stroke-dasharray:{STYLES[place % len(STYLES)]}"
        body += f'<polyline class="series" style="{look}" points="{path}"/>'
    return _svg(body, words)


def histogram(parts: Mapping[str, Array], title: str, words: str, bins: int = 48) -> str:
    """How many samples have which value, part upon part."""
    import numpy as np

    known = [values[np.isfinite(values)] for values in parts.values()]
    everything = np.concatenate(known) if any(map(len, known)) else np.array([0.0, 1.0])
    edges = np.histogram_bin_edges(everything, bins)
    floor = np.zeros(bins)
    tops = [floor := floor + np.histogram(values, edges)[0] for values in known]
    axes = Axes(ticks([float(edges[0]), float(edges[-1])], pad=0), ticks([0.0, float(floor.max())], pad=0))
    body = axes.frame(title, "samples")
    for place in reversed(range(len(tops))):  # the highest first: those below are drawn upon it
        heights = [axes.y(float(top)) for top in tops[place]]
        steps = " ".join(
            f"H{axes.x(float(left))}V{y}H{axes.x(float(right))}"
            for left, right, y in zip(edges[:-1], edges[1:], heights, strict=True)
        )
        body += f'<path style="fill:var(--series-{place})" d="M{axes.x(float(edges[0]))},{BOTTOM}{steps}V{BOTTOM}Z"/>'
    return _svg(body, words)
