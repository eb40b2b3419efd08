"""Seeded draws: every purpose has its own stream, so that changing one choice leaves the others alone."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor


def stream(seed: int, *purpose: str) -> torch.Generator:
    """Make a generator that depends on the seed and on what it is for, and on nothing else."""
    digest = hashlib.sha256("/".join([str(seed), *purpose]).encode()).digest()
    generator = torch.Generator()
    generator.manual_seed(int.from_bytes(digest[:8], "little") >> 1)
    return generator


def choose(count: int, size: int, generator: torch.Generator) -> Tensor:
    """Draw so many of the first `count` integers, without replacement, in ascending order."""  # [size]
    return torch.randperm(count, generator=generator)[:size].sort().values


def by_stratum(strata: Tensor, sizes: dict[int, int], generator: torch.Generator) -> Tensor:
    """Draw the given number of members of each stratum; gives positions in ascending order."""
    order = strata.argsort(stable=True)
    values, counts = torch.unique(strata, return_counts=True)
    ends = counts.cumsum(0).tolist()
    picked = [torch.empty(0, dtype=torch.int64)]
    for value, count, end in zip(values.tolist(), counts.tolist(), ends, strict=True):
        members = order[end - count : end]  # in ascending order, because the sort is stable
        picked.append(members[choose(count, sizes.get(value, 0), generator)])
    return torch.cat(picked).sort().values


def proportional(strata: Tensor, share: float, parts: int) -> dict[int, int]:
    """Size a share of all rows by stratum, by largest remainder.

    A stratum with at least `parts` members gives at least one, and none gives its last.
    """
    values, counts = torch.unique(strata, return_counts=True)
    exact = counts.double() * share
    sizes = exact.floor().long()
    short = round(len(strata) * share) - int(sizes.sum())
    for position in (exact - sizes).argsort(descending=True, stable=True)[: max(short, 0)].tolist():
        sizes[position] += 1
    least = (counts >= parts).long()
    sizes = torch.minimum(torch.maximum(sizes, least), counts - 1)
    return dict(zip(values.tolist(), sizes.clamp(min=0).tolist(), strict=True))
