"""Random weights."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from fairweight.constraints import SEED, constrained, either, one_of
from fairweight.errors import BadInput
from fairweight.methods._fixed_weights import KnownWeights, mean_one
from fairweight.types import Batch

Kind = Literal["fixed", "redrawn", "uniform"]


@constrained(kind=one_of("fixed", "redrawn", "uniform"), seed=either(SEED))
@dataclass(eq=False, repr=False, kw_only=True)
class Random(KnownWeights):
    """Weighs samples by chance: what any gain must be compared with.

    kind: "fixed", max(0, N(0, 1)) drawn once per sample, so that half of them never count; "redrawn", the same drawn
    anew at every step (the baseline of arXiv 1803.09050); "uniform", U(0.1, 1.9) drawn once per sample (that of MOEW).
    seed: None takes torch's, without drawing from it.
    """

    kind: Kind = "fixed"
    seed: int | None = None

    _kept = ("seed", "_turn")
    paper = "'Random' in Yan, Seto, Apostoloff 2022, arXiv 2202.01719"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind == "redrawn" and self.through == "sampling":
            raise BadInput("Random(kind='redrawn') has no weights to draw rows by; use kind='fixed' or through='loss'.")
        self._given = self.seed is not None
        self.seed = torch.initial_seed() if self.seed is None else self.seed
        self._turn = torch.zeros((), dtype=torch.int64, device=self.device)  # [] draws made

    def check_values(self, batch: Batch, exemplar: Batch | None) -> None:
        self.check_rows(batch)

    def relative(self, batch: Batch) -> Tensor:
        """Each row's number: a function of the seed, the row and, where redrawn, the step."""  # [B]
        if self.kind == "redrawn":
            self._turn += 1  # in place: a captured graph counts on
        u = uniform(self.seed, self._turn, self.rows(batch))
        return 0.1 + 1.8 * u if self.kind == "uniform" else torch.special.ndtri(u).clamp_min(0.0)

    def weights(self) -> Tensor | None:
        """Every sample's weight, mean 1; None where they are redrawn."""  # [N]
        whole = torch.arange(self.num_samples, device=self.device)
        return None if self.kind == "redrawn" else mean_one(self.relative(Batch(whole, whole, rows=whole)))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self._given and int(state["seed"]) != self.seed:
            raise BadInput(
                f"The saved weights were drawn with seed={state['seed']} and this Random has seed={self.seed}; "
                "give the same seed."
            )
        super().load_state_dict(state)


def uniform(seed: int | None, turn: Tensor, rows: Tensor) -> Tensor:
    """A number strictly between 0 and 1 for each row, from (seed, turn, row) alone.

    A mixing function in place of a random stream: a row's number depends neither on its batch nor on the device.
    """  # [B]
    key = int.from_bytes(hashlib.sha256(f"random/{seed}".encode()).digest()[:8], "little", signed=True)
    bits = _mixed(rows.to(torch.int64) + _mixed(turn + key))
    return (((bits >> 41) & 0x7FFFFF).float() + 0.5) * 2.0**-23  # 23 bits and a half: exact in float32


def _mixed(x: Tensor) -> Tensor:
    """SplitMix64's output function; int64 products wrap around."""
    x = x + _signed(0x9E3779B97F4A7C15)
    x = (x ^ _shifted(x, 30)) * _signed(0xBF58476D1CE4E5B9)
    x = (x ^ _shifted(x, 27)) * _signed(0x94D049BB133111EB)
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, by: int) -> Tensor:
    """Shift right, zeros coming in."""
    return (x >> by) & ((1 << (64 - by)) - 1)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
