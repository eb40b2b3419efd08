"""The plain values that a step passes on: Batch, Weighing, StepRecord."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import torch
from torch import Tensor

from fairweight.errors import BadInput

# What a model takes: a tensor, a tuple of positional arguments, or a dict of keyword arguments.
Inputs: TypeAlias = "Tensor | tuple[Any, ...] | list[Any] | Mapping[str, Any]"
# Per-sample loss: (logits [B, ...], labels [B]) -> losses [B].
Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
# What counts on the exemplar batch: (losses [E], groups [E]) -> scalar.
ObjectiveFunction: TypeAlias = Callable[[Tensor, Tensor], Tensor]


def map_tensors(inputs: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Apply change to every tensor in a tensor, tuple, list or mapping; leave the rest as it is."""
    if isinstance(inputs, Tensor):
        return change(inputs)
    if isinstance(inputs, Mapping):
        return {key: map_tensors(value, change) for key, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        changed = [map_tensors(value, change) for value in inputs]
        return type(inputs)(*changed) if hasattr(inputs, "_fields") else type(inputs)(changed)
    return inputs


def tensors(value: Any) -> list[Tensor]:
    """Every tensor in a tensor, tuple, list or mapping, in order."""
    every: list[Tensor] = []
    map_tensors(value, lambda t: every.append(t) or t)  # type: ignore[func-returns-value]
    return every


def sent(values: Tensor, device: torch.device | str) -> Tensor:
    """The tensor on a device; a copy from memory to a GPU is begun and not waited for, so that steps follow closely."""
    if values.device.type == "cpu" and torch.device(device).type == "cuda":
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)


@dataclass(frozen=True)
class Batch:
    """Samples side by side; a whole set in memory is a Batch too.

    groups: -1 marks a sample whose group is not known; None: no group is known, and the label stands
    for the group. rows: each sample's index in its source; None counts from 0.
    shares: each sample's weight in the natural distribution, when the batch was drawn by cell.

    Examples:
        >>> import torch, fairweight as fw
        >>> everyone = fw.Batch(torch.eye(4), labels=torch.tensor([0, 1, 0, 1]), groups=torch.tensor([0, 0, 1, 1]))
        >>> some = everyone.take(torch.tensor([3, 1]))
        >>> some.labels.tolist(), some.rows.tolist()
        ([1, 1], [3, 1])
    """

    inputs: Inputs
    labels: Tensor  # [B] int64
    groups: Tensor | None = None  # [B] int64
    rows: Tensor | None = None  # [B] int64
    shares: Tensor | None = None  # [B] float, mean 1

    def __post_init__(self) -> None:
        for name in ("labels", "groups", "rows", "shares"):
            if (value := getattr(self, name)) is not None:
                value = _column(name, value)
                object.__setattr__(self, name, value)
                if len(value) != (size := len(self.labels)):
                    raise BadInput(f"Batch.{name} has {len(value)} entries; give one per sample, {size} as in labels.")

    def __len__(self) -> int:
        return self.labels.shape[0]

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        return Batch(**map_tensors(vars(self), lambda t: sent(t, device)))

    def take(self, index: Tensor) -> Batch:
        """The samples at these positions, or where a mask is true; rows keep their identity."""
        if index.dtype == torch.bool:
            index = torch.nonzero(index).flatten()
        size = len(self)  # an input without an entry for each sample is everybody's
        taken = Batch(**map_tensors(vars(self), lambda t: t[index] if t.ndim and len(t) == size else t))
        return replace(taken, rows=index) if self.rows is None else taken

    def compared(self) -> Tensor:
        """The groups that an objective compares: the groups, or the labels where none are given."""  # [B]
        return self.labels if self.groups is None else self.groups


def labels_side_by_side(batches: Sequence[Batch]) -> Batch:
    """Labels, groups, rows and shares of several batches as one; inputs are left out."""
    return side_by_side([replace(batch, inputs=batch.labels) for batch in batches])


def side_by_side(batches: Sequence[Batch]) -> Batch:
    """Several batches as one."""
    if len(batches) == 1:
        return batches[0]
    try:
        columns = {"inputs": _joined([batch.inputs for batch in batches], [(len(batch),) for batch in batches])}
    except (RuntimeError, TypeError, KeyError, ValueError) as error:
        first = str(error).split("\n")[0]
        raise BadInput(f"The batches do not fit side by side ({first}); give them as one batch.") from None
    for name in ("labels", "groups", "rows", "shares"):
        parts = [part for batch in batches if (part := getattr(batch, name)) is not None]
        if len(parts) not in (0, len(batches)):
            raise BadInput(f"Some of the batches have {name} and others do not; give Batch({name}=...) with all.")
        columns[name] = torch.cat(parts) if parts else None
    return Batch(**columns)


