"""How a run is carried out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch.optim.lr_scheduler import LRScheduler

from fairweight.constraints import FLAG, SEED, Kind, above, between, constrained, either, whole

# Changes inputs at random: (inputs, generator) -> inputs.
Augment: TypeAlias = Callable[[Any, torch.Generator], Any]
Scheduler: TypeAlias = LRScheduler  # stepped once per epoch; ReduceLROnPlateau watches validation


@constrained(
    batch_size=whole(1),
    per_cell=whole(1),
    exemplar_batch=whole(0),
    augment_exemplars=FLAG,
    seed=SEED,
    drop_last=FLAG,
    clip_norm=either(above(0)),
    accumulate=whole(1),
    autocast=either(Kind((torch.dtype,), "a torch dtype such as torch.bfloat16")),
    capture=FLAG,
    compile=FLAG,
    checkpoint_every=between(0),
)
@dataclass(frozen=True)
class FitOptions:
    """How a run is carried out; what it learns from is given to fit itself.

    per_cell: exemplars of each label (and group) in an exemplar batch. exemplar_batch: its least size; exemplars beyond
    per_cell are drawn evenly from all. augment_exemplars: change them at random as training batches are, where fit is
    given an augmentation. clip_norm: largest norm of the gradient.
    accumulate: batches per optimizer step. autocast: such as torch.bfloat16. capture: replay whole steps as a CUDA
    graph where that works. compile: torch.compile the step, a minute that long runs on a GPU win back.
    checkpoint_every: seconds between saves within an epoch.

    Examples:
        >>> import fairweight as fw
        >>> fw.FitOptions(batch_size=64, clip_norm=1.0).batch_size
        64
        >>> fw.FitOptions(clip_norm=-1)
        Traceback (most recent call last):
        fairweight.errors.BadInput: ...
    """

    batch_size: int = 128
    per_cell: int = 10
    exemplar_batch: int = 0
    augment_exemplars: bool = False
    seed: int = 0
    drop_last: bool = False
    clip_norm: float | None = None
    accumulate: int = 1
    autocast: torch.dtype | None = None
    capture: bool = True
    compile: bool = False
    checkpoint_every: float = 30.0
