"""Single samples on the page: which come first, what they look like, and why they weigh what they weigh."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterable, Sequence
from itertools import chain, islice, zip_longest
from typing import TYPE_CHECKING, Any

from fairweight.errors import BadInput
from fairweight.report._format import capitalised, known, number, percent, short
from fairweight.report.audit import Trained

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    Array = np.ndarray[Any, Any]

BARS = "▁▂▃▄▅▆▇█"
POINTS = 16  # of a path, at most
SIDE = 64  # pixels of a thumbnail's longer side, at most
_MANY_DIGITS = re.compile(r"-?\d*\.\d{6,}(e[-+]?\d+)?")


def weighted_most(weights: pd.DataFrame, given: pd.Series[float], *, up: bool) -> Array:
    """Positions by weight, the highest (or lowest) first; of equals, those pushed more clearly, then the lower row."""
    import numpy as np

    sign = -1.0 if up else 1.0
    push = weights["ema_push"].to_numpy(dtype=float) if "ema_push" in weights else np.zeros(len(weights))
    order = np.lexsort((np.arange(len(weights)), sign * np.nan_to_num(push), sign * given.to_numpy(dtype=float)))
    return order[given.notna().to_numpy()[order]]


def most_suspect(suspects: pd.DataFrame) -> Array:
    """Positions by suspicion, the most suspect first."""
    import numpy as np

    return np.argsort(suspects["rank"].to_numpy(), kind="stable")


def worth_a_picture(trained: Trained, most: int) -> list[int]:
    """Positions of the samples to show: a third each of most suspect, most weighted up and down, each once."""
    lists = [most_suspect(trained.suspects)]
    if trained.weighs:
        lists += [weighted_most(trained.weights, trained.given_weight, up=up) for up in (True, False)]
    turns = chain.from_iterable(zip_longest(*(ranked.tolist() for ranked in lists)))
    return list(islice(dict.fromkeys(place for place in turns if place is not None), most))


def levels(path: Array, points: int = POINTS) -> Array:
    """A path [epochs, P] as levels 0 to 7 [P, points or fewer], on one scale for all samples."""
    import numpy as np

    picked = path[np.unique(np.linspace(0, len(path) - 1, min(points, len(path))).round().astype(int))]  # [T, P]
    finite = picked[np.isfinite(picked)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    scaled = (picked - low) / (high - low) if high > low else np.full_like(picked, 0.5)
    found: Array = np.clip((np.nan_to_num(scaled) * len(BARS)).astype(np.int64), 0, len(BARS) - 1).T
    return found


def bars(steps: Sequence[int]) -> str:
    """Levels as block characters."""
    return "".join(BARS[step] for step in steps)


class Reasons:
    """Sentences about single samples, from what training left of them."""

    def __init__(self, trained: Trained) -> None:
        self.weights = trained.weights
        by_label = trained.weights.groupby("label", observed=True)
        self._median: Any = by_label["ema_loss"].median() if "ema_loss" in trained.weights else {}

    def of(self, place: int) -> str:
        """How the objective pushed it, its loss beside its label's, how often it was forgotten, what the model says."""
        row = self.weights.iloc[place]
        parts = []
        if "ema_push" in self.weights and known(row["ema_push"]):
            parts.append(f"pushed up at {int(row['pushed_up'])} of {int(row['visits'])} visits")
        if row["label"] in self._median:
            typical = self._median[row["label"]]
            parts.append(f"average loss {number(row['ema_loss'])} (median of its label {number(typical)})")
        events, visits = int(row["forgetting_events"]), int(row["visits"])
        if visits:
            often = f"forgotten {events} time{'s' if events > 1 else ''}" if events else "never forgotten"
            parts.append("never learned" if events == visits else often)
        if "predicted" in self.weights:
            parts.append(f"the model says {short(row['predicted'])}, and gives its label {percent(row['probability'])}")
        return capitalised("; ".join(parts)) + "."


def sample_cards(trained: Trained, places: Iterable[int]) -> list[dict[str, Any]]:
    """What the page shows of single samples, in words."""
    reasons = Reasons(trained)
    steps = None if trained.score_path is None or not len(trained.score_path) else levels(trained.score_path)
    at = {} if trained.path_rows is None else {int(row): k for k, row in enumerate(trained.path_rows)}
    given = trained.given_weight
    cards = []
    for place in places:
        row = trained.weights.iloc[place]
        cards.append(
            {
                "row": int(row["row"]),
                "rank": int(trained.suspects["rank"].iloc[place]),
                "label": str(row["label"]),
                "group": str(row["group"]) if trained.grouped and row["group"] == row["group"] else "",
                "suggested": str(row.get("suggested", "")),
                "true_label": str(row.get("true_label", "")),
                "score": number(row["score"]) if known(row["score"]) else "",
                "weight": number(given.iloc[place]) if known(given.iloc[place]) else "",
                "path": "" if steps is None or place not in at else bars(steps[at[place]]),
                "image": trained.images.get(place, ""),
                "fields": [] if trained.columns is None else _fields(trained.columns.iloc[place]),
                "why": reasons.of(place),
            }
        )
    return cards


def _fields(row: pd.Series[Any]) -> list[tuple[str, str]]:
    there = [(short(name), str(value)) for name, value in row.items() if value == value and value is not None]
    return [(name, f"{float(v):.5g}" if _MANY_DIGITS.fullmatch(v) else short(v)) for name, v in there[:40]]


def thumbnails(pixels: Array, positions: Sequence[int]) -> dict[int, str]:
    """A small picture for each position, as a data URI; pixels [n, C, H, W], uint8, 1 or 3 channels."""
    if pixels.ndim != 4 or pixels.shape[1] not in (1, 3) or len(pixels) != len(positions):
        raise BadInput(f"thumbnails needs pixels [n, 1 or 3, H, W], one per position; got {pixels.shape}.")
    return {place: _data_uri(pixels[k]) for k, place in enumerate(positions)}


def _data_uri(pixels: Array) -> str:
    """One picture [C, H, W]: PNG where it is tiny or grey, which keeps every pixel, JPEG otherwise."""
    from PIL import Image

    grey = pixels.shape[0] == 1
    image = Image.fromarray(pixels[0] if grey else pixels.transpose(1, 2, 0))
    if max(image.size) > SIDE:
        image.thumbnail((SIDE, SIDE))
    kind = "PNG" if grey or max(image.size) <= 16 else "JPEG"
    out = io.BytesIO()
    image.save(out, kind, **({"optimize": True} if kind == "PNG" else {"quality": 80}))
    return f"data:image/{kind.lower()};base64,{base64.b64encode(out.getvalue()).decode()}"
