"""How each sample's score would move the objective: exact, with first derivatives alone.

`whole_map` is the theory, readable. With l the per-sample train losses at θ, p = softmax(w), θ̃ = θ − η ∇Σ p_i l_i and
v = ∇objective(θ̃), the gradient is d objective / d w_i = −η p_i (s_i − Σ_j p_j s_j) with the pull s = (dl/dθ) v.
A mode is a way to take the pull: one file each. Tensors in and out; no method's name is known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn

from fairweight import catalog
from fairweight.errors import BadInput, RowsOutOfRange, UnknownName
from fairweight.metagradient import _written, passes
from fairweight.metagradient.choose import MODES, choose
from fairweight.metagradient.model import trainable, unwrap
from fairweight.metagradient.passes import ForwardPass, Mode, Solution, classification_loss, forward, virtual_forward
from fairweight.metagradient.per_layer import layer_forward
from fairweight.metagradient.scope import Scope, in_scope
from fairweight.metagradient.solve import Rates, Softmax, WeightForm, exemplar_point, pull, solve, tangent
from fairweight.types import Batch, Loss, ObjectiveFunction

# fmt: off
__all__ = [
    "MODES", "ForwardPass", "Mode", "Rates", "Scope", "Softmax", "Solution", "WeightForm", "choose",
    "classification_loss", "exemplar_point", "forward", "layer_forward", "pull", "score_gradient", "solve", "tangent",
    "virtual_forward", "weight_form",
]
# fmt: on


def score_gradient(
    model: nn.Module, batch: Batch, exemplar: Batch, scores: Tensor, objective: ObjectiveFunction,
    lr: float | Tensor | Rates, mode: str = "forward", *, reverse: bool = False, loss: Loss = classification_loss,
    form: str | WeightForm = "softmax", scope: str | None = None,
) -> Tensor:  # fmt: skip
    """d objective(θ̃) / d score for each member of the batch; touches nothing.

    scores: [N], read at the batch's rows; or [B]. lr: a number, or one number or tensor per parameter name.
    reverse: the look-ahead goes up the train loss instead of down. scope: the virtual step moves these submodules
    alone ("head": the last linear layer); all else stays.

    Examples:
        >>> import torch, fairweight as fw
        >>> _ = torch.manual_seed(0)
        >>> model, batch = torch.nn.Linear(4, 2), fw.Batch(torch.randn(8, 4), torch.randint(2, (8,)))
        >>> held = fw.Batch(torch.randn(8, 4), torch.randint(2, (8,)))
        >>> gradient = fw.metagradient.score_gradient(model, batch, held, torch.zeros(8), fw.MeanLoss(), lr=0.1)
        >>> gradient.shape, bool(gradient.sum().abs() < 1e-6)  # softmax: what one gains, the others lose
        (torch.Size([8]), True)
    """  # [B]
    passes.check_not_empty(batch, "train")
    passes.check_not_empty(exemplar, "exemplar")
    part = None if scope is None else Scope(model, scope)
    if part is not None:
        part.settle(model, batch, loss)
    shape = weight_form(form)
    chosen = choose(model, batch, loss, mode, part, layers=not shape.sees_logits)
    inner = unwrap(model)
    here = _written.after_a_pass(inner, batch)
    done: ForwardPass
    if chosen.name in ("per-layer", "per-layer-frozen"):
        done = layer_forward(model, batch, loss, chosen, parameters=here, virtual=True)
    else:
        done = virtual_forward(model, batch, loss, plain_kernels=chosen.plain_kernels, parameters=here)
    sign, rates = -1.0 if reverse else 1.0, _rates(lr, in_scope(trainable(inner), part), done.parameters)
    own = _batch_scores(scores, batch).detach()
    own = own.to(torch.promote_types(own.dtype, done.losses.dtype))
    rates = {name: sign * rate for name, rate in rates.items()}
    return solve(done, exemplar, own, objective, rates, chosen, shape).gradient


def _rates(lr: float | Tensor | Rates, moving: Mapping[str, Tensor], parameters: Mapping[str, Tensor]) -> Rates:
    if not isinstance(lr, Mapping):
        return dict.fromkeys(moving, lr)
    if unknown := sorted(set(lr) - set(parameters)):
        raise BadInput(f"lr names {unknown[0]!r}, which is no trainable parameter; use model.named_parameters().")
    return {name: rate for name, rate in lr.items() if name in moving}


def _batch_scores(scores: Tensor, batch: Batch) -> Tensor:
    """The batch's scores: those of its rows, or the scores themselves where they are one per batch member."""  # [B]
    if scores.ndim != 1:
        raise BadInput(f"Scores have shape {tuple(scores.shape)}; give one per sample, [N] or [{len(batch)}].")
    if batch.rows is None:
        if len(scores) != len(batch):
            raise BadInput(f"{len(scores)} scores for {len(batch)} samples without rows; give Batch(rows=...).")
        return scores
    if len(batch) and (int(batch.rows.min()) < 0 or int(batch.rows.max()) >= len(scores)):
        if len(scores) == len(batch):
            return scores
        raise RowsOutOfRange(
            f"The batch names rows {int(batch.rows.min())} to {int(batch.rows.max())}, and there are {len(scores)} "
            "scores; rows count from 0 to num_samples - 1."
        )
    return scores[batch.rows]


def weight_form(form: str | WeightForm) -> WeightForm:
    """The form of that name, or the form itself."""
    if isinstance(form, WeightForm):
        return form
    if form == Softmax.name:
        return Softmax()
    if form not in (others := catalog.names("paper.weight_forms")):
        raise UnknownName(f"{form!r} is not a weight form; choose from: softmax, {', '.join(others)}.")
    return cast(WeightForm, catalog.load("paper.weight_forms", form)())
