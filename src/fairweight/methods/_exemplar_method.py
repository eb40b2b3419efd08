"""Methods that learn from the exemplar batch through the tangent of the train logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from fairweight.errors import BadInput, OneGroup, UnknownName
from fairweight.metagradient import MODES, Mode, Scope, choose, classification_loss
from fairweight.methods import Reweighter
from fairweight.objectives import Objective
from fairweight.objectives.mean import MeanLoss
from fairweight.types import Batch, Loss
from fairweight.types import Objective as ObjectiveFunction


class ExemplarLearner(Reweighter):
    """Holds the objective and the gradient mode, found at the first step."""

    needs = frozenset({"exemplar"})

    def __init__(
        self,
        model: nn.Module,
        num_samples: int,
        objective: ObjectiveFunction | None,
        gradient: str,
        *,
        loss: Loss = classification_loss,
    ) -> None:
        super().__init__(model, num_samples, loss=loss)
        if gradient not in MODES:
            raise UnknownName(f"gradient={gradient!r} is not a gradient mode; choose from: {', '.join(MODES)}.")
        self.objective = MeanLoss() if objective is None else objective
        self.gradient = gradient
        self._scope: Scope | None = None  # what the virtual step moves; None: everything
        self._mode: Mode | None = None
        self._training: bool | None = None  # whether the model was in train mode when its mode was chosen

    @property
    def mode(self) -> Mode | None:
        """How the gradient is computed; None before the first step."""
        return self._mode

    def prepare(self, batch: Batch, exemplar: Batch | None, optimizer: torch.optim.Optimizer, check: bool) -> Mode:
        """Check the exemplar batch, and on the first step find a gradient mode that works."""
        super().prepare(batch, exemplar, optimizer, check)
        assert exemplar is not None
        if check:
            check_comparable(self.objective, exemplar)
        if self._mode is None or self._training not in (None, self.model.training):
            # eval mode takes other kernels than train mode, some without a forward-mode derivative
            self._mode = choose(self.model, batch, self.loss, self.gradient, self._scope)
        self._training = self.model.training
        return self._mode

    def state_dict(self) -> dict[str, Any]:
        """The gradient mode."""
        mode = None if self._mode is None else [self._mode.name, self._mode.plain_kernels, self._mode.reason]
        return {**super().state_dict(), "mode": mode}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on in the same mode."""
        super().load_state_dict(state)
        mode = state["mode"]
        self._mode = None if mode is None else Mode(str(mode[0]), bool(mode[1]), str(mode[2]))


def check_comparable(objective: ObjectiveFunction, exemplar: Batch) -> None:
    """Refuse an exemplar batch that leaves nothing to compare."""
    if len(exemplar) == 0:
        raise BadInput("The exemplar batch is empty; give at least one sample of each group.")
    if not getattr(objective, "compares", False):
        return
    groups = objective.compared(exemplar) if isinstance(objective, Objective) else exemplar.compared()
    present = torch.unique(groups[groups >= 0]).tolist()
    if len(present) < 2:
        what = "label" if exemplar.groups is None else "group"
        raise OneGroup(
            f"The exemplar batch holds {len(present)} {what} ({', '.join(map(str, present)) or 'none known'}) and the "
            f"objective compares {what}s; draw it with samples of at least two, or use MeanLoss()."
        )
