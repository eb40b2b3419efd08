"""Methods that know a sample's weight before they see its batch: by itself, its label, its group or its cell."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from fairweight.constraints import constrained, one_of
from fairweight.errors import BadInput, MissingExemplar, MissingGroups, NotBegun, ScoresMismatch, option
from fairweight.metagradient.passes import ForwardPass
from fairweight.methods import Reweighter, shares
from fairweight.methods._cells import BY, By, check_within, count_cells, grown, look_up, stratum_table
from fairweight.methods._saved_state import device_of
from fairweight.types import Batch, Samples, Weighing

Through = Literal["loss", "sampling"]
_log = logging.getLogger("fairweight")


def rows_of(train: Samples, method: Reweighter) -> Tensor:
    """The row of each training sample: its own number, or its place."""  # [n]
    num_samples, name = method.num_samples, type(method).__name__
    rows = getattr(train, "rows", None)
    if rows is None and len(train) != num_samples:
        raise BadInput(
            f"begin was given {len(train)} training samples, and {name} was made for {num_samples}; make it with "
            f"num_samples={len(train)}."
        )
    if rows is None:
        return torch.arange(num_samples)
    if len(rows) and (int(rows.min()) < 0 or int(rows.max()) >= num_samples):
        raise BadInput(
            f"begin was given rows {int(rows.min())} to {int(rows.max())}, and {name} was made for {num_samples} "
            f"samples; make it with num_samples={int(rows.max()) + 1}."
        )
    return torch.as_tensor(rows).cpu()


def by_row(values: Tensor, train: Samples, method: Reweighter, other: float = 1.0) -> Tensor:
    """The training samples' values, each at its row; other: of rows that the training set does not hold."""  # [N, ...]
    placed = values.new_full((method.num_samples, *values.shape[1:]), other)
    placed[rows_of(train, method).to(values.device)] = values
    return placed


def need_groups(train: Samples, name: str, instead: str) -> None:
    """Refuse a training set without groups; instead: what works without."""
    if train.groups is None:
        raise MissingGroups(f"{name} needs the group of each training sample; give {option('groups')}, or {instead}.")


def mean_one(values: Tensor) -> Tensor:
    """Values over their mean; as they are where that is 0."""
    mean = values.mean()
    return values / torch.where(mean > 0, mean, torch.ones_like(mean))