def _joined(parts: Sequence[Any], sizes: list[tuple[int]]) -> Any:
    first = parts[0]
    if isinstance(first, Mapping):
        return {key: _joined([part[key] for part in parts], sizes) for key in first}
    columns = zip(*map(tensors, parts), strict=True)  # one without an entry for each sample is everybody's
    joined = ((c[0], c, [t.shape[:1] for t in c] == sizes) for c in columns)
    made = iter([torch.cat(c) if own or not all(map(t.equal, c)) else t for t, c, own in joined])
    return map_tensors(first, lambda _: next(made))


def _column(name: str, value: Any) -> Tensor:
    """One entry per sample: int64, or floating point for shares; any integer type is taken in."""  # [B]
    if not isinstance(value, Tensor):
        try:
            value = torch.as_tensor(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise BadInput(f"Batch.{name} holds what is no number ({error}); number its values from 0.") from None
    if value.ndim != 1:
        raise BadInput(f"Batch.{name} has shape {tuple(value.shape)}; give one entry per sample, [B].")
    if name == "shares":
        return cast(Tensor, value)
    if value.is_floating_point() or (name == "rows" and value.dtype == torch.bool):
        raise BadInput(f"Batch.{name} is {value.dtype}; convert it to int64 (for example with .long()).")
    return cast(Tensor, value.long())


@runtime_checkable
class Samples(Protocol):
    """A set that can be drawn from: a Batch, or anything that streams."""

    @property
    def labels(self) -> Tensor: ...  # [N]

    @property
    def groups(self) -> Tensor | None: ...  # [N]

    def __len__(self) -> int: ...

    def take(self, index: Tensor) -> Batch: ...


@dataclass
class Weighing:
    """What a method made of one batch."""

    weights: Tensor  # [B] what multiplies the losses, sums to 1
    total: Tensor | None = None  # [] the loss to step on, where it is not the weighted sum of the losses
    objective: Tensor | None = None  # [] on the exemplar batch
    exemplar_losses: Tensor | None = None  # [E]
    pull: Tensor | None = None  # [B]
    gradient: Tensor | None = None  # [B]
    measure_agreement: Callable[[], Tensor | None] | None = None  # gives []; called when memory allows
    mode: str | None = None


@dataclass
class StepRecord:
    """What one step did; tensors stay on the device until somebody asks for numbers."""

    loss: Tensor  # [] weighted train loss that was stepped on
    losses: Tensor  # [B] per-sample train losses at the parameters before the step
    weights: Tensor  # [B] what multiplied them, sums to 1
    correct: Tensor | None = None  # [B] bool, prediction equals label
    logits: Tensor | None = None  # [B, K] or [B], before the step; None where ranks did not gather them
    labels: Tensor | None = None  # [B]
    objective: Tensor | None = None  # [] on the exemplar batch at the look-ahead
    exemplar_losses: Tensor | None = None  # [E]
    exemplar_groups: Tensor | None = None  # [E]
    pull: Tensor | None = None  # [B]
    gradient: Tensor | None = None  # [B] d objective / d score
    agreement: Tensor | None = None  # [] cosine between the pulls of two halves of the exemplar batch
    mode: str | None = None  # how the gradient was computed
    batch: Batch | None = None  # all samples of the step, where several ranks took it together

    @property
    def effective_size(self) -> Tensor:
        """Effective share of the batch, 1 / (B sum p^2): 1 when all count alike, 0 when no sample counts."""
        squares = self.weights.square().sum()
        return torch.where(squares > 0, 1.0 / (len(self.weights) * squares), torch.zeros_like(squares))

    @property
    def margin(self) -> Tensor | None:
        """True logit minus the best other, computed when asked for: thousands of samples at once cost less."""  # [B]
        return None if self.logits is None or self.labels is None else margin(self.logits, self.labels)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for a log."""
        values = {**vars(self), "margin": self.margin, "effective_size": self.effective_size}
        plain = {name: value for name, value in values.items() if name not in ("logits", "labels", "batch")}
        return {name: value.tolist() if isinstance(value, Tensor) else value for name, value in plain.items()}


def margin(logits: Tensor, labels: Tensor) -> Tensor:
    """True logit minus the best other; for one logit, its signed value."""  # [B]
    if logits.ndim == 1 or logits.shape[1] <= 2:  # of two, the difference: a fifth of the time, and the same number
        towards = logits[:, 1] - logits[:, 0] if logits.ndim == 2 and logits.shape[1] == 2 else logits.reshape(-1)
        return torch.where(labels > 0, towards, -towards)
    true = logits.gather(1, labels[:, None]).squeeze(1)
    others = logits.scatter(1, labels[:, None], -torch.inf)
    return true - others.amax(dim=1)
