"""Meta-Weight-Net."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from fairweight.constraints import FLAG, SEED, Kind, above, between, constrained, either, one_of, whole
from fairweight.errors import BadInput
from fairweight.metagradient import ForwardPass, Solution, WeightForm, classification_loss, solve
from fairweight.metagradient.model import trainable, unwrap
from fairweight.methods import ExemplarMethod, shares
from fairweight.methods.look_ahead import LookAhead
from fairweight.types import Batch, Loss, ObjectiveFunction, Weighing


@constrained(
    look_ahead=Kind((LookAhead,), "a LookAhead"),
    hidden=whole(1, 2**20),
    normalised=FLAG,
    detached=FLAG,
    net_optimizer=one_of("adam", "sgd"),
    net_lr=above(0, 1e6),
    net_decay=either(between(0, 1e6)),
    seed=either(SEED),
)
class MetaWeightNet(ExemplarMethod):
    """Learns a small net from a sample's loss to its weight, by the gradient of an objective on the exemplar set.

    objective: any f(losses, groups) -> scalar; by default the mean loss, as in the paper. normalised: weights are
    shares of the batch; False gives the authors' later version, the mean of weight times loss, with weights in (0, 1).
    detached: the net's input counts as a constant; False gives their class-imbalance version, in which the look-ahead
    also moves along the net's own slope. net_optimizer: "adam" (1e-3, decay 1e-4) or "sgd" (Nesterov 0.9, decay 5e-4).
    seed: of the net's start; None takes torch's, without drawing from it.
    """

    paper = "Shu, Xie, Yi, Zhao, Zhou, Xu, Meng 2019, arXiv 1902.07379"

    def __init__(
        self,
        model: nn.Module,
        num_samples: int,
        objective: ObjectiveFunction | None = None,
        look_ahead: LookAhead = LookAhead(),  # noqa: B008 - frozen
        gradient: str = "auto",
        *,
        hidden: int = 100,
        normalised: bool = True,
        detached: bool = True,
        net_optimizer: Literal["adam", "sgd"] = "adam",
        net_lr: float = 1e-3,
        net_decay: float | None = None,
        seed: int | None = None,
        loss: Loss = classification_loss,
    ) -> None:
        super().__init__(model, num_samples, objective, gradient, loss=loss)
        self.look_ahead = look_ahead
        self.form: _LossNet = _LossNet(hidden, normalised, detached)
        parameter = next(iter(trainable(unwrap(model)).values()))
        dtype = torch.promote_types(parameter.dtype, torch.float32)
        start = self.form.start_values(torch.initial_seed() if seed is None else seed)
        self._net = nn.Parameter(start.to(parameter.device, dtype))  # [3H + 1]
        self._optimizer = _net_optimizer(self._net, net_optimizer, net_lr, net_decay)

    @property
    def net(self) -> Tensor:
        """The net's parameters, flat."""  # [3H + 1]
        return self._net.detach().clone()

    def weigh_losses(self, losses: Tensor) -> Tensor:
        """What the net makes of losses: numbers in (0, 1)."""  # [B]
        with torch.no_grad():
            return self.form.values(self._net, losses.detach())

    def net_gradient(self, done: ForwardPass, exemplar: Batch, optimizer: torch.optim.Optimizer) -> Solution:
        """d objective(θ̃) / d net, with what was seen on the way; moves nothing."""
        assert self.mode is not None
        rates, net = self.look_ahead.rates(done.parameters, optimizer), self._net.detach()
        frozen = self.look_ahead.statistics == "running"
        return solve(done, exemplar, net, self.objective, rates, self.mode, self.form, running_statistics=frozen)

    def weigh(self, done: ForwardPass, exemplar: Batch | None, optimizer: torch.optim.Optimizer) -> Weighing:
        """Move the net by its gradient, then weigh the batch with it."""
        assert exemplar is not None
        solution = self.net_gradient(done, exemplar, optimizer)
        self._net.grad = solution.gradient.to(self._net.dtype)
        self._optimizer.step()
        self._net.grad = None
        values = self.weigh_losses(done.losses).to(done.losses.dtype)
        total = None if self.form.normalised else (values * done.losses).mean()
        learned = solution.objective, solution.exemplar_losses, solution.pull
        return Weighing(shares(values), total, *learned, mode=str(self.mode))

    def state_dict(self) -> dict[str, Any]:
        memory = {name: value.clone() for name, value in self._optimizer.state[self._net].items() if value is not None}
        return {**super().state_dict(), "net": self._net.detach().clone(), "memory": memory}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["net"].shape != self._net.shape:
            raise BadInput(
                f"The saved net has {len(state['net'])} parameters and this one {len(self._net)}; give the same hidden."
            )
        super().load_state_dict(state)
        with torch.no_grad():
            self._net.copy_(state["net"])
        memory = {name: value.clone().to(self._net.device) for name, value in state["memory"].items()}
        self._optimizer.state[self._net] = memory


@dataclass(frozen=True)
class _LossNet(WeightForm):
    """Weight = σ(W₂ relu(W₁ loss + b₁) + b₂); the scores that are learned are the net's parameters."""

    name: ClassVar[str] = "loss-net"
    hidden: int
    normalised: bool
    detached: bool

    def start_values(self, seed: int) -> Tensor:
        """Drawn as torch's Linear does: uniform within one over the root of the inputs."""  # [3H + 1]
        h = self.hidden
        drawn = torch.rand(3 * h + 1, generator=torch.Generator().manual_seed(seed)) * 2 - 1
        drawn[2 * h :] /= h**0.5
        return drawn

    def values(self, net: Tensor, losses: Tensor) -> Tensor:
        """The net on each loss."""  # [B]
        h = self.hidden
        inner = torch.relu(losses.to(net.dtype)[:, None] * net[:h] + net[h : 2 * h])  # [B, H]
        return torch.sigmoid(inner @ net[2 * h : 3 * h] + net[3 * h])

    def total(self, scores: Tensor, losses: Tensor) -> Tensor:
        """The weighted train loss as a function of the net and, where not detached, of the losses twice."""  # []
        values = self.values(scores, losses.detach() if self.detached else losses)
        return (shares(values) * losses).sum() if self.normalised else (values * losses).mean()


def _net_optimizer(net: nn.Parameter, kind: str, lr: float, decay: float | None) -> torch.optim.Optimizer:
    decay = {"adam": 1e-4, "sgd": 5e-4}[kind] if decay is None else decay
    if kind == "adam":
        return torch.optim.Adam([net], lr=lr, weight_decay=decay, capturable=net.is_cuda)
    return torch.optim.SGD([net], lr=lr, momentum=0.9, nesterov=True, weight_decay=decay)
