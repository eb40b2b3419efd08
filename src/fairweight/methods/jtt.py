"""Just train twice."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fairweight.constraints import above, constrained, whole
from fairweight.errors import RowsOutOfRange
from fairweight.metagradient.passes import classification_loss
from fairweight.methods import Predict
from fairweight.methods._fixed_weights import KnownWeights, Through, by_row
from fairweight.types import Batch, Loss


@constrained(identify_epochs=whole(1), upweight=above(0, 1e6))
class JTT(KnownWeights):
    """Trains plainly for some epochs, then weighs up what the model still gets wrong.

    identify_epochs: after how many epochs the errors are taken. upweight: what an error then counts. errors: rows
    known to be wrong from an earlier run, which is the paper's two trainings (`ErrorSearch` in
    runs/search does both); without them the model trains on from where the errors were taken.
    """

    paper = "Liu, Haghgoo, Chen, Raghunathan, Koh, Sagawa, Liang, Finn 2021, arXiv 2107.09044"
    _kept = ("_wrong",)

    def __init__(
        self,
        model: nn.Module,
        num_samples: int,
        *,
        identify_epochs: int = 1,
        upweight: float = 10.0,
        errors: Sequence[int] | Tensor | None = None,
        through: Through = "loss",
        loss: Loss = classification_loss,
    ) -> None:
        super().__init__(model, num_samples, through=through, loss=loss)
        self.identify_epochs, self.upweight, self.given = identify_epochs, upweight, errors is not None
        self._wrong = torch.zeros(num_samples, dtype=torch.bool, device=self.device)  # [N]
        if errors is not None:
            rows = torch.as_tensor(errors, dtype=torch.int64)
            if len(rows) and (int(rows.min()) < 0 or int(rows.max()) >= num_samples):
                raise RowsOutOfRange(f"JTT(errors=...) names rows beyond 0 to {num_samples - 1}; raise num_samples.")
            self._wrong[rows.to(self.device)] = True

    @property
    def errors(self) -> Tensor:
        """The rows that are weighed up."""  # [M]
        return torch.nonzero(self._wrong).flatten()

    def check_values(self, batch: Batch, exemplar: Batch | None) -> None:
        self.check_rows(batch)

    def relative(self, batch: Batch) -> Tensor:
        """upweight for an error, 1 for the rest."""  # [B]
        return torch.where(self._wrong[self.rows(batch)], self.upweight, 1.0)

    def on_epoch(self, epoch: int, predict: Predict) -> None:
        """Take the errors on the training set, once."""
        if self.given or epoch != self.identify_epochs:
            return
        train = self.measured("train")
        wrong = predict(train).cpu() != train.labels.cpu()
        self._wrong.copy_(by_row(wrong, train, self, other=False))  # in place: a captured graph reads on
