"""Audits made up for tests: what was measured is known, because it was put there."""

from __future__ import annotations

import base64
from dataclasses import replace

import numpy as np
import pandas as pd

from fairweight.metrics import compare, group_table
from fairweight.report import Audit, Baseline, Trained
from fairweight.report.suspects import detection, suspicion


def table(rates, n=400, *, positives=0.5, seed=0, group_names=None):
    """A binary table whose groups have these true positive rates and 10 % false positives."""
    labels, predictions, groups = [], [], []
    for group, rate in enumerate(rates):
        size = n[group] if isinstance(n, list | tuple) else n
        yes = round(size * positives)
        hits = round(rate * yes)
        labels += [1] * yes + [0] * (size - yes)
        false = round(0.1 * (size - yes))
        predictions += [1] * hits + [0] * (yes - hits) + [1] * false + [0] * (size - yes - false)
        groups += [group] * size
    names = group_names or [f"g{k}" for k in range(len(rates))]
    return group_table(labels, predictions, groups, label_names=["no", "yes"], group_names=names)


def weights(n=200, *, labels=("no", "yes"), groups=("F", "M"), wrong=0.0, scores=True, seed=0):
    """A weights.parquet: wrong labels have high losses, low margins and low scores."""
    random = np.random.default_rng(seed)
    label, group = random.integers(0, len(labels), n), random.integers(0, len(groups), n)
    bad = random.random(n) < wrong
    true = np.where(bad, (label + 1) % len(labels), label)
    loss = np.where(bad, 4.0, 0.2) + random.random(n) * 0.1
    score = np.where(bad, -2.0, 0.3) + random.normal(size=n) * 0.05
    weight = np.exp(score) / np.exp(score).mean()

    def named(codes, names):
        return pd.Categorical.from_codes(codes, list(names))

    frame = pd.DataFrame(
        {
            "row": np.arange(n) * 3 + 1,
            "label": named(label, labels),
            "group": named(group, groups),
            "score": score if scores else np.nan,
            "weight": weight if scores else np.nan,
            "ema_loss": loss,
            "ema_weighted_loss": loss * weight,
            "ema_weight": weight if scores else 1.0,
            "ema_relative_loss": loss / loss.mean(),
            "ema_relative_weighted_loss": loss * weight / (loss * weight).mean(),
            "ema_set_weighted_loss": loss * weight,
            "ema_push": score if scores else np.nan,
            "pushed_up": np.where(bad, 0, 5).astype("int32") if scores else np.zeros(n, dtype="int32"),
            "forgetting_events": np.where(bad, 5, 0).astype("int32"),
            "margin": np.where(bad, -3.0, 3.0) + random.random(n),
            "mean_margin": np.where(bad, -3.0, 3.0) + random.random(n),
            "mean_probability_margin": np.where(bad, -0.7, 0.7) + 0.2 * random.random(n),
            "visits": np.full(n, 5, dtype="int32"),
            "predicted": named(true, labels),
            "probability": np.where(bad, 0.02, 0.95),
            "suggested": named((label + 1) % len(labels), labels),
        }
    )
    if wrong:
        frame["true_label"] = named(true, labels)
    return frame


def trained(frame, *, epochs=4, grouped=True, images=0, columns=None, method="FORML", **more):
    """What training left, with a path that goes straight to the last score."""
    ranked = suspicion(frame)
    n = len(frame)
    paths = {}
    if frame["score"].notna().any():
        steps = np.linspace(1 / epochs, 1, epochs)[:, None]
        paths = {
            "path_rows": np.arange(n),
            "score_path": steps * frame["score"].to_numpy(),
            "weight_path": 1 + steps * (frame["weight"].to_numpy() - 1),
        }
        score = frame["score"]
        size = 1 / (n * np.square(np.exp(score) / np.exp(score).sum()).sum())
        numbers = {"std": score.std(), "min": score.min(), "max": score.max(), "effective_size": size}
        more = {"scores": {key: float(value) for key, value in numbers.items()}, **more}
    names = range(len(frame["group"].cat.categories))
    history = [{"epoch": e + 1, "group_losses": {str(g): 1.0 / (e + 1 + g) for g in names}} for e in range(epochs)]
    pixel = "data:image/png;base64," + base64.b64encode(PNG).decode()
    return Trained(
        method=method,
        weights=frame,
        suspects=ranked,
        detection=detection(frame, ranked),
        history=history,
        columns=columns,
        images=dict.fromkeys(range(images), pixel),
        grouped=grouped,
        **{**paths, **more},
    )


def audit(metrics=None, *, baseline=None, base=None, **more):
    """An Audit of this table; base: the table of plain training on the same samples."""
    made = metrics if metrics is not None else table([0.7, 0.9])
    content = made if isinstance(made, dict) else made.to_dict()
    if base is not None:
        apart = {}
        for name in ("accuracy", "tprd", "max_fnr"):
            d = compare(base, made, name)
            apart[name] = {"value": d.value, "low": d.low, "high": d.high, "beyond": d.beyond_interval}
        baseline = Baseline("Uniform", base.to_dict(), apart)
    facts = {"source": "people.csv", "label": "income", "group": "sex", "method": "FORML"}
    return Audit(title="Audit: people.csv, FORML", facts=facts, metrics=content, baseline=baseline, **more)


def large(n=60_000, epochs=10):
    """As many samples as MNIST has, with ten labels."""
    frame = weights(n, labels=tuple("0123456789"), groups=("F", "M", "X"), wrong=0.1)
    columns = pd.DataFrame({"age": np.arange(n) % 90, "town": [f"town {k % 500}" for k in range(n)]})
    return audit(trained=trained(frame, epochs=epochs, columns=columns))


def renamed(made, old, new):
    """The same audit with a group called something else everywhere."""
    assert made.trained is not None
    frame = made.trained.weights.assign(group=made.trained.weights["group"].cat.rename_categories({old: new}))
    groups = [{**g, "group": new if g["group"] == old else g["group"]} for g in made.metrics["groups"]]
    return replace(made, metrics={**made.metrics, "groups": groups}, trained=replace(made.trained, weights=frame))


PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==")
