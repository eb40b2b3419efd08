"""Which gradient mode a model supports, and which one "auto" takes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from fairweight.errors import NotDifferentiable, UnknownName, lacks_derivative
from fairweight.metagradient import difference, double_backward
from fairweight.metagradient._own_backward import check_backward
from fairweight.metagradient.forward import tangent as forward_tangent
from fairweight.metagradient.model import Parameters, kernels, trainable, unwrap, wrapped
from fairweight.metagradient.passes import ForwardPass, Mode, pull_by_tangent, virtual_forward
from fairweight.metagradient.per_layer import tried
from fairweight.metagradient.per_layer._record import slopes_in_use
from fairweight.metagradient.scope import Scope, in_scope
from fairweight.types import Batch, Loss

MODES = ("auto", "per-layer", "forward", "difference", "double-backward", "per-layer-frozen")
# Below this many multiplications a pass is all overhead, and double backward starts the fewest operations.
SMALL = 200_000
# Why a mode was chosen where backward does not see what forward mode sees.
UNSEEN = "backward holds part of the pass constant, such as a block under no_grad, or can be taken only once"
APPROXIMATE = ("difference", "per-layer-frozen")
_LEFT_OUT = "torch.compile is left out of these passes, so call compile() of the method to have them compiled"
_TOLERANCE = {torch.float64: 1e-6, torch.float32: 2e-3}  # of the two ways to take a tangent; other types: 0.05
_ROUGHLY = {torch.float64: 1e-3, torch.float32: 0.1}  # of differences; other types are too coarse to tell
_log = logging.getLogger("fairweight")
_logged: WeakKeyDictionary[nn.Module, Mode] = WeakKeyDictionary()  # what the log says of each model
Tangent = Callable[[ForwardPass, Parameters], Tensor]


def choose(
    model: nn.Module, batch: Batch, loss: Loss, asked: str, scope: Scope | None = None, *, layers: bool = False
) -> Mode:
    """The mode to use for this model, found by trying it once on this batch; leaves everything as it was.

    layers: the pull is all that is asked for, so that layers can give it.
    """
    if asked not in MODES:
        raise UnknownName(f"{asked!r} is not a gradient mode; choose from: {', '.join(MODES)}.")
    check_backward(unwrap(model), batch, loss)
    trial = _Trial(model, batch, loss, scope)
    if asked == "difference":
        return _difference(trial, "asked for")
    if asked == "double-backward":
        return _double_backward(trial)
    mode = _per_layer(trial, asked, layers) if asked in ("auto", "per-layer", "per-layer-frozen") else None
    mode = _forward(trial, asked) if mode is None else mode
    if any(hasattr(m, "_orig_mod") or getattr(m, "_compiled_call_impl", None) for m in model.modules()):
        mode = replace(mode, reason=f"{mode.reason}; {_LEFT_OUT}")
    if _logged.get(model) != mode:
        _logged[model] = mode
        # warn, once, where the gradient is not exact though nobody asked for that
        level = logging.WARNING if mode.name in APPROXIMATE and asked == "auto" else logging.INFO
        _log.log(level, "score gradient: %s; %s", mode, mode.reason)
    return mode


def _per_layer(trial: _Trial, asked: str, layers: bool) -> Mode | None:
    result: Mode | str = "the method needs more than each sample's pull"
    if layers:
        result = trial.layers(frozen=asked == "per-layer-frozen")
    if isinstance(result, Mode) or asked == "auto":
        return result if isinstance(result, Mode) else None
    raise NotDifferentiable(f"The gradient per layer does not work here: {result}. Use gradient='auto' or 'forward'.")


def _forward(trial: _Trial, asked: str) -> Mode:
    fused = trial.refusal(forward_tangent)
    if fused is None:
        if asked == "auto" and trial.small() and not trial.refusal(double_backward.tangent):
            return Mode("double-backward", reason="the model is so small that the number of operations decides")
        return Mode("forward", reason="every operator of the model has a forward-mode derivative")
    plain = trial.refusal(forward_tangent, plain=True)
    if plain is None:
        return Mode("forward", plain_kernels=True, reason=f"the fused kernel has no forward-mode derivative ({fused})")
    if asked == "forward":
        raise NotDifferentiable(
            f"Forward mode does not work on this model ({plain}); use gradient='auto' or 'difference'."
        )
    try:
        return _double_backward(trial, reason=plain)
    except (NotDifferentiable, torch.OutOfMemoryError):
        return _difference(trial, f"approximate, because an operator has no forward-mode derivative ({plain})")


def _difference(trial: _Trial, reason: str) -> Mode:
    difference.check(unwrap(trial.model))
    if (refusal := trial.refusal(difference.tangent)) is not None:
        raise NotDifferentiable(
            f"Differences do not follow this model's gradient ({refusal}); give its functions forward-mode or second "
            "derivatives, or use another gradient mode if you asked for this one."
        )
    return Mode("difference", reason=reason)


def _double_backward(trial: _Trial, reason: str = "asked for") -> Mode:
    for plain in (False, True):
        refusal = trial.refusal(double_backward.tangent, plain=plain)
        if refusal is None:
            return Mode("double-backward", plain_kernels=plain, reason=reason)
    raise NotDifferentiable(f"Double backward does not work on this model ({refusal}); use gradient='auto'.")


@dataclass(frozen=True)
class _Trial:
    """A model and a batch on which ways to take a tangent are tried."""

    model: nn.Module
    batch: Batch
    loss: Loss
    scope: Scope | None

    @property
    def compiled(self) -> bool:
        """Whether torch.compile wraps the model; its graphs allow one backward pass."""
        return any(hasattr(m, "_orig_mod") for m in wrapped(self.model))

    def small(self) -> bool:
        """True if the parameters that move are so few that double backward is the fastest."""
        parameters = in_scope(trainable(unwrap(self.model)), self.scope)
        on_cpu = next(iter(parameters.values())).device.type == "cpu"
        return on_cpu and not self.compiled and sum(p.numel() for p in parameters.values()) <= SMALL

    def layers(self, *, frozen: bool = False) -> Mode | str:
        """The mode per layer, or why it cannot be had; frozen: with batch norm's statistics held constant."""
        mode = "per-layer-frozen" if frozen else "per-layer"
        if self.model is not unwrap(self.model) and not self.compiled:
            return "a data-parallel wrapper gathers gradients in a backward pass, and there is none"
        parameters = trainable(unwrap(self.model))
        if (name := hooked(parameters)) is not None:
            return f"{name} has a hook, which only a backward pass calls"
        if (name := next((n for n, p in parameters.items() if p.is_complex()), None)) is not None:
            return f"{name} is complex"
        try:
            try:
                found, plain = tried(self.model, self.batch, self.loss, frozen=frozen), False
            except RuntimeError as error:
                if not lacks_derivative(error):
                    raise
                found, plain = tried(self.model, self.batch, self.loss, plain_kernels=True, frozen=frozen), True
            if not found.rest:
                exact = "exact, as no layer mixes samples and the kind of each is known"
                approximate = "asked for; batch statistics are held constant in the pull, an approximation"
                return Mode(mode, plain, approximate if frozen else exact)
            for plain in () if frozen else (False, True):
                if self.refusal(forward_tangent, plain=plain) is None:
                    tried(self.model, self.batch, self.loss, plain_kernels=plain)
                    return Mode("per-layer", plain, f"all but {', '.join(sorted(found.rest))}, which take forward mode")
        except NotDifferentiable as error:
            return str(error).rstrip(".")
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # a model may do anything to what watches it; other modes do not watch
            virtual_forward(self.model, self.batch, self.loss)  # raises what the model raises without derivatives
            return f"{type(error).__name__}: {str(error).strip()}".split("\n")[0].rstrip(".")
        lacks = "" if frozen else ", and has no forward mode"
        return f"{sorted(found.rest)[0]} is used where no function of torch is seen to use it{lacks}"

    def refusal(self, tangent_of: Tangent, *, plain: bool = False) -> str | None:
        """Why a tangent cannot be taken this way, in torch's words; an error of the model itself is raised as it is."""
        try:
            self._compare(tangent_of, plain)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, NotDifferentiable) as error:
            # raises what the model raises without derivatives; its backward pass has been tried before
            virtual_forward(self.model, self.batch, self.loss, plain_kernels=plain)
            return str(error).strip().split("\n")[0].rstrip(".")
        return None

    def _compare(self, tangent_of: Tangent, plain: bool) -> None:
        """Take how losses move along a random direction r, Jr, and compare u·Jr with r·Jᵀu, by one backward pass.

        They differ where one of the two does not see what the other sees, and neither says so.
        """
        done = virtual_forward(self.model, self.batch, self.loss, plain_kernels=plain)
        random = torch.Generator(done.device).manual_seed(0)
        moving = in_scope(done.parameters, self.scope)
        along = {name: torch.empty_like(p, requires_grad=False).normal_(generator=random) for name, p in moving.items()}
        if tangent_of is double_backward.tangent:
            tangent = tangent_of(replace(done, logits=done.losses), along)  # [B]; the loss is gone through twice, too
        else:
            # Only double backward needs the graph. Beside a tangent pass it would make this trial the peak of the whole
            # training's memory; another forward pass costs less.
            done = replace(done, logits=done.logits.detach(), losses=done.losses.detach())
            tangent = pull_by_tangent(done, tangent_of(done, along))
            done = virtual_forward(self.model, self.batch, self.loss, plain_kernels=plain)
        cotangent = tangent if bool((tangent != 0).any()) else torch.ones_like(tangent)
        with kernels(plain):
            slopes = slopes_in_use(done.losses, moving, cotangent.to(done.losses.dtype), keep=False)
        by_backward = sum(float(double_backward.inner(_wide(s), _wide(along[name]))) for name, s in slopes.items())
        by_tangent = float((cotangent * tangent).sum(dtype=torch.float64))
        rough = tangent_of is difference.tangent
        tolerance = _ROUGHLY.get(done.logits.dtype, float("inf")) if rough else _TOLERANCE.get(done.logits.dtype, 0.05)
        if abs(by_backward - by_tangent) > tolerance * max(abs(by_backward), abs(by_tangent)):
            raise NotImplementedError(UNSEEN)


def _wide(t: Tensor) -> Tensor:
    return t.to(torch.complex128 if t.is_complex() else torch.float64)


def hooked(parameters: Parameters) -> str | None:
    """The first parameter with a hook that changes its gradient or acts on it: only a backward pass calls those."""
    hooks = ("_backward_hooks", "_post_accumulate_grad_hooks")
    return next((name for name, p in parameters.items() if any(getattr(p, h, None) for h in hooks)), None)
