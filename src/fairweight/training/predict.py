"""Predictions of a model in eval mode, which change neither the model nor the random stream, and validation by them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from fairweight.metagradient.model import RandomState, call, unwrap
from fairweight.metagradient.passes import predicted
from fairweight.metagradient.solve import evaluate
from fairweight.methods import Reweighter
from fairweight.metrics import group_table
from fairweight.ranks import Ranks
from fairweight.types import Batch, Samples


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch to eval mode; give each module its own mode back at the end."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def logits(model: nn.Module, samples: Samples, batch_size: int = 1024, *, ranks: Ranks | None = None) -> Tensor:
    """Logits of every sample, in eval mode; ranks share the work and all know the result."""  # [N, K]
    if ranks is not None:
        rows = torch.arange(len(samples), device=samples.labels.device).tensor_split(ranks.size)[ranks.rank]
        with ranks.together():
            return torch.cat([theirs[0] for theirs in ranks.gather([logits(model, samples.take(rows), batch_size)])])
    inner = unwrap(model)
    device = next(inner.parameters()).device
    parts = []
    random = RandomState.now(device)
    with torch.no_grad(), evaluating(inner):
        for start in range(0, max(len(samples), 1), batch_size):
            rows = torch.arange(start, min(start + batch_size, len(samples)), device=samples.labels.device)
            batch = samples.take(rows).to(device)
            parts.append(call(inner, batch.inputs, len(batch)).float())
    random.restore()
    return torch.cat(parts)


def predict(model: nn.Module, samples: Samples, batch_size: int = 1024, *, ranks: Ranks | None = None) -> Tensor:
    """Predicted label of every sample, in eval mode; ranks share the work and all know the result.

    Examples:
        >>> import torch, fairweight as fw
        >>> model = torch.nn.Linear(3, 3, bias=False)
        >>> _ = torch.nn.init.eye_(model.weight)
        >>> fw.predict(model, fw.Batch(torch.eye(3), torch.tensor([0, 1, 2]))).tolist()
        [0, 1, 2]
    """  # [N]
    return predicted(logits(model, samples, batch_size, ranks=ranks))


def validation_numbers(
    model: nn.Module, reweighter: Reweighter, samples: Samples, *, grouped: bool = False
) -> dict[str, float]:
    """Loss, the method's objective, accuracy, TPRD and maxFNR; leaves out what cannot be estimated.

    grouped: whether the method's exemplars have groups, so that its objective means nothing without them.
    """
    values = logits(model, samples, ranks=reweighter.ranks)  # [N, K]
    labels, groups = samples.labels.to(values.device), samples.groups
    losses = reweighter.loss(values, labels)
    objective = getattr(reweighter, "objective", None)
    numbers = {"loss": float(losses.mean()), "objective": float(losses.mean())}
    # Rows whose groups are not known at all tell how good the model is, and nothing of a gap.
    unknown = groups is not None and not bool((groups >= 0).any())
    if objective is not None and not unknown and not (grouped and groups is None):
        batch = Batch(labels, labels, None if groups is None else groups.to(values.device))
        numbers["objective"] = float(evaluate(objective, losses, batch))
    known_groups = None if unknown or groups is None else groups.cpu()
    table = group_table(samples.labels.cpu(), predicted(values).cpu(), known_groups, missing="ignore")
    gaps = {} if unknown else {"tprd": table.tprd, "max_fnr": table.max_fnr}
    numbers |= {"accuracy": float(table.accuracy), **{name: float(gap) for name, gap in gaps.items()}}
    return {name: value for name, value in numbers.items() if not math.isnan(value)}
