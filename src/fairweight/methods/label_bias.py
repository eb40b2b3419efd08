"""Undoing a bias in the labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from fairweight.constraints import FLAG, above, constrained, one_of, whole
from fairweight.errors import BadInput, option
from fairweight.metagradient.passes import classification_loss
from fairweight.methods import Need, Predict
from fairweight.methods._cells import count_cells, grown
from fairweight.methods._fixed_weights import KnownWeights, Through, need_groups
from fairweight.methods._violation import BY_GROUP, CONSTRAINTS, Constraint, violation
from fairweight.types import Batch, Loss, Samples


@constrained(
    constraint=one_of(*CONSTRAINTS, None),
    positive=whole(0),
    measured_on=one_of("train", "exemplar"),
    rate=above(0),
    online=FLAG,
)
class LabelBias(KnownWeights):
    """Tilts the labels' weights, σ(2 λ), until hard predictions meet a constraint (LB).

    constraint: "equal-opportunity", "equal-odds" or "demographic-parity" between groups; "equal-recall" of every class
    between groups, or between classes where no groups are given; "rate", with target={label: share of predictions}.
    None takes equal opportunity for two classes with groups, else equal recall. positive: the label of the first three.
    measured_on: the "train" set, as in the paper, or the "exemplar" set. rate: how far λ moves along the violation.
    online: λ moves after every epoch; otherwise it stays as given by multipliers, one training per value
    (`MultiplierSearch` in runs/search finds the next). through: "loss" or "sampling".
    """

    _kept = ("constraint", "_table")
    paper = "Jiang, Nachum 2020, arXiv 1901.04966"

    def __init__(
        self,
        model: nn.Module,
        num_samples: int,
        *,
        constraint: Constraint | None = None,
        target: Mapping[int, float] | None = None,
        positive: int = 1,
        measured_on: Literal["train", "exemplar"] = "train",
        rate: float = 1.0,
        online: bool = True,
        multipliers: Sequence[Sequence[float]] | Tensor | None = None,
        through: Through = "loss",
        loss: Loss = classification_loss,
    ) -> None:
        super().__init__(model, num_samples, through=through, loss=loss)
        if (constraint == "rate") != (target is not None):
            raise BadInput("LabelBias: constraint='rate' and target={label: rate} go together; give both or neither.")
        self.target = {int(label): float(rate) for label, rate in (target or {}).items()}  # JSON has texts for keys
        if any(label < 0 or not 0 <= rate <= 1 for label, rate in self.target.items()) or target == {}:
            raise BadInput(f"LabelBias(target={target}): give labels from 0 with rates from 0 to 1.")
        self.constraint = constraint
        self.positive, self.measured_on, self.rate, self.online = positive, measured_on, rate, online
        if multipliers is not None:
            self._table = torch.as_tensor(multipliers, dtype=torch.float64).to(self.device, copy=True)
            if self._table.ndim != 2:
                raise BadInput("LabelBias(multipliers=...): give a table, [labels, groups + 1] or [labels, 1].")
        self._require()

    @property
    def multipliers(self) -> Tensor | None:
        """λ of each label and group: [K, G + 1] with column 0 for groups not known, or [K, 1]; None before begin."""
        return None if self._table is None else self._table.to("cpu", copy=True)

    def begin(self, train: Samples, exemplar: Samples | None = None) -> None:
        super().begin(train, exemplar)
        self.measured(self.measured_on)
        rows, columns = count_cells(train.labels, train.groups).shape
        rows = max(rows, *(label + 1 for label in self.target), 0)
        if self.constraint is None:
            self.constraint = "equal-opportunity" if rows <= 2 and train.groups is not None else "equal-recall"
        if self.constraint in BY_GROUP:
            name = f"LabelBias(constraint={self.constraint!r})"
            need_groups(train, name, f"{option('constraint', 'equal-recall')} to make each class a group")
            if self.positive >= rows:
                raise BadInput(f"LabelBias(positive={self.positive}): the training set has labels 0 to {rows - 1}.")
        columns = 1 if self.constraint == "rate" or train.groups is None else columns
        start = self._table
        if start is None:
            start = torch.zeros(0, columns, dtype=torch.float64, device=self.device)
        if start.shape[1] != columns:
            raise BadInput(
                f"The multipliers have {start.shape[1]} columns and the training set calls for {columns} "
                "(groups + 1, or 1 where groups do not count); give those of the same constraint and groups."
            )
        self._table = grown(start, rows, columns)
        self._require()

    def relative(self, batch: Batch) -> Tensor:
        """σ(2 λ) of each sample's label and group."""  # [B]
        return torch.sigmoid(2 * super().relative(batch)).float()

    def violation(self, samples: Samples, predictions: Tensor) -> Tensor:
        """By how much each label and group should count for more, given these predictions; shaped like λ."""
        if self._table is None or self.constraint is None:
            raise BadInput("LabelBias does not know the labels and groups yet; call begin(train) first.")
        return violation(
            self.constraint, samples.labels, samples.groups, predictions, self._table.shape,
            positive=self.positive, target=self.target,
        )  # fmt: skip

    def on_epoch(self, epoch: int, predict: Predict) -> None:
        """Move λ by what the predictions violate."""
        if self.online:
            measured = self.measured(self.measured_on)
            violation = self.violation(measured, predict(measured))
            assert self._table is not None
            self._table += self.rate * violation.to(self.device)  # in place: a captured graph reads on

    def _require(self) -> None:
        by_group = self.constraint in BY_GROUP or (self._table is not None and self._table.shape[1] > 1)
        asked: dict[Need, bool] = {"train groups": by_group, "exemplar set": self.measured_on == "exemplar"}
        self.needs = frozenset(need for need, is_asked in asked.items() if is_asked)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self.constraint not in (None, state["constraint"]):
            raise BadInput(
                f"The saved multipliers are of constraint={state['constraint']!r} and this LabelBias has "
                f"{self.constraint!r}; give the same."
            )
        super().load_state_dict(state)
        self._require()
