"""Which samples to drop for a smaller and more even training set: pure functions of what a run left of each sample.

The rule of the paper drops the samples with the lowest normalised weighted loss, averaged over training; it does not
say which normalisation. Each candidate has a name here:

| name | also | drops the lowest |
|---|---|---|
| weighted-loss | N1 | average of p_i B l_i, p the weight in the batch: the rule of the paper |
| weighted-loss-by-epoch | N2 | the same, each epoch divided by its mean, so that early and late epochs count alike |
| weighted-loss-by-class | N3 | N1 divided by the mean of its label, so that classes shrink alike |
| weighted-loss-over-set | N4 | average of the loss times the weight over the whole set |
| loss | N5 | average of the loss, each epoch divided by its mean; no weight |
| forgetting | | forgetting events |
| score | | score, where the method learns one |
| wrong-label | | chance that the label is right, beside trusted exemplars |
| recall-quotas | DRoP | at random, from each label a quota: labels with a high recall on held-out data give most |

A cell (label and group) never falls below the floor: its best samples are kept and the next lowest of other cells go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairweight.errors import BadInput, UnknownName, option

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    Array = np.ndarray[Any, Any]

STANDS = "chance_right"  # column of the chance that a label is right, which a run's folder gives on demand
FLOOR = 10  # samples of each cell that stay, where it has so many
COLUMNS = {
    "weighted-loss": "ema_weighted_loss",
    "weighted-loss-by-epoch": "ema_relative_weighted_loss",
    "weighted-loss-by-class": "ema_weighted_loss",
    "weighted-loss-over-set": "ema_set_weighted_loss",
    "loss": "ema_relative_loss",
    "forgetting": "forgetting_events",
    "score": "score",
    "wrong-label": STANDS,
}
QUOTAS = "recall-quotas"  # Vysogorets et al., ICLR 2025 (arXiv 2404.05579)
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
        """How many go."""
        return int((~self.kept).sum())

    def by_label(self) -> pd.DataFrame:
        """before, after and the share that goes, of each label."""
        table = self.cells.groupby("label", observed=True)[["before", "after"]].sum()
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
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = math.nan
    if text.endswith("%"):
        value /= 100
        value = value if 0 < value < 1 else math.nan
    count = round(value * total) if 0 < value < 1 else int(value) if value.is_integer() else 0
    if not 0 < count < total:
        raise BadInput(
            f"{option('drop', words)} is no part of {total:,} samples; give a share such as 10%, or a number of them."
        )
    return count


def condense(
    weights: pd.DataFrame,
    count: int,
    rule: str = "weighted-loss",
    *,
    floor: int = FLOOR,
    recall: Mapping[str, float] | None = None,
    seed: int = 0,
) -> Condensed:
    """Drop so many of the lowest by a rule, and no cell below the floor; fewer go where the floor asks for it.

    recall: of each label, on held-out samples, which recall-quotas asks for; seed: of what it draws.
    """
    import numpy as np

    name = rule_named(rule)
    if floor < 0:
        raise BadInput(f"{option('floor', floor)}; give the number of samples of each cell that must stay, 0 for none.")
    if name != QUOTAS:
        values = _rule_values(weights, name)
    elif recall is None:
        raise BadInput(f"the rule {name!r} needs the recall of each label on held-out samples: give recall=.")
    else:
        values = _quota_values(weights, count, recall, seed)
    loss = weights["ema_loss"].to_numpy(dtype=float) if "ema_loss" in weights else np.zeros(len(weights))
    # From the lowest; of equals the lower average loss, then the lower row; never seen ones last.
    order = np.lexsort((weights["row"].to_numpy(), loss, values, np.isnan(values)))
    cells = _cells(weights)
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


def _cells(weights: pd.DataFrame) -> pd.DataFrame:
    """The label and group of each sample as text; a group that is not known is one of its own."""
    groups = weights["group"].astype(object).where(weights["group"].notna(), "not known")
    return weights[["label"]].assign(group=groups).astype(str)


def _rule_values(weights: pd.DataFrame, rule: str) -> Array:
    """What a rule ranks by, the lowest to be dropped first; NaN where it is not known."""  # [N]
    import numpy as np

    column = COLUMNS[rule]
    if column not in weights or not weights[column].notna().any():
        why = {"score": "its method learns none", STANDS: "no exemplar is trusted"}.get(
            column, "it was written by another version"
        )
        raise BadInput(f"the run has no {column}, which the rule {rule!r} drops by ({why}); choose another rule.")
    values: Array = weights[column].to_numpy(dtype=float)
    if rule == "weighted-loss-by-class":
        means = weights.groupby("label", observed=True)[column].transform("mean").to_numpy(dtype=float)
        values = values / np.maximum(means, np.finfo(float).tiny)
    return values


def quotas(sizes: Array, recalls: Array, count: int) -> Array:
    """How many samples of each label go: it keeps a share that grows with 1 − recall, and at most all it has.

    What a full label cannot take goes to the others in the same proportion; labels of recall 1 keep something only
    where the others are full, and alike.
    """  # [K]
    import numpy as np

    keep = np.zeros(len(sizes))
    for need in (1 - recalls, np.ones(len(sizes))):  # by recall, then what is left over evenly
        while True:
            left = sizes.sum() - count - keep.sum()
            wanted = np.where(keep < sizes, need * sizes, 0.0)
            if left <= 1e-9 or wanted.sum() <= 0:
                break
            given = keep + left * wanted / wanted.sum()
            if (given <= sizes).all():
                keep = given
                break
            keep = np.where(given >= sizes, sizes, keep)
    goes = sizes - keep
    whole = np.floor(goes + 1e-9)
    for k in np.argsort(whole - goes, kind="stable")[: round(count - whole.sum())]:  # the largest remainders
        whole[k] += 1
    return whole.astype(np.int64)


def _quota_values(weights: pd.DataFrame, count: int, recall: Mapping[str, float], seed: int) -> Array:
    """A random order in which each label's quota stands below 1 and the rest of it above."""  # [N]
    import numpy as np

    labels = weights["label"].astype(str).to_numpy()
    names = sorted(set(labels))
    known = [recall[name] for name in names if name in recall]
    if not known:
        raise BadInput("no label of the training set has a known recall on held-out samples; choose another rule.")
    recalls = np.array([recall.get(name, float(np.mean(known))) for name in names])  # a label not held out: the mean
    members = [np.flatnonzero(labels == name) for name in names]
    goes = quotas(np.array([len(found) for found in members], dtype=float), recalls, count)
    generator = np.random.default_rng(seed)
    values = np.empty(len(labels))
    for found, quota in zip(members, goes, strict=True):
        places = (generator.permutation(len(found)) + 0.5) / len(found)
        share = quota / len(found)
        values[found] = np.where(places < share, places / max(share, 1e-12), 1 + places)
    return values


