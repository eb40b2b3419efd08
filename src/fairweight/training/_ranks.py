"""Refuses ranks that were given different things, before they train together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from fairweight.errors import BadInput
from fairweight.ranks import Ranks
from fairweight.types import Samples

if TYPE_CHECKING:
    from fairweight.training.loop import Training


def check_alike(ranks: Ranks, training: Training) -> None:
    """Refuse ranks that were given different things: they would wait for each other, or learn from other rows."""
    sets = {"train": training.train, "exemplar": training.exemplar, "validation": training.validation}
    local: dict[str, Any] = {name: None if data is None else _fingerprint(data) for name, data in sets.items()}
    local |= {"epochs": training.epochs, "batches per epoch": len(training.batches), "options": repr(training.options)}
    local |= {"resume": training.resume, "out": training.out is not None}
    for rank, remote in enumerate(ranks.texts(local)):
        for name in local:
            if remote[name] != local[name]:
                raise BadInput(
                    f"fit was given other {name} on rank {rank} than on rank {ranks.rank}; give it the same on every "
                    "rank: each takes its own part of every batch."
                )


def _fingerprint(samples: Samples) -> list[int]:
    """Numbers that differ where the labels or groups of two sets do."""
    columns = [column.cpu() for column in (samples.labels, samples.groups) if column is not None]
    return [len(samples), *(int((c * (1 + torch.arange(len(c)) % 1009)).sum()) for c in columns)]
