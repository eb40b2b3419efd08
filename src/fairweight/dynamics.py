"""What happened to each training sample: loss, weighted loss, forgetting, margin and the path of its score."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fairweight.errors import ScoresMismatch
from fairweight.types import StepRecord

PATH_SAMPLES = 2_000_000  # at most this many numbers of score paths are kept


class Dynamics:
    """Per-sample history on the device; a visit costs a handful of indexed writes.

    ema_loss and ema_weighted_loss: averages over visits with this decay, of the loss and of p_i B l_i, divided by
    the weight that the average has gathered, so that a sample seen once is not counted as almost 0.
    forgetting_events: right at one visit and wrong at the next; a sample never right counts every visit.
    score_path: the scores at the end of each epoch, of all samples or of an even selection where there are many.
    """

    def __init__(self, num_samples: int, device: torch.device | str = "cpu", *, decay: float = 0.9) -> None:
        self.num_samples, self.decay = num_samples, decay
        self.device = torch.device(device)
        zeros = torch.zeros(num_samples, device=self.device)
        self._sums = torch.stack([zeros, zeros, zeros])  # [3, N]: gathered weight, loss, weighted loss
        self._counts = torch.zeros(3, num_samples, dtype=torch.int32, device=self.device)  # visits, forgotten, learned
        self._right = torch.zeros(num_samples, dtype=torch.bool, device=self.device)
        self._margin = torch.full((num_samples,), torch.nan, device=self.device)
        self.score_path: list[Tensor] = []  # one [P] per epoch
        self._path_rows: Tensor | None = None

    def on_step(self, rows: Tensor, record: StepRecord) -> None:
        """Take in one visit of these rows."""
        losses = record.losses.float()
        weighted = losses * record.weights.float() * len(losses)
        now = torch.stack([torch.ones_like(losses), losses, weighted])  # [3, B]
        self._sums[:, rows] = self.decay * self._sums[:, rows] + (1 - self.decay) * now
        if record.correct is None:
            return
        right = record.correct
        forgotten = self._right[rows] & ~right
        # Added, so that a row drawn twice in one batch counts twice.
        self._counts.index_add_(1, rows, torch.stack([torch.ones_like(right), forgotten, right]).to(torch.int32))
        self._right[rows] = right
        if record.margin is not None:
            self._margin[rows] = record.margin.float()

    def on_epoch(self, scores: Tensor | None, epochs: int) -> None:
        """Note where the scores stand; epochs: how many there will be, to keep the whole path within bounds."""
        if scores is None:
            return
        if self._path_rows is None:
            keep = max(1, min(self.num_samples, PATH_SAMPLES // max(1, epochs)))
            self._path_rows = torch.linspace(0, self.num_samples - 1, keep, device=self.device).long()
        self.score_path.append(scores[self._path_rows].to(torch.float16).cpu())

    @property
    def visits(self) -> Tensor:
        """How often each sample was seen."""  # [N]
        return self._counts[0]

    @property
    def path_rows(self) -> Tensor | None:
        """The rows whose score path is kept."""  # [P]
        return self._path_rows

    def table(self) -> dict[str, Tensor]:
        """One column per measure, one entry per sample; NaN where a sample was never seen."""  # [N] each
        gathered = self._sums[0]
        seen = gathered > 0
        safe = torch.where(seen, gathered, torch.ones_like(gathered))
        nan = torch.full_like(gathered, torch.nan)
        visits, forgotten, learned = self._counts
        return {
            "ema_loss": torch.where(seen, self._sums[1] / safe, nan),
            "ema_weighted_loss": torch.where(seen, self._sums[2] / safe, nan),
            "forgetting_events": torch.where(learned > 0, forgotten, visits),
            "margin": self._margin,
            "visits": visits,
        }

    def state_dict(self) -> dict[str, Any]:
        """All that was gathered."""
        return {
            "sums": self._sums,
            "counts": self._counts,
            "right": self._right,
            "margin": self._margin,
            "score_path": list(self.score_path),
            "path_rows": self._path_rows,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put it back."""
        if state["sums"].shape != self._sums.shape:
            raise ScoresMismatch(
                f"The saved history is of {state['sums'].shape[1]} samples and this run has {self.num_samples}; "
                "resume with the training set of that run."
            )
        self._sums.copy_(state["sums"])
        self._counts.copy_(state["counts"])
        self._right.copy_(state["right"])
        self._margin.copy_(state["margin"])
        self.score_path = list(state["score_path"])
        self._path_rows = None if state["path_rows"] is None else state["path_rows"].to(self.device)
