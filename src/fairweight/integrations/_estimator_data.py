"""What an estimator is given, as the library's own values: labels and groups as numbers, exemplars, validation rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fairweight.errors import BadInput
from fairweight.sampling import generator
from fairweight.types import Batch, Cells


@dataclass(frozen=True)
class Groups:
    """The group of every sample, as a place among names; -1 where it is not known."""

    codes: Tensor  # [N] int64
    names: tuple[str, ...]

    @classmethod
    def of(cls, values: Any, size: int, known: tuple[str, ...] | None = None) -> Groups:
        """From a column, or several that are crossed; known: names that have the first places already."""
        import numpy as np

        table = np.asarray(values, dtype=object)
        table = table[:, None] if table.ndim == 1 else table
        if table.ndim != 2 or len(table) != size:
            raise BadInput(f"sensitive_features has shape {table.shape}; give one entry for each of {size} samples.")
        texts = [None if any(_is_missing(v) for v in row) else " & ".join(_text(v) for v in row) for row in table]
        first = known or ()
        names = (*first, *sorted({text for text in texts if text is not None} - set(first)))
        if not names:
            raise BadInput("sensitive_features holds no group; leave it out to compare the classes.")
        place = {name: code for code, name in enumerate(names)}
        return cls(torch.tensor([-1 if text is None else place[text] for text in texts]), names)


def _is_missing(value: Any) -> bool:
    # pandas.NA first: it is neither equal to itself nor unequal.
    return value is None or type(value).__name__ == "NAType" or value != value


def _text(value: Any) -> str:
    """A group's name; a column of whole numbers with gaps holds floats, and 1.0 is the group 1."""
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)


def exemplars_of(train: Batch, share: float, seed: int) -> Tensor:
    """Positions of samples drawn evenly by cell, about this share of all; every one of a small cell."""  # [E]
    cells = Cells.of(train.labels, train.groups)
    if len(cells) == 0:
        raise BadInput("no sample has a known group; give sensitive_features for some of them, or leave it out.")
    each = max(20, round(share * len(train) / len(cells)))
    drawn = []
    for k in range(len(cells)):
        members = torch.nonzero(cells.index == k).flatten()
        order = torch.randperm(len(members), generator=generator("exemplars", seed, k))
        drawn.append(members[order[:each]])
    return torch.cat(drawn).sort().values


def natural_shares(train: Batch, chosen: Tensor) -> Tensor:
    """What each exemplar stands for in the whole set, mean 1."""  # [E]
    cells = Cells.of(train.labels, train.groups)
    counts = torch.tensor(cells.counts, dtype=torch.float64)
    here = cells.index[chosen]
    drawn = torch.bincount(here, minlength=len(cells)).double()
    weights = (counts / drawn.clamp_min(1))[here]
    return (weights / weights.mean()).float()


def validation_rows(labels: Tensor, groups: Tensor | None, share: float, seed: int) -> Tensor:
    """Whether each sample is kept out for validation, by cell; a cell of fewer than five gives none."""  # [N]
    kept_out = torch.zeros(len(labels), dtype=torch.bool)
    strata = labels if groups is None else labels * (int(groups.max()) + 2) + groups + 1
    for value in torch.unique(strata).tolist():
        members = torch.nonzero(strata == value).flatten()
        size = round(share * len(members)) if len(members) >= 5 else 0
        order = torch.randperm(len(members), generator=generator("validation", seed, value))
        kept_out[members[order[:size]]] = True
    return kept_out


def filled_by_cell(values: Tensor, known: Tensor, labels: Tensor, groups: Tensor | None) -> Tensor:
    """Values for every sample: those that are known, and elsewhere the mean of the sample's cell, or of all."""  # [N]
    values = values.double()
    full = torch.full((len(labels),), float(values.mean()), dtype=torch.float64)
    strata = labels if groups is None else labels * (int(groups.max()) + 2) + groups + 1
    for value in torch.unique(strata[~known]).tolist():
        members = strata[known] == value
        if bool(members.any()):
            full[strata == value] = float(values[members].mean())
    full[known] = values
    return full
