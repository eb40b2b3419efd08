"""Build what a Spec names: network, optimizer, schedule and method."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from fairweight import catalog
from fairweight.constraints import Constraint, Kind, between, whole
from fairweight.data import Dataset, ImagePreprocessing, Preprocessing
from fairweight.errors import BadInput, UnknownName, first_line, option
from fairweight.methods import Reweighter
from fairweight.methods.look_ahead import LookAhead
from fairweight.methods.score_step import AdaptiveStep, PlainStep, ScoreStep
from fairweight.models.mlp import MLP
from fairweight.models.resnet import ResNet18
from fairweight.models.trees import TreeEnsemble
from fairweight.objectives._among import Among
from fairweight.objectives._from_text import objective_from
from fairweight.runs.own_model import check_outputs, model_from
from fairweight.runs.spec import Spec

# Steps from which compiling is won back, on an H200: FORML's takes a minute and saves 9 ms a step, a plain step's takes
# half a minute and saves half a millisecond.
LEARNED_FROM, PLAIN_FROM = 6_000, 50_000
TREES, LINEAR = "trees", "linear"  # fitted by a library, with weights that are known before
EMPTY_TREES = {"features": 1, "trees": 1, "nodes": 1, "depth": 0}  # the sizes of a run's are in its run.json
# Each has options of its own.
_PARTS = {"look_ahead": "look_ahead.lr=0.1", "score_step": "score_step.rate=0.1", "objective": "objective.name=mean"}
_PLAIN: dict[str, Constraint] = {
    "float": between(-math.inf), "int": whole(), "bool": Kind((bool,), "true or false"), "str": Kind((str,), "a name"),
}  # fmt: skip


@dataclass(frozen=True)
class Built:
    """A model with what trains it, on a device; to be trained once."""

    device: str
    model: nn.Module
    optimizer: torch.optim.Optimizer
    scheduler: torch.optim.lr_scheduler.LRScheduler | None
    reweighter: Reweighter

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters())

    def ready(self, device: str) -> bool:
        """True if it is on the device and was not trained yet."""
        return self.device == device and self.reweighter.steps == 0


def build(
    spec: Spec,
    dataset: Dataset,
    device: str = "cpu",
    *,
    weights: Tensor | None = None,
    network: Callable[[], nn.Module] | None = None,
) -> Built:
    """Make everything that the Spec names on the device; refuse a wrong name or option.

    weights: those of other runs, for the method given. network: makes the model instead of spec.network.
    """
    torch.manual_seed(spec.seed)
    options = spec.method_options if weights is None else {**spec.method_options, "weights": weights}
    if (name := spec.network.get("name")) in (TREES, LINEAR):  # beside a model that is not fitted yet
        stand_in = nn.Linear(1, 1)  # methods ask a model where it lives
        reweighter = method_from(spec.method, options, stand_in, len(dataset.train))
        if "exemplar" in reweighter.needs:
            raise BadInput(f"{spec.method} learns by a network's gradients, which {name} has none of; choose mlp.")
        empty = network_for(dataset.preprocessing, {"name": name})
        return Built(device, empty, optimizer_for(stand_in, spec, "cpu"), None, reweighter)
    model = laid_out(network_for(dataset.preprocessing, spec.network) if network is None else network(), device)
    if not any(p.requires_grad for p in model.parameters()):
        raise BadInput("the network has no parameters to train; give one that has.")
    optimizer = optimizer_for(model, spec, device)
    reweighter = method_from(spec.method, options, model, len(dataset.train))
    return Built(device, model, optimizer, scheduler_for(optimizer, spec), reweighter)


# -- the network ----------------------------------------------------------------------------------


def network_for(preprocessing: Preprocessing, options: Mapping[str, Any]) -> nn.Module:
    """Make the named network, or the default one; a name with a colon, MODULE:MODEL, is the user's own."""
    name = str(options.get("name") or default_network(preprocessing))
    try:
        body = _body(name, {key: value for key, value in options.items() if key != "name"}, preprocessing)
    except (MemoryError, OverflowError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"the network {name} cannot be made ({first_line(error)}); give it other widths.") from error
    if isinstance(preprocessing, ImagePreprocessing):
        return nn.Sequential(preprocessing.input_module(), body)
    return body


