"""Single samples on the page: which come first, some as cards with words, all as values for the page's script."""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Iterable, Sequence
from itertools import chain, islice, zip_longest
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from fairweight.data.texts import in_order
from fairweight.report._format import capitalised, known, number, percent, short, words
from fairweight.report.audit import Trained

BARS = "▁▂▃▄▅▆▇█"
POINTS = 16  # of a path, at most
MOST_SAMPLES = 100_000  # that one page carries
MOST_COLUMNS = 40  # of the source
SIDE = 64  # pixels of a thumbnail's longer side, at most
_MANY_DIGITS = re.compile(r"-?\d*\.\d{6,}(e[-+]?\d+)?")


def weighted_most(trained: Trained, *, up: bool) -> Any:
    """Positions by weight, the highest (or lowest) first; of equals, those pushed more clearly, then the lower row."""
    order = pd.DataFrame({"weight": trained.given_weight, "push": trained.weights.get("ema_push", 0.0)})
    order = order.reset_index(drop=True).fillna({"push": 0.0}).dropna(subset="weight")
    return order.sort_values(["weight", "push"], ascending=not up, kind="stable").index.to_numpy()


def worth_a_picture(trained: Trained, most: int) -> list[int]:
    """Positions of the samples to show: a third each of most suspect, most weighted up and down, each once."""
    lists = [trained.suspects["rank"].to_numpy().argsort()]
    if trained.weighs:
        lists += [weighted_most(trained, up=up) for up in (True, False)]
    turns = chain.from_iterable(zip_longest(*(ranked.tolist() for ranked in lists)))
    return list(islice(dict.fromkeys(place for place in turns if place is not None), most))


