"""Which samples to drop for a smaller and more even training set: pure functions of what a run left of each sample.

The rule of the paper drops the samples with the lowest normalised weighted loss, averaged over training; it does not
say which normalisation, so each candidate has a name here. A cell (label and group) never falls below the floor: its
best samples are kept and the next lowest of other cells go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairweight.constraints import plain_seed
from fairweight.errors import BadInput, UnknownName, option

Array = np.ndarray[Any, Any]

FLOOR = 10  # samples of each cell that stay, where it has so many
COLUMNS = {  # the lowest go
    "weighted-loss": "ema_weighted_loss",  # average of p_i B l_i, p the weight in the batch: the rule of the paper
    "weighted-loss-by-epoch": "ema_relative_weighted_loss",  # each epoch divided by its mean: all epochs count alike
    "weighted-loss-by-class": "ema_weighted_loss",  # divided by the mean of its label: classes shrink alike
    "weighted-loss-over-set": "ema_set_weighted_loss",  # average of the loss times the weight over the whole set
    "loss": "ema_relative_loss",  # each epoch divided by its mean; no weight
    "forgetting": "forgetting_events",
    "score": "score",
}
# At random, from each label a quota, most from those of high recall: Vysogorets et al., ICLR 2025 (arXiv 2404.05579).
QUOTAS = "recall-quotas"
RULES = (*COLUMNS, QUOTAS)
ALSO = dict(zip(("N1", "N2", "N3", "N4", "N5"), COLUMNS, strict=False)) | {"DROP": QUOTAS}


@dataclass(frozen=True)
class Condensed:
    """Which rows of weights.parquet stay, and what that did to each cell."""

    rule: str
    kept: Array  # [N] bool
    values: Array  # [N] what the rule ranks by
    cells: pd.DataFrame  # label, group, before, after
    notes: tuple[str, ...]  # what the floor did, and what else should be known

    @property
    def dropped(self) -> int:
        return int((~self.kept).sum())

    def by_cell(self) -> pd.DataFrame:
        """before, after and the share that goes, of each cell; of each label where the label is the group."""
        by = ["label", "group"] if self.cells["label"].duplicated().any() else ["label"]
        table = self.cells.groupby(by, observed=True)[["before", "after"]].sum()
        return table.assign(dropped_share=1 - table["after"] / table["before"])


def rule_named(name: str) -> str:
    """The rule of that name, also as N1 to N5."""
    found = ALSO.get(name.upper(), name.lower().replace("_", "-"))
    if found not in RULES:
        raise UnknownName(f"{name!r} is no rule of condensation; choose from: {', '.join([*RULES, *ALSO])}.")
    return found


def number_to_drop(words: str, total: int) -> int:
    """How many of so many samples "10%", "0.1" or "500" means."""
    text = words.strip()
    share = text.endswith("%")
    try:
        value = float(text.removesuffix("%")) / (100 if share else 1)
    except ValueError:
        value = math.nan
    count = round(value * total) if 0 < value < 1 else int(value) if value.is_integer() and not share else 0
    if not 0 < count < total:
        raise BadInput(
            f"{option('drop', words)} is no part of {total:,} samples; give a share such as 10%, or a number of them."
        )
    return count


def condense(
    weights: pd.DataFrame, count: int, rule: str = "weighted-loss", *, floor: int = FLOOR,
    recall: Mapping[str, float] | None = None, seed: int = 0,
) -> Condensed:  # fmt: skip
    """Drop so many of the lowest by a rule, and no cell below the floor; fewer go where the floor asks for it.

    recall: of each label, on held-out samples, which recall-quotas asks for; seed: of what it draws.
    """
    name = rule_named(rule)
    values = _quota_values(weights, count, recall or {}, seed) if name == QUOTAS else _rule_values(weights, name)
    loss = weights["ema_loss"].to_numpy(dtype=float) if "ema_loss" in weights else np.zeros(len(weights))
    # From the lowest; of equals the lower average loss, then the lower row; never seen ones last.
    order = np.lexsort((weights["row"].to_numpy(), loss, values, np.isnan(values)))
    # A group that is not known is one of its own.
    groups = weights["group"].astype(object).where(weights["group"].notna(), "not known")
    cells = weights[["label"]].assign(group=groups).astype(str)
    later = cells.iloc[order].groupby(["label", "group"]).cumcount(ascending=False).to_numpy()
    known = ~np.isnan(values[order])
    kept, wished = np.ones((2, len(weights)), dtype=bool)
    kept[order[known & (later >= floor)][:count]] = False
    wished[order[known][:count]] = False  # without the floor
    table = cells.assign(before=1, after=kept, wished=wished).groupby(["label", "group"], as_index=False).sum()
    notes = _notes(table, floor, count, int((~kept).sum()))
    if unseen := int((~known).sum()):
        notes.append(f"{unseen:,} samples were never seen in training, so the rule says nothing of them; they stay.")
    return Condensed(name, kept, values, table.drop(columns="wished"), tuple(notes))


def _rule_values(weights: pd.DataFrame, rule: str) -> Array:
    """What a rule ranks by, the lowest to be dropped first; NaN where it is not known."""  # [N]
    column = COLUMNS[rule]
    if column not in weights or not weights[column].notna().any():
        message = "its method learns none" if column == "score" else "it was written by another version"
        raise BadInput(f"the run has no {column}, which the rule {rule!r} drops by ({message}); choose another rule.")
    values: Array = weights[column].to_numpy(dtype=float)
    if rule == "weighted-loss-by-class":
        means = weights.groupby("label", observed=True)[column].transform("mean").to_numpy(dtype=float)
        values = values / np.maximum(means, np.finfo(float).tiny)
    return values


def quotas(sizes: Array, recalls: Array, count: int) -> Array:
    """How many samples of each label go: it keeps a share that grows with 1 − recall, and at most all it has.

    Labels of recall 1 keep something only where the others are full, and alike.
    """  # [K]
    need = np.maximum(1 - recalls, 1e-9)
    full = np.sort(np.append(0.0, 1 / need))  # factors of the need at which one more label is full
    kept = (sizes * np.minimum(1.0, full[:, None] * need)).sum(axis=1)
    goes = sizes - sizes * np.minimum(1.0, np.interp(sizes.sum() - count, kept, full) * need)
    whole = np.floor(goes + 1e-6)
    whole[np.argsort(whole - goes, kind="stable")[: round(count - whole.sum())]] += 1  # the largest remainders
    return np.asarray(whole, dtype=np.int64)


def _quota_values(weights: pd.DataFrame, count: int, recall: Mapping[str, float], seed: int) -> Array:
    """A random order in which each label's quota stands below 1 and the rest of it above."""  # [N]
    labels = weights["label"].astype(str).to_numpy()
    names, sizes = np.unique(labels, return_counts=True)
    known = [recall[name] for name in names if name in recall]
    if not known:
        raise BadInput("no label of the training set has a known recall on held-out samples; choose another rule.")
    recalls = np.array([recall.get(name, float(np.mean(known))) for name in names])  # a label not held out: the mean
    generator, values = np.random.default_rng(plain_seed(seed)), np.empty(len(labels))
    for name, size, quota in zip(names, sizes, quotas(sizes.astype(float), recalls, count), strict=True):
        places, share = (generator.permutation(size) + 0.5) / size, quota / size
        values[labels == name] = np.where(places < share, places / max(share, 1e-12), 1 + places)
    return values


