"""Load a user's own model from MODULE:MODEL, and make inputs that it takes."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import math
import sys
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fairweight.errors import BadInput, UntrustedCode, first_line, option
from fairweight.metagradient.model import call
from fairweight.runs.folder import RunFolder
from fairweight.runs.other_runs import prerequisites
from fairweight.runs.spec import Spec
from fairweight.training.predict import evaluating
from fairweight.types import Batch

_MOST = 2**31  # numbers of inputs that are made up
_INPUTS: dict[type[nn.Module], Callable[[Any], tuple[int, ...]]] = {  # by layer: the sizes of a sample
    nn.Linear: lambda layer: (layer.in_features,),
    nn.Conv2d: lambda layer: (layer.in_channels, 32, 32),
    nn.Conv1d: lambda layer: (layer.in_channels, 64),
    nn.RNNBase: lambda layer: (16, layer.input_size),
    nn.TransformerEncoderLayer: lambda layer: (16, layer.linear1.in_features),
}


def named_object(words: str) -> Any:
    """Import what MODULE:NAME names; MODULE is importable from here, or a path to a .py file."""
    module, colon, name = words.rpartition(":")
    if not colon or not module or not name:
        raise BadInput(f"{words!r} names no model; write MODULE:MODEL, such as my_package.models:Net or net.py:Net.")
    try:
        imported = _imported(module)
    except (Exception, SystemExit) as error:  # a module may do anything while it is imported
        way_out = "run from its folder, or give the path of its file"
        raise BadInput(f"{module} cannot be imported ({_error_text(error)}); {way_out}.") from error
    try:
        return attrgetter(name)(imported)
    except AttributeError:
        raise BadInput(f"{module} has no {name!r}; name a class, a function or a model in it.") from None


def _error_text(error: BaseException) -> str:
    first = first_line(error)
    return first if isinstance(error, ImportError | OSError | SyntaxError) else f"{type(error).__name__}: {first}"


def _imported(module: str) -> Any:
    if not module.endswith(".py"):
        if (here := str(Path.cwd())) not in sys.path:
            sys.path.insert(0, here)
        return importlib.import_module(module)
    spec = importlib.util.spec_from_file_location(Path(module).stem, module)
    if spec is None or spec.loader is None or not Path(module).is_file():
        raise ImportError(f"there is no file {module}")
    imported = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(imported)
    return imported


def model_from(words: str) -> nn.Module:
    """Make the model by the named class or function; a model itself is copied, so that each training has its own."""
    named = named_object(words)
    if isinstance(named, nn.Module):
        return copy.deepcopy(named)
    if inspect.isbuiltin(named):  # such as sys.exit
        raise BadInput(f"{words} is a part of Python that makes no model; name a model, or what makes one.")
    try:
        model = named()
    except TypeError as error:
        raise BadInput(f"{words} cannot be made without arguments ({error}); name a function that makes it.") from error
    except (Exception, SystemExit) as error:
        raise BadInput(f"{words} cannot be made ({_error_text(error)}); mend it, or name another.") from error
    if not isinstance(model, nn.Module):
        kind = type(model).__name__
        raise BadInput(f"{words} gives a {kind}, not a torch.nn.Module; name a model, or what makes one.")
    return model


def with_trusted_network(folder: RunFolder, network: str | None, trust_code: bool = False) -> Spec:
    """A run's Spec, with the network that the user has named; code that the run's folder alone names is refused.

    A run folder may come from anywhere: what it names as MODULE:MODEL would be imported, and so run.
    """
    spec = folder.read_spec()
    network_of_run, *others = _named(spec)  # others: of the runs that it builds on
    replaced = network is not None and ":" in network and ":" in network_of_run
    for named in others if replaced else (*others, network_of_run):
        if ":" in named and named != network and not trust_code:
            raise UntrustedCode(
                f"the run in {folder.path} names a model of its own, {named}: importing {named.rpartition(':')[0]} "
                f"would run its code; if you trust it, repeat {option('network', named)}, or say "
                f"{option('trust_code')}."
            )
    if replaced:
        return spec.with_(network={**spec.network, "name": network})
    if network is not None and network != network_of_run:
        named, way_out = network_of_run or "of its data", f"leave {option('network')} out, or repeat it"
        raise BadInput(f"the run in {folder.path} has the network {named}; {way_out}.")
    return spec


def _named(spec: Spec) -> list[str]:
    """The networks of a Spec and of all that it builds on."""
    return [str(spec.network.get("name") or ""), *(name for other in prerequisites(spec) for name in _named(other))]


def check_outputs(model: nn.Module, name: str, shape: tuple[int, ...], classes: int) -> None:
    """Refuse a model that does not take inputs of the shape or does not score so many classes."""
    refused = f"{name} does not take inputs of shape {shape}"
    outputs = _logits(model, torch.zeros(2, *shape), 2, refused, "write it for that shape")
    width = 2 if outputs.ndim == 1 or outputs.shape[1] == 1 else outputs.shape[1]
    if width != classes:
        raise BadInput(f"{name} scores {width} classes and the label has {classes}; give it {classes} outputs.")


def _logits(model: nn.Module, inputs: Any, size: int, refused: str, way_out: str) -> Tensor:
    try:
        with torch.no_grad(), evaluating(model):
            return call(model, inputs, size)
    except (RuntimeError, TypeError, IndexError) as error:
        raise BadInput(f"{refused} ({first_line(error)}); {way_out}.") from error


def example_inputs(model: nn.Module, batch: int, shape: tuple[int, ...] | None, words: str | None) -> Any:
    """Make inputs for so many samples: by a named function of their number, of a shape, or for the first layer."""
    if words is not None:
        return named_object(words)(batch)
    if shape is not None:
        if math.prod((batch, *shape)) > _MOST:
            raise BadInput(f"{batch} inputs of this shape are too large for memory; give a smaller {option('shape')}.")
        return torch.randn(batch, *shape)
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            return torch.randint(0, module.num_embeddings, (batch, 16))
        for kind, sizes in _INPUTS.items():
            if isinstance(module, kind):
                return torch.randn(batch, *sizes(module))
    how = f"{option('shape', '3,32,32')}, or {option('inputs', 'MODULE:FUNCTION')}"
    raise BadInput(f"No layer says what inputs the model takes; give {how}.")


def example_batches(
    model: nn.Module, inputs: Any, exemplar_inputs: Any, size: int, exemplars: int
) -> tuple[Batch, Batch]:
    """Make batches with labels spread over the classes that the model gives."""
    way_out = f"give {option('shape')} or {option('inputs')}"
    logits = _logits(model, inputs, size, "The model does not take these inputs", way_out)
    classes = 2 if logits.ndim == 1 else max(2, logits.shape[1])
    labels = torch.arange(size, device=logits.device) % classes
    held = torch.arange(exemplars, device=logits.device) % classes
    return Batch(inputs, labels, rows=torch.arange(size, device=logits.device)), Batch(exemplar_inputs, held)