def paths(trained: Trained) -> dict[int, str]:
    """By position each kept path of a score as digits 0 to 7, POINTS or fewer, on one scale for all samples."""
    path, rows = trained.score_path, trained.path_rows
    if path is None or rows is None or not len(path):
        return {}
    picked = path[np.unique(np.linspace(0, len(path) - 1, min(POINTS, len(path))).round().astype(int))]  # [T, P]
    finite = picked[np.isfinite(picked)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    scaled = (picked - low) / (high - low) if high > low else np.full_like(picked, 0.5)
    steps = np.clip((np.nan_to_num(scaled) * 8).astype(np.int64), 0, 7).T
    return {int(row): "".join(map(str, path)) for row, path in zip(rows, steps.tolist(), strict=True)}


def sample_cards(trained: Trained, places: Iterable[int]) -> list[dict[str, Any]]:
    """What the page shows of single samples, in words."""
    weights, given_weight, score_paths = trained.weights, trained.given_weight, paths(trained)
    typical: Any = weights.groupby("label", observed=True)["ema_loss"].median() if "ema_loss" in weights else {}
    cards = []
    for place in places:
        row = weights.iloc[place]
        card: dict[str, Any] = {name: str(row.get(name, "")) for name in ("label", "suggested", "true_label")}
        card |= {"row": int(row["row"]), "rank": int(trained.suspects["rank"].iloc[place])}
        card["group"] = str(row["group"]) if trained.grouped and row["group"] == row["group"] else ""
        for name, value in (("score", row["score"]), ("weight", given_weight.iloc[place])):
            card[name] = number(value) if known(value) else ""
        card["path"] = "".join(BARS[int(step)] for step in score_paths.get(place, ""))
        card["image"] = trained.images.get(place, "")
        card["fields"] = [] if trained.columns is None else _fields(trained.columns.iloc[place])
        cards.append({**card, "why": _why(row, typical)})
    return cards


def _why(row: pd.Series[Any], typical: Any) -> str:
    """How the objective pushed it, its loss beside its label's, how often it was forgotten, what the model says."""
    parts, events, visits = [], int(row["forgetting_events"]), int(row["visits"])
    if known(row.get("ema_push")):
        parts.append(f"pushed up at {int(row['pushed_up'])} of {visits} visits")
    if row["label"] in typical:
        parts.append(f"average loss {number(row['ema_loss'])} (median of its label {number(typical[row['label']])})")
    if visits:
        often = f"forgotten {events} time{'s' if events > 1 else ''}" if events else "never forgotten"
        parts.append("never learned" if events == visits else often)
    if "predicted" in row:
        parts.append(f"the model says {short(row['predicted'])}, and gives its label {percent(row['probability'])}")
    return capitalised("; ".join(parts)) + "."


def _fields(row: pd.Series[Any]) -> list[tuple[str, str]]:
    present = [(short(name), str(value)) for name, value in row.items() if known(value)]
    return [(name, f"{float(v):.5g}" if _MANY_DIGITS.fullmatch(v) else short(v)) for name, v in present[:MOST_COLUMNS]]


def thumbnails(pixels: Any, positions: Sequence[int]) -> dict[int, str]:
    """A small picture for each position, as a data URI; pixels [n, C, H, W], uint8, 1 or 3 channels.

    PNG where it is tiny or grey, which keeps every pixel, JPEG otherwise.
    """
    uris, grey = {}, pixels.shape[1] == 1
    for place, picture in zip(positions, pixels, strict=True):
        image = Image.fromarray(picture[0] if grey else picture.transpose(1, 2, 0))
        image.thumbnail((SIDE, SIDE))
        kind, settings = ("PNG", {"optimize": True}) if grey or max(image.size) <= 16 else ("JPEG", {"quality": 80})
        out = io.BytesIO()
        image.save(out, kind, **settings)
        uris[place] = f"data:image/{kind.lower()};base64,{base64.b64encode(out.getvalue()).decode()}"
    return uris


def data_for(trained: Trained, most: int = MOST_SAMPLES) -> dict[str, Any]:
    """Plain values of all samples, or of the most suspect and the most moved of each kind, ready for JSON."""
    places = np.arange(len(trained.weights))
    if len(places) > most:
        places = np.sort(np.array(worth_a_picture(trained, most), dtype=np.int64))
    weights = trained.weights.assign(rank=trained.suspects["rank"]).iloc[places]
    if trained.weighs:
        weights = weights.assign(weight=trained.given_weight.iloc[places])
    names = {"label": "Label", "group": "Group", "predicted": "Model says", "true_label": "True"}
    if not trained.grouped:
        del names["group"]
    pushed = "ema_push" in weights and weights["ema_push"].notna().any()
    columns = []
    for name, text in words("columns").items():
        title, _, meaning = text.partition(": ")
        if name in weights and weights[name].notna().any() and (name != "pushed_up" or pushed):
            values, kind = weights[name].tolist(), "integer"
            if weights[name].dtype.kind == "f":
                values, kind = [float(f"{v:.7g}") if math.isfinite(v) else None for v in values], "number"
            columns.append({"name": name, "title": title, "meaning": meaning, "kind": kind, "values": values})
        if name == "row":
            columns += [_names(name, title, weights[name]) for name, title in names.items() if name in weights]
    score_paths = paths(trained)
    position = {int(place): k for k, place in enumerate(places)}
    source = [] if trained.columns is None else trained.columns.iloc[places, :MOST_COLUMNS].astype(object).items()
    return {
        "n": len(places),
        "of": len(trained.weights),
        "columns": columns,
        "paths": [score_paths.get(int(place), "") for place in places] if score_paths else None,
        "source": [_names(str(name), str(name), column) for name, column in source],
        "images": {str(position[place]): uri for place, uri in trained.images.items() if place in position},
    }


def _names(name: str, title: str, column: pd.Series[Any]) -> dict[str, Any]:
    """Places in a list of names, which are in order; none where a value is missing."""
    spelled = {value: f"{value:.0f}" for value in column.unique() if isinstance(value, float) and value.is_integer()}
    texts = [spelled.get(value, str(value)) if known(value) else None for value in column]
    names = in_order({text for text in texts if text is not None})
    codes = {text: k for k, text in enumerate(names)}
    return {"name": name, "title": title, "kind": "name", "names": names, "values": [codes.get(t or "") for t in texts]}