@constrained(through=one_of("loss", "sampling"))
@dataclass(eq=False, repr=False, kw_only=True)
class KnownWeights(Reweighter):
    """Weighs by a number per row or a table over labels and groups, once there is one; all alike before.

    through: "loss" multiplies the losses; "sampling" leaves them even and asks for rows to be drawn in proportion.
    """

    through: Through = "loss"

    _by_row: ClassVar[tuple[str, ...]] = ("each", "wrong")  # of a state: what has one entry per training sample
    _each: Tensor | None = field(default=None, init=False)  # [N], by row, on the device
    _table: Tensor | None = field(default=None, init=False)  # [K, G + 1] or [K, 1], by label and group, on the device

    def __post_init__(self) -> None:
        super().__post_init__()
        self.device = device_of(self.model)
        self._train: Samples | None = None
        self._exemplar: Samples | None = None

    def check_values(self, batch: Batch, exemplar: Batch | None) -> None:
        if self._each is not None:
            self.check_rows(batch)
        if self._table is not None:
            check_within(self._table, batch, type(self).__name__)

    def relative(self, batch: Batch) -> Tensor:
        """What each sample counts, on any common scale; 0 or more."""  # [B]
        if self._each is not None:
            return self._each[self.rows(batch)]
        if self._table is not None:
            return look_up(self._table, batch.labels, batch.groups)
        return torch.ones(len(batch), device=batch.labels.device)

    def begin(self, train: Samples, exemplar: Samples | None = None) -> None:
        rows_of(train, self)  # refuses what it was not made for
        self._train, self._exemplar = train, exemplar

    def weigh(self, done: ForwardPass, exemplar: Batch | None, optimizer: torch.optim.Optimizer) -> Weighing:
        """Shares of what each sample counts; even where the draws do the weighing."""
        if self.through == "sampling":
            return Weighing(even_weights(done.losses))
        return Weighing(shares(self.relative(done.batch).to(done.losses.dtype)))

    def weights(self) -> Tensor | None:
        """Every training sample's weight, mean 1; None before `begin`."""  # [N]
        if self._train is None:
            return None
        labels, groups = self._train.labels, self._train.groups
        whole = Batch(labels, labels, groups, rows_of(self._train, self)).to(self.device)
        self.check_values(whole, None)
        return by_row(mean_one(self.relative(whole)), self._train, self)

    def sampling_weights(self) -> Tensor | None:
        if self.through == "loss":
            return None
        if (weights := self.weights()) is None:
            raise NotBegun(
                f"{type(self).__name__}(through='sampling') says how often to draw each training sample; "
                "call begin(train) first (fit does)."
            )
        return weights

    def measured(self, where: str) -> Samples:
        """The set to measure on: "train" or "exemplar"."""
        samples = self._train if where == "train" else self._exemplar
        if self._train is None:
            raise NotBegun(
                f"{type(self).__name__} measures what the model predicts after an epoch; call begin(train, exemplar) "
                "before the first step (fit does)."
            )
        if samples is None:
            raise MissingExemplar(
                f"{type(self).__name__} measures on the exemplar set; give one to begin(train, exemplar), or "
                "measured_on='train'."
            )
        return samples

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for value in (state.get(name) for name in self._by_row):
            if value is not None and len(value) != self.num_samples:
                raise ScoresMismatch(
                    f"The saved state is of {len(value)} samples and this {type(self).__name__} is for "
                    f"{self.num_samples}: resume with the training set of that run."
                )
        super().load_state_dict(state)


@constrained(by=BY)
@dataclass(eq=False, repr=False, kw_only=True)
class StratumWeights(KnownWeights):
    """Weighs by the size of a sample's stratum; subclasses write `rule`.

    Sizes come from `begin`. Without it they are estimated from the batches seen so far, which needs no training set
    at hand and is rough in the first epoch.
    """

    by: By = "label"

    _kept = ("_counts", "_counted")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.needs = frozenset() if self.by == "label" else frozenset({"train groups"})
        self._counts = torch.zeros(0, 1, dtype=torch.int64, device=self.device)  # [K, G + 1]
        self._counted = False  # by begin, once and for all

    def rule(self, sizes: Tensor) -> Tensor:
        """The weight of a sample in a stratum of each size; 0 where the stratum is empty."""  # [S]
        raise NotImplementedError

    def begin(self, train: Samples, exemplar: Samples | None = None) -> None:
        super().begin(train, exemplar)
        if self.by != "label":
            name = f"{type(self).__name__}(by={self.by!r})"
            need_groups(train, name, f"{option('by', 'label')} to weigh the classes")
        self._counts, self._counted = count_cells(train.labels, train.groups).to(self.device), True
        self._tabulate()

    def check_values(self, batch: Batch, exemplar: Batch | None) -> None:
        if self._counted:
            super().check_values(batch, exemplar)

    def relative(self, batch: Batch) -> Tensor:
        if not self._counted:
            if self.steps == 0:
                _log.info("%s counts samples as batches come, since begin(train) was not called", type(self).__name__)
            seen = count_cells(batch.labels, batch.groups).to(self.device)
            self._counts = grown(self._counts, *seen.shape)
            self._counts[: seen.shape[0], : seen.shape[1]] += seen
            self._tabulate()
        return super().relative(batch)

    def _tabulate(self) -> None:
        counts = self._counts.double()
        if not self._counted:
            counts = counts / counts.sum() * self.num_samples
        self._table = stratum_table(counts, self.by, self.rule).float()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        if len(self._counts):
            self._tabulate()


def even_weights(losses: Tensor) -> Tensor:
    """1 / B for each."""  # [B]
    return torch.full_like(losses, 1.0 / len(losses), requires_grad=False)
