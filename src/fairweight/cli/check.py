"""fairweight check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fairweight.cli import _options as opt
from fairweight.cli._parse import whole_numbers
from fairweight.errors import BadInput

if TYPE_CHECKING:
    from torch import nn

    from fairweight.types import Batch

Shape = Annotated[str, opt.flag("Shape of one input, such as 3,32,32.", "--input")]
Inputs = Annotated[str, opt.flag("MODULE:FUNCTION that makes inputs for a batch size.")]


def check(
    model: Annotated[str, typer.Argument(metavar="MODULE:MODEL", help="A model, or a function that makes one.")],
    shape: Shape = "",
    inputs: Inputs = "",
    batch: Annotated[int, opt.flag("Training samples in a step.", at_least=2)] = 32,
    exemplars: Annotated[int, opt.flag("Exemplars in a step.", at_least=2)] = 16,
    seed: opt.Seed = 0,
    device: opt.Device = "cpu",
    json: opt.Json = False,
) -> None:
    """Test the score gradient on your own model: is it exact, which mode is used, what does a step cost?"""
    import torch

    from fairweight.apps.check import check as run_check
    from fairweight.runs.own_model import model_from

    if not -(2**63) <= seed < 2**63:
        raise BadInput(f"--seed {seed}; give a whole number below 2 ** 63.")
    torch.manual_seed(seed)
    where = opt.device_of(device)
    net = model_from(model).to(where)
    opt.spare_threads(sum(p.numel() for p in net.parameters()), where)
    result = run_check(net, *batches_for(net, shape, inputs, (batch, exemplars), where))
    size = f"{result.parameters:,} parameters, {batch} training samples and {exemplars} exemplars"
    opt.show(result.to_dict(), f"{model}: {size} on {where}.\n{result.text()}", json)
    if not result.passed:
        raise typer.Exit(1)


def batches_for(net: nn.Module, shape: str, inputs: str, sizes: tuple[int, int], where: str) -> tuple[Batch, Batch]:
    """A training batch and an exemplar batch of these sizes that the model takes."""
    from fairweight.runs.own_model import example_batches, example_inputs
    from fairweight.types import map_tensors

    one = tuple(whole_numbers(shape, "--input")) if shape else None
    train, held = (map_tensors(example_inputs(net, size, one, inputs or None), lambda t: t.to(where)) for size in sizes)
    if not any(p.requires_grad for p in net.parameters()):
        raise BadInput("The model has no parameters to train; name one that has.")
    return example_batches(net, train, held, *sizes)