def _body(name: str, rest: dict[str, Any], preprocessing: Preprocessing) -> nn.Module:
    shape, classes = preprocessing.input_shape, len(preprocessing.meaning.label_names)
    if name == "mlp":
        usual: dict[str, Any] = {"hidden": default_widths(preprocessing)}
        return MLP(math.prod(shape), classes, **_checked(MLP, {**usual, **rest}, name, skipped=2))
    if name == "resnet18" and len(shape) == 3:
        usual = {"stem": "small" if shape[-1] < 96 else "large"}
        return ResNet18(classes, channels=shape[0], **_checked(ResNet18, {**usual, **rest}, name, skipped=1))
    if name == "resnet18":
        which = f"choose mlp, or leave {option('network.name')} out"
        raise BadInput(f"resnet18 takes images, and these are rows of a table; {which}.")
    if name == TREES and len(shape) == 1:
        sizes = _checked(TreeEnsemble, {**EMPTY_TREES, **rest}, name, skipped=2)
        return TreeEnsemble(shape[0], classes, **sizes)
    if name == LINEAR and len(shape) == 1 and classes == 2:
        return MLP(shape[0], classes, ())
    if ":" not in name:
        raise UnknownName(f"{name!r} is no network of fairweight; choose mlp, resnet18, or your own as MODULE:MODEL.")
    body = model_from(name)
    check_outputs(body, name, shape, classes)
    return body


def default_network(preprocessing: Preprocessing) -> str:
    """An MLP for tables and small grey images, otherwise ResNet-18."""
    shape = preprocessing.input_shape
    small = len(shape) == 3 and shape[0] == 1 and shape[-1] <= 28
    return "mlp" if len(shape) == 1 or small else "resnet18"


def default_widths(preprocessing: Preprocessing) -> tuple[int, ...]:
    """Widths of an MLP's hidden layers."""
    return (64, 64) if math.prod(preprocessing.input_shape) < 200 else (256, 256)


def on_gpu(device: str) -> bool:
    """True if the device is a GPU."""
    return device.startswith("cuda")


def laid_out(model: nn.Module, device: str) -> nn.Module:
    """Move the model to its device; on a GPU convolutions hold their channels last, as its kernels want them."""
    model = model.to(device)
    if on_gpu(device) and _convolves(model):
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def compiles(reweighter: Reweighter, device: str, steps: int) -> bool:
    """True if compiling the step pays: a convolutional network, a GPU, many steps.

    A small MLP is bound by launches, which a captured graph does away with already.
    """
    least = LEARNED_FROM if "exemplar" in reweighter.needs else PLAIN_FROM
    return on_gpu(device) and _convolves(reweighter.model) and steps >= least


def _convolves(model: nn.Module) -> bool:
    return any(isinstance(part, nn.Conv2d) for part in model.modules())


# -- optimizer and schedule -----------------------------------------------------------------------


def optimizer_for(model: nn.Module, spec: Spec, device: str) -> torch.optim.Optimizer:
    """Make the named optimizer."""
    common: dict[str, Any] = {"lr": spec.lr, "weight_decay": spec.weight_decay}
    if spec.optimizer == "sgd":
        nesterov = spec.nesterov and spec.momentum > 0
        return torch.optim.SGD(model.parameters(), momentum=spec.momentum, nesterov=nesterov, **common)
    kinds: dict[str, Callable[..., torch.optim.Optimizer]] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    if spec.optimizer not in kinds:
        raise UnknownName(f"{spec.optimizer!r} is no optimizer here; choose sgd, adam or adamw.")
    capturable = on_gpu(device)  # so that whole steps can be replayed as a graph
    return kinds[spec.optimizer](model.parameters(), capturable=capturable, **common)


