"""Group distributionally robust optimisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fairweight.constraints import FLAG, above, between, constrained, one_of
from fairweight.errors import NotBegun, option
from fairweight.metagradient.passes import ForwardPass
from fairweight.methods import Reweighter
from fairweight.methods._cells import BY, By, check_within, count_cells, grown, look_up
from fairweight.methods._fixed_weights import by_row, need_groups, rows_of
from fairweight.methods._saved_state import device_of
from fairweight.methods.proportion import proportion_weights
from fairweight.types import Batch, Samples, Weighing


@constrained(
    by=BY,
    rate=above(0, 1e6),
    adjustment=between(0, 1e6),
    normalised=FLAG,
    draws=one_of("shuffled", "balanced"),
)
@dataclass(eq=False, repr=False, kw_only=True)
class GroupDRO(Reweighter):
    """Moves weight to the group with the larger loss: q_g ← q_g exp(η L_g) at every step, loss Σ q_g L_g.

    by: "cell" (label and group, as in the paper), "group" or "label". rate: η. adjustment: adds C / √n_g to a group's
    loss. normalised: the groups in the batch share all the weight; otherwise what belongs to absent groups is lost,
    as in the paper, whose batches hold every group. draws: "balanced" asks for each group to be drawn as often.
    Samples whose group is not known are one more group.
    """

    by: By = "cell"
    rate: float = 0.01
    adjustment: float = 0.0
    normalised: bool = True
    draws: Literal["shuffled", "balanced"] = "shuffled"

    paper = "Sagawa, Koh, Hashimoto, Liang 2020, arXiv 1911.08731"
    needs = frozenset({"train groups"})
    _kept = ("_gains", "_counts")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.needs = frozenset() if self.by == "label" else frozenset({"train groups"})
        self.device = device_of(self.model)
        self._train: Samples | None = None
        self._counts: Tensor | None = None  # [K, G + 1] by cell, [1, G + 1] by group, [K, 1] by label
        # log q up to a constant: what each group's losses have added up to; [K, G + 1] as above
        self._gains = torch.zeros(0, 1, dtype=torch.float64, device=self.device)

    def begin(self, train: Samples, exemplar: Samples | None = None) -> None:
        rows_of(train, self)  # refuses what it was not made for
        if self.by != "label":
            name = f"GroupDRO(by={self.by!r})"
            need_groups(train, name, f"{option('by', 'label')} to make each class a group")
        self._train = train
        counts = count_cells(*self._strata(train.labels, train.groups))
        self._counts = counts.to(self.device)
        self._gains = grown(self._gains, *counts.shape)

    def check_values(self, batch: Batch, exemplar: Batch | None) -> None:
        if self._counts is not None:
            labels, groups = self._strata(batch.labels, batch.groups)
            check_within(self._gains, Batch(labels, labels, groups), type(self).__name__)

    def weigh(self, done: ForwardPass, exemplar: Batch | None, optimizer: torch.optim.Optimizer) -> Weighing:
        """Raise q by each group's loss, then share each group's q among its members."""
        labels, groups = self._strata(done.batch.labels, done.batch.groups)
        if self._counts is None:  # without begin: a group is known from when it is seen (a wait on a GPU)
            if self.adjustment or not self.normalised:
                raise _not_begun("adjustment=..." if self.adjustment else "normalised=False")
            self._gains = grown(self._gains, *count_cells(labels, groups).shape)
        losses = done.losses.detach()
        places = torch.arange(self._gains.numel(), device=losses.device).reshape(self._gains.shape)
        member = look_up(places, labels, groups)[:, None] == places.flatten()[None, :]  # [B, S]
        number = member.sum(dim=0)  # [S]
        mean = torch.where(member, losses.double()[:, None], 0.0).sum(dim=0) / number.clamp_min(1)  # [S]
        if self._counts is not None and self.adjustment:
            mean = mean + self.adjustment / self._counts.flatten().clamp_min(1).double().sqrt()
        self._gains.add_((self.rate * mean).reshape(self._gains.shape))
        log_q = self._log_q().flatten()
        # Among those present, whatever is left of their q: a share that has become tiny must not become 0 / 0.
        present = torch.softmax(log_q.masked_fill(number == 0, -torch.inf), dim=0)  # [S]
        weights = torch.where(member, present / number.clamp_min(1), 0.0).sum(dim=1).to(losses.dtype)  # [B]
        if self.normalised:
            return Weighing(weights)
        mass = torch.where(number > 0, torch.softmax(log_q, dim=0), 0.0).sum().to(losses.dtype)
        return Weighing(weights, total=mass * (weights * done.losses).sum())

    def group_weights(self) -> Tensor:
        """q of every group: [K, G + 1] by cell, [1, G + 1] by group, [K, 1] by label; column 0: group not known."""
        return torch.softmax(self._log_q().flatten(), dim=0).reshape(self._gains.shape)

    def sampling_weights(self) -> Tensor | None:
        if self.draws == "shuffled":
            return None
        if self._train is None or self._counts is None:
            raise _not_begun("draws='balanced'")
        table = proportion_weights(self._counts.flatten()).reshape(self._counts.shape).float()
        train = Batch(self._train.labels, self._train.labels, self._train.groups).to(self.device)
        return by_row(look_up(table, *self._strata(train.labels, train.groups)), self._train, self)

    def _strata(self, labels: Tensor, groups: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Labels and groups as the table sees them: no labels by group, no groups by label."""
        return torch.zeros_like(labels) if self.by == "group" else labels, None if self.by == "label" else groups

    def _log_q(self) -> Tensor:
        """Groups without a training sample hold nothing."""
        return self._gains if self._counts is None else self._gains.masked_fill(self._counts == 0, -torch.inf)


def _not_begun(setting: str) -> NotBegun:
    return NotBegun(f"GroupDRO({setting}) depends on the sizes of the groups; call begin(train) first (fit does).")