def random_like(weights: pd.DataFrame, kept: Array, seed: int, *, within: str = "all") -> Array:
    """As many samples at random, over all of them, within each label or within each cell."""  # [N] bool
    generator, stays = np.random.default_rng(plain_seed(seed)), np.zeros(len(kept), dtype=bool)
    by = [name for name in {"all": (), "label": ("label",), "cell": ("label", "group")}[within] if name in weights]
    codes = weights.groupby(by, observed=True, dropna=False).ngroup().to_numpy() if by else np.zeros(len(kept))
    for code in np.unique(codes):
        members = np.flatnonzero(codes == code)
        stays[generator.choice(members, int(kept[members].sum()), replace=False)] = True
    return stays


def _notes(table: pd.DataFrame, floor: int, count: int, dropped: int) -> list[str]:
    """What the floor did, and which cells are left with little."""
    notes = []
    for label, group, before, after, wished in table.itertuples(index=False):
        name = f"label={label}" + ("" if group == label else f", group={group}")
        if wished < min(before, floor):
            note = f"The rule would have left {wished:,} of {before:,} samples with {name}; the floor keeps {after:,}."
            notes.append(note)
        elif after < min(FLOOR, before):
            notes.append(f"Only {after:,} of {before:,} samples with {name} are left, below {FLOOR}.")
    if dropped < count:
        note = f"{dropped:,} samples go instead of {count:,}: no more were seen and lie above the floor of {floor}."
        notes.append(note)
    return notes
