"""Draw TPRD against accuracy: every row of a class table with the spread over its seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Any

WIDTH, HEIGHT, LEFT, BELOW, RIGHT = 860, 460, 40, 45, 320
COLOURS = {"forml": "#c1121f", "paper": "#111"}  # by kind of row; of the others:
OTHER = "#2a6f97"


def ticks(low: float, high: float) -> list[float]:
    """Round numbers between, four to ten of them."""
    size = 10.0 ** math.floor(math.log10(high - low))
    step = next(size * part for part in (0.1, 0.2, 0.5, 1.0, 2.0) if (high - low) / (size * part) <= 10)
    return [round(k * step, 6) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def front_svg(record: Mapping[str, Any]) -> str:
    """A picture as text: points are means, bars standard errors, the line is a bias per class on Uniform's logits."""
    shown = [row for row in record["rows"] if row["means"]["tprd"]["n"] and row["key"] != "uniform-clean"]
    points = {row["key"]: [row["means"][key] for key in ("accuracy", "tprd")] for row in shown}
    ends: list[tuple[float, float]] = []
    for place in (0, 1):
        reach = [(p[place]["mean"], p[place]["standard_error"] or 0.0) for p in points.values()]
        low, high = min(m - e for m, e in reach), max(m + e for m, e in reach)
        ends.append((low - 0.05 * (high - low) - 0.1, high + 0.05 * (high - low) + 0.1))
    (left, right), (lowest, highest) = ends

    def across(accuracy: float) -> float:
        return round(LEFT + (accuracy - left) / (right - left) * (WIDTH - LEFT - RIGHT), 1)

    def down(tprd: float) -> float:
        return round(15 + (highest - tprd) / (highest - lowest) * (HEIGHT - BELOW - 15), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"',
        f' font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<path d="M{LEFT} 15V{HEIGHT - BELOW}H{WIDTH - RIGHT}" fill="none" stroke="black"/>',
        f'<text x="{LEFT}" y="{HEIGHT - 8}">accuracy, %</text>',
        f'<text transform="translate(12 {HEIGHT - BELOW}) rotate(-90)">TPRD, %</text>',
        *(
            f'<text x="{across(at)}" y="{HEIGHT - BELOW + 16}" text-anchor="middle">{at:g}</text>'
            for at in ticks(left, right)
        ),
        *(f'<text x="{LEFT - 5}" y="{down(at) + 4}" text-anchor="end">{at:g}</text>' for at in ticks(lowest, highest)),
    ]
    biased = [row for row in shown if (row.get("moved") or {}).get("fraction") and row["moved"]["how"] == "class-bias"]
    line = [row["key"] for row in sorted(biased, key=lambda row: row["moved"]["fraction"])]
    if biased and biased[0]["moved"]["of"] in points:
        means = ([point["mean"] for point in points[key]] for key in (biased[0]["moved"]["of"], *line))
        path = " ".join(f"{across(accuracy)},{down(tprd)}" for accuracy, tprd in means)
        parts.append(f'<polyline points="{path}" fill="none" stroke="#999"/>')
    for number, row in enumerate(sorted(shown, key=lambda row: points[row["key"]][1]["mean"]), start=1):
        (accuracy, a), (tprd, t) = ((p["mean"], p["standard_error"] or 0.0) for p in points[row["key"]])
        x, y, colour = across(accuracy), down(tprd), COLOURS.get(row["kind"], OTHER)
        bars = f"M{across(accuracy - a)} {y}H{across(accuracy + a)}M{x} {down(tprd - t)}V{down(tprd + t)}"
        beside = f'<text x="{WIDTH - RIGHT + 12}" y="{10 + 16 * number}">{number} {escape(row["title"])}</text>'
        parts.append(
            f'<g fill="{colour}"><path d="{bars}" stroke="{colour}"/><circle cx="{x}" cy="{y}" r="3"/>'
            f'<text x="{x + 5}" y="{y - 5}">{number}</text>{beside}</g>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"
