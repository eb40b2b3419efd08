"""fairweight check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fairweight.cli import _options as opt
from fairweight.cli._parse import whole_numbers

if TYPE_CHECKING:
    from torch import nn

    from fairweight.types import Batch

Shape = Annotated[str, opt.flag("Shape of one input, such as 3,32,32.", "--input")]
Inputs = Annotated[str, opt.flag("MODULE:FUNCTION that makes inputs for a batch size.")]


def check(
    model: Annotated[str, typer.Argument(metavar="MODULE:MODEL", help="A model, or what makes one without arguments.")],
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

    from fairweight.apps.check import BOUND
    from fairweight.apps.check import check as run_check
    from fairweight.runs.own_model import model_from

    torch.manual_seed(seed)
    where = opt.device_of(device)
    net = model_from(model).to(where)
    opt.spare_threads(sum(p.numel() for p in net.parameters()), where)
    train, held = batches_for(net, shape, inputs, (batch, exemplars), where)
    found = run_check(net, train, held)
    if json:
        opt.print_json(found.to_dict())
    else:
        print(
            f"{model}: {found.parameters:,} parameters, {batch} training samples and {exemplars} exemplars on {where}."
        )
        print(f"Gradient mode: {found.mode}; {found.reason}.")
        for name, error in found.errors.items():
            verdict = "does not work on this model" if error is None else _verdict(error, BOUND[name])
            print(f"  {name:12s} {verdict}")
        for name, kept in found.untouched.items():
            print(f"  {name:20s} {'left as it was' if kept else 'CHANGED by the gradient'}")
        ratio = found.step_ms / found.plain_ms
        print(
            f"A step takes {found.step_ms:.2f} ms, {ratio:.1f} times a plain step of {found.plain_ms:.2f} ms (medians)."
        )
        print("Passed." if found.passed else "Failed: use gradient='double-backward' and report the model.")
    if not found.passed:
        raise typer.Exit(1)


def batches_for(net: nn.Module, shape: str, inputs: str, sizes: tuple[int, int], where: str) -> tuple[Batch, Batch]:
    """A training batch and an exemplar batch of these sizes that the model takes."""
    from fairweight.runs.own_model import example_batches, example_inputs
    from fairweight.types import map_tensors

    one = tuple(whole_numbers(shape, "--input")) if shape else None
    train, held = (map_tensors(example_inputs(net, size, one, inputs or None), lambda t: t.to(where)) for size in sizes)
    return example_batches(net, train, held, *sizes)


def _verdict(error: float, bound: float) -> str:
    word = "equal to" if error <= bound else "DIFFERS from"
    return f"{word} double backward in float64: relative error {error:.1e}, bound {bound:.0e}"