def scheduler_for(optimizer: torch.optim.Optimizer, spec: Spec) -> torch.optim.lr_scheduler.LRScheduler | None:
    """Make the named schedule, stepped once per epoch."""
    name, epochs = spec.schedule.get("name"), spec.epochs
    if name is None:
        return None
    if name == "cosine":
        warm_up = int(spec.schedule.get("warm_up", 0))

        def factor(epoch: int) -> float:
            """Of the learning rate: rises over the first epochs, then falls along a cosine."""
            if epoch < warm_up:
                return (epoch + 0.5) / warm_up
            return 0.5 * (1 + math.cos(math.pi * (epoch - warm_up) / max(1, epochs - warm_up)))

        schedules = torch.optim.lr_scheduler
        return schedules.LambdaLR(optimizer, factor) if warm_up else schedules.CosineAnnealingLR(optimizer, epochs)
    if name == "step":
        at = [int(epoch) for epoch in spec.schedule["at"]]
        return torch.optim.lr_scheduler.MultiStepLR(optimizer, at, float(spec.schedule.get("factor", 0.1)))
    raise UnknownName(f"{name!r} is no schedule; choose cosine or step.")


# -- the method -----------------------------------------------------------------------------------


def method_from(name: str, options: Mapping[str, Any], model: nn.Module, num_samples: int) -> Reweighter:
    """Make the method of that name; a Spec's plain options are parsed here, and nowhere else.

    score_step: {"name": "plain", "scale": 10} or {"name": "adaptive", "rate": 0.3}; look_ahead: {"reverse": true}.
    objective: "mean + variance", or {"name": "max-discrepancy", "of": "mean", "among": "positives"} with its options.
    """
    kind = cast(type[Reweighter], catalog.load("methods", name))
    given = {key: _parsed(key, value) for key, value in _checked(kind, options, name, skipped=2).items()}
    return kind(model, num_samples, **given)


def _parsed(key: str, value: Any) -> Any:
    plain = isinstance(value, str | int | float | list)
    if isinstance(value, Mapping) and key in _PARTS:
        return _part(key, value)
    if isinstance(value, Mapping) and key == "target":
        return {int(label): float(share) for label, share in value.items()}  # JSON's keys are text
    if key == "objective" and isinstance(value, str):
        return objective_from(value)
    if key == "objective" and plain:
        raise BadInput(f"objective={value!r} is no objective; write for example 'mean + 0.5 * max-discrepancy'.")
    if key in _PARTS and plain:
        raise BadInput(f"{key}={value!r}: it is more than one value; give its parts by name, such as {_PARTS[key]}.")
    if key == "loss" and plain:
        raise BadInput(f"loss={value!r}: a loss is a function, which only Python can give; leave it out.")
    return value


def _part(key: str, value: Mapping[str, Any]) -> Any:
    """Make an objective, a look-ahead or a score step of its options."""
    rest = {name: item for name, item in value.items() if name != "name"}
    if key == "objective":
        kind = catalog.load("objectives", str(value.get("name")))
        among = str(rest.pop("among", "all"))
        objective = kind(**_checked(kind, rest, key))
        return objective if among == "all" else Among(objective, among)
    if key == "look_ahead":
        return LookAhead(**_checked(LookAhead, value, key))
    kinds: dict[str, type[ScoreStep]] = {"plain": PlainStep, "adaptive": AdaptiveStep}
    step = kinds.get(str(value.get("name", "adaptive")))
    if step is None:
        raise UnknownName(f"{value['name']!r} is no score step; choose from: {', '.join(kinds)}.")
    return step(**_checked(step, rest, key))


def _checked(kind: Callable[..., Any], given: Mapping[str, Any], what: str, skipped: int = 0) -> dict[str, Any]:
    """Refuse options that the kind does not take, and plain values of another type than it names."""
    known = dict(list(inspect.signature(kind).parameters.items())[skipped:])
    options = dict(given)
    for key, value in given.items():
        if key not in known:
            raise UnknownName(f"{what} has no option {key!r}; it has: {', '.join(known) or 'none'}.")
        types = set(str(known[key].annotation).split(" | "))
        allowed = _PLAIN.get("float" if "float" in types else next(iter(types - {"None"})))
        if allowed is None or not types <= {*_PLAIN, "None"} or (value is None and "None" in types):
            continue
        if types <= {"str", "None"} and type(value) is int:
            options[key] = str(value)  # a name in digits, as those of a Sequential's parts are
        elif not allowed.allows(value):
            raise BadInput(f"{what}: {key}={value!r}; {allowed}.")
    return options
