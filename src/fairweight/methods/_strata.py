"""Methods whose weights follow from how many training samples each label, group or cell has."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor, nn

from fairweight.errors import MissingGroups, option
from fairweight.metagradient.passes import classification_loss
from fairweight.methods._cells import By, Through, check_by, check_within, count_cells, grown, look_up, stratum_table
from fairweight.methods._fixed_weights import KnownWeights
from fairweight.types import Batch, Loss, Samples

_log = logging.getLogger("fairweight")


class StratumWeights(KnownWeights):
    """Weighs by the size of a sample's stratum; subclasses write `rule`.

    Sizes come from `begin`. Without it they are estimated from the batches seen so far, which needs no training set
    at hand and is rough in the first epoch.
    """

    def __init__(
        self,
        model: nn.Module,
        num_samples: int,
        *,
        by: By = "label",
        through: Through = "loss",
        loss: Loss = classification_loss,
    ) -> None:
        super().__init__(model, num_samples, through=through, loss=loss)
        check_by(type(self).__name__, by)
        self.by = by
        self.needs = frozenset() if by == "label" else frozenset({"train groups"})
        self._counts = torch.zeros(0, 1, dtype=torch.int64)  # [K, G + 1]
        self._counted = False  # by begin, once and for all
        self._table: Tensor | None = None  # [K, G + 1], on the device

    def rule(self, sizes: Tensor) -> Tensor:
        """The weight of a sample in a stratum of each size; 0 where the stratum is empty."""  # [S]
        raise NotImplementedError

    def begin(self, train: Samples, exemplar: Samples | None = None) -> None:
        """Count the training set."""
        super().begin(train, exemplar)
        if self.by != "label" and train.groups is None:
            raise MissingGroups(
                f"{type(self).__name__}(by={self.by!r}) needs the group of each training sample; give "
                f"{option('groups')}, or {option('by', 'label')} to weigh the classes."
            )
        self._counts, self._counted = count_cells(train.labels, train.groups), True
        self._tabulate()

    def relative(self, batch: Batch, check: bool) -> Tensor:
        """The table's entry for each sample."""  # [B]
        if not self._counted:
            self._see(batch)
        assert self._table is not None
        if check:
            check_within(self._table, batch, type(self).__name__)
        return look_up(self._table, batch.labels, batch.groups)

    def _see(self, batch: Batch) -> None:
        if self.steps == 0:
            _log.info("%s counts samples as batches come, since begin(train) was not called", type(self).__name__)
        seen = count_cells(batch.labels, batch.groups)
        self._counts = grown(self._counts, *seen.shape)
        self._counts[: seen.shape[0], : seen.shape[1]] += seen
        self._tabulate()

    def _tabulate(self) -> None:
        counts = self._counts.double()
        if not self._counted:
            counts = counts / counts.sum() * self.num_samples
        self._table = stratum_table(counts, self.by, self.rule).float().to(self.device)

    def state_dict(self) -> dict[str, Any]:
        """The counts."""
        return {**super().state_dict(), "counts": self._counts.clone(), "counted": self._counted}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put the counts back."""
        super().load_state_dict(state)
        self._counts, self._counted = state["counts"].cpu().clone(), bool(state["counted"])
        if len(self._counts):
            self._tabulate()
