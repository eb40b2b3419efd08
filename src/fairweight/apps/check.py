"""Check a user's own model: is the score gradient exact, which mode will it use, what will a step cost."""

from __future__ import annotations

import copy
import statistics
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from fairweight.apps.bench import Make, Way, warmed
from fairweight.errors import BadInput, NotDifferentiable
from fairweight.metagradient import choose, classification_loss, score_gradient
from fairweight.metagradient.model import RandomState
from fairweight.methods.forml import FORML
from fairweight.methods.uniform import Uniform
from fairweight.objectives.mean import MeanLoss
from fairweight.objectives.variance import LossVariance
from fairweight.training.predict import logits
from fairweight.types import Batch, map_tensors

_FAILED = "Failed: use gradient='double-backward' and report the model."
BOUND = {"per-layer": 1e-10, "forward": 1e-10, "difference": 1e-4}  # relative to double backward, in float64
REPEATS = 15  # timed steps
CLOSE = 1e-3  # in the training precision; beyond it a word on conditioning is due


@dataclass(frozen=True)
class Check:
    """Findings on a model."""

    parameters: int
    mode: str
    reason: str
    errors: dict[str, float | None]  # by mode: relative to double backward in float64; None where a mode does not work
    precision: str  # that the model trains in
    rounding: dict[str, float | None]  # by mode: the error there, relative to double backward in float64
    untouched: dict[str, bool]  # buffers, parameters, random stream
    plain_ms: float  # median time of a plain step
    step_ms: float  # and of FORML's
    batch: int
    exemplars: int

    @property
    def passed(self) -> bool:
        """True if every mode that works is within its bound and nothing was touched."""
        close = all(e is None or e <= BOUND[name] for name, e in self.errors.items())
        return close and all(self.untouched.values())

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.step_ms / self.plain_ms, "passed": self.passed}

    def text(self) -> str:
        lines = [f"Gradient mode: {self.mode}; {self.reason}."]
        for name, error in self.errors.items():
            verdict = "does not work on this model"
            if error is not None:
                verdict = "equal to" if error <= BOUND[name] else "DIFFERS from"
                verdict += f" double backward in float64: relative error {error:.1e}, bound {BOUND[name]:.0e}"
            lines.append(f"  {name:16s} {verdict}")
        lines.append(f"In {self.precision}, in which it trains, relative error by rounding:")
        results = {name: "does not work" if error is None else f"{error:.1e}" for name, error in self.rounding.items()}
        lines += [f"  {name:16s} {text}" for name, text in results.items()]
        if self.passed and any(error is not None and error > CLOSE for error in self.rounding.values()):
            lines.append(
                f"  More than {CLOSE:.0e} comes of the model's conditioning, not of the mode: compare double "
                "backward's own rounding here. Scores average over many steps; a higher precision lowers it."
            )
        for name, kept in self.untouched.items():
            lines.append(f"  {name:20s} {'left as it was' if kept else 'CHANGED by the gradient'}")
        ratio = f"{self.step_ms / self.plain_ms:.1f} times a plain step of {self.plain_ms:.2f} ms"
        lines.append(f"A step takes {self.step_ms:.2f} ms, {ratio} (medians).")
        return "\n".join([*lines, "Passed." if self.passed else _FAILED])


def check(model: nn.Module, batch: Batch, exemplar: Batch) -> Check:
    """Compare the modes in float64 on a copy, look for side effects, and time steps as they will be run."""
    if any(isinstance(m, torch.jit.ScriptModule) for m in model.modules()):  # in part it stays in its first precision
        raise BadInput("a scripted model cannot be compared in float64; check it before torch.jit.script.")
    if not torch.isfinite(logits(model, exemplar)).all():
        raise BadInput("the model returns numbers that are not finite; look for a division by 0 or a logarithm of 0.")
    mode = choose(model, batch, classification_loss, "auto", layers=True)
    exact = _gradients(copy.deepcopy(model).double(), _in_double(batch), _in_double(exemplar))
    # the oracle; where it does not work, the differences of the whole map must do: they are what "difference" computes
    oracle = next(g for g in (exact["double-backward"], exact["difference"]) if g is not None)
    rounded = _gradients(copy.deepcopy(model), batch, exemplar)
    return Check(
        parameters=sum(p.numel() for p in model.parameters()),
        mode=str(mode),
        reason=mode.reason,
        errors={name: _error(g, oracle) for name, g in exact.items() if name != "double-backward"},
        precision=str(next(p.dtype for p in model.parameters())).removeprefix("torch."),
        rounding={name: _error(g, oracle) for name, g in rounded.items() if name != "difference"},
        untouched=_untouched(model, batch, exemplar),
        plain_ms=_milliseconds(Uniform, model, batch, exemplar),
        step_ms=_milliseconds(partial(FORML, agreement_every=0), model, batch, exemplar),
        batch=len(batch),
        exemplars=len(exemplar),
    )


def _in_double(batch: Batch) -> Batch:
    return replace(batch, inputs=map_tensors(batch.inputs, lambda t: t.double() if t.is_floating_point() else t))


def _gradients(model: nn.Module, batch: Batch, exemplar: Batch) -> dict[str, Tensor | None]:
    """The score gradient by each mode; None where a mode does not work."""
    dtype = torch.promote_types(next(p.dtype for p in model.parameters()), torch.float32)
    scores = torch.linspace(-0.5, 0.5, len(batch), dtype=dtype, device=batch.labels.device)
    objective = MeanLoss() + LossVariance()

    def gradient(mode: str) -> Tensor | None:
        try:
            return score_gradient(model, batch, exemplar, scores, objective, 0.1, mode)
        except NotDifferentiable:
            return None

    return {name: gradient(name) for name in ("per-layer", "forward", "difference", "double-backward")}


def _error(found: Tensor | None, oracle: Tensor) -> float | None:
    if found is None:
        return None
    return float((found.double() - oracle).norm() / oracle.norm().clamp_min(1e-300))


def _untouched(model: nn.Module, batch: Batch, exemplar: Batch) -> dict[str, bool]:
    before = {key: t.clone() for key, t in model.state_dict().items()}
    random = RandomState.now(batch.labels.device)
    flags = [m.training for m in model.modules()]
    held = [id(p) for _, p in model.named_parameters(remove_duplicate=False)]
    score_gradient(model, batch, exemplar, torch.zeros(len(batch), device=batch.labels.device), MeanLoss(), 0.1, "auto")
    names = {name for name, _ in model.named_parameters()}
    identity = [id(p) for _, p in model.named_parameters(remove_duplicate=False)]
    same = {key: torch.equal(t, before[key]) for key, t in model.state_dict().items()}
    return {
        "parameters": all(ok for key, ok in same.items() if key in names) and identity == held,
        "buffers": all(ok for key, ok in same.items() if key not in names),
        "random stream": random is None or random.unchanged(),
        "train and eval mode": flags == [m.training for m in model.modules()],
    }


def _milliseconds(make: Make, model: nn.Module, batch: Batch, exemplar: Batch) -> float:
    ready = warmed(Way("", make, "eager"), model, batch, exemplar, bf16=False)
    return statistics.median(ready.times(REPEATS))
