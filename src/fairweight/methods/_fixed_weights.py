"""Methods that know a sample's weight before they see its batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fairweight.errors import BadInput, MissingExemplar, NotBegun, UnknownName
from fairweight.metagradient.model import trainable, unwrap
from fairweight.metagradient.passes import ForwardPass, classification_loss
from fairweight.methods import Reweighter, even_weights, shares
from fairweight.methods._cells import Through
from fairweight.types import Batch, Loss, Samples, Weighing


def device_of(model: nn.Module) -> torch.device:
    """Where the model's parameters live."""
    return next(iter(trainable(unwrap(model)).values())).device


def rows_of(train: Samples, num_samples: int, name: str) -> Tensor:
    """The row of each training sample: its own number, or its place."""  # [n]
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


class KnownWeights(Reweighter):
    """Weighs by what it knows of each sample; subclasses write `relative`.

    through: "loss" multiplies the losses; "sampling" leaves them even and asks for rows to be drawn in proportion.
    """

    def __init__(
        self, model: nn.Module, num_samples: int, *, through: Through = "loss", loss: Loss = classification_loss
    ) -> None:
        super().__init__(model, num_samples, loss=loss)
        if through not in ("loss", "sampling"):
            raise UnknownName(f"{type(self).__name__}(through={through!r}): choose 'loss' or 'sampling'.")
        self.through = through
        self.device = device_of(model)
        self._train: Samples | None = None
        self._exemplar: Samples | None = None

    def relative(self, batch: Batch) -> Tensor:
        """What each sample counts, on any common scale; 0 or more."""  # [B]
        raise NotImplementedError

    def begin(self, train: Samples, exemplar: Samples | None = None) -> None:
        rows_of(train, self.num_samples, type(self).__name__)
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
        rows = rows_of(self._train, self.num_samples, type(self).__name__).to(self.device)
        groups = None if self._train.groups is None else self._train.groups.to(self.device)
        labels = self._train.labels.to(self.device)
        whole = Batch(labels, labels, groups, rows)
        self.check_values(whole, None)
        found = self.relative(whole)
        mean = found.mean()
        each = torch.ones(self.num_samples, device=self.device, dtype=found.dtype)
        each[rows] = found / torch.where(mean > 0, mean, torch.ones_like(mean))
        return each

    def sampling_weights(self) -> Tensor | None:
        if self.through == "loss":
            return None
        weights = self.weights()
        if weights is None:
            raise NotBegun(
                f"{type(self).__name__}(through='sampling') says how often to draw each training sample; "
                "call begin(train) first (fit does)."
            )
        return weights

    def measured(self, where: str) -> Samples:
        """The set to measure on: "train" or "exemplar"."""
        name = type(self).__name__
        if self._train is None:
            raise NotBegun(
                f"{name} measures what the model predicts after an epoch; call begin(train, exemplar) before the first "
                "step (fit does)."
            )
        if where == "train":
            return self._train
        if self._exemplar is None:
            raise MissingExemplar(f"{name} measures on the exemplar set; give one to begin(train, exemplar).")
        return self._exemplar