def random_like(weights: pd.DataFrame, kept: Array, seed: int, *, within: str = "all") -> Array:
    """As many samples at random, over all of them, within each label or within each cell."""  # [N] bool
    import numpy as np

    generator = np.random.default_rng(seed)
    stays = np.zeros(len(kept), dtype=bool)
    labels = np.zeros(len(kept)) if within == "all" else weights["label"].astype("category").cat.codes.to_numpy()
    if within == "cell" and "group" in weights:
        labels = weights.groupby(["label", "group"], observed=True, dropna=False).ngroup().to_numpy()
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        stays[generator.choice(members, int(kept[members].sum()), replace=False)] = True
    return stays


def correlation_with_recall(condensed: Condensed, metrics: Mapping[str, Any]) -> float | None:
    """Between the share of each label that goes and its recall on test; None where that is not known by label."""
    if metrics["by"] != "label":
        return None
    recall = {str(group["group"]): group["tpr"] for group in metrics["groups"] if group["tpr"] is not None}
    table = condensed.by_label()
    table = table.assign(recall=table.index.map(recall)).dropna()
    if len(table) < 3 or table["dropped_share"].nunique() == 1 or table["recall"].nunique() == 1:
        return None
    return float(table["dropped_share"].corr(table["recall"].astype(float)))


def _notes(table: pd.DataFrame, floor: int, count: int, dropped: int) -> list[str]:
    """What the floor did, and which cells are left with little."""
    notes = []
    for label, group, before, after, wished in table.itertuples(index=False):
        name = f"label={label}" + ("" if group == label else f", group={group}")
        if wished < min(before, floor):
            notes.append(
                f"The rule would have left {wished:,} of {before:,} samples with {name}; the floor keeps {after:,}."
            )
        elif after < min(FLOOR, before):
            notes.append(f"Only {after:,} of {before:,} samples with {name} are left, below {FLOOR}.")
    if dropped < count:
        notes.append(
            f"{dropped:,} samples go instead of {count:,}: no more were seen and lie above the floor of {floor}."
        )
    return notes
