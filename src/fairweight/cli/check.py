"""fairweight check."""

from __future__ import annotations

from typing import Annotated

import typer

from fairweight.cli._options import Device, Json, Seed, device_of, print_json, spare_threads
from fairweight.errors import BadInput


def check(
    model: Annotated[str, typer.Argument(metavar="MODULE:MODEL", help="A model, or what makes one without arguments.")],
    shape: Annotated[str, typer.Option("--input", help="Shape of one input, such as 3,32,32.")] = "",
    inputs: Annotated[str, typer.Option("--inputs", help="MODULE:FUNCTION that makes inputs for a batch size.")] = "",
    batch: Annotated[int, typer.Option("--batch", min=2, help="Training samples in a step.")] = 32,
    exemplars: Annotated[int, typer.Option("--exemplars", min=2, help="Exemplars in a step.")] = 16,
    seed: Seed = 0,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Test the score gradient on your own model: is it exact, which mode is used, what does a step cost?"""
    import torch

    from fairweight.apps.check import BOUND
    from fairweight.apps.check import check as run_check
    from fairweight.runs.own_model import example_batches, example_inputs, model_from
    from fairweight.types import map_tensors

    torch.manual_seed(seed)
    where = device_of(device)
    net = model_from(model).to(where)
    spare_threads(sum(p.numel() for p in net.parameters()), where)
    size = _shape(shape)

    def made(count: int) -> object:
        return map_tensors(example_inputs(net, count, size, inputs or None), lambda t: t.to(where))

    train, held = example_batches(net, made(batch), made(exemplars), batch, exemplars)
    found = run_check(net, train, held)
    if json:
        print_json(found.to_dict())
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


def _shape(words: str) -> tuple[int, ...] | None:
    if not words:
        return None
    try:
        found = tuple(int(part) for part in words.replace("x", ",").split(","))
    except ValueError:
        found = (0,)
    if min(found) < 1:
        raise BadInput(f"--input {words}: give whole numbers from 1, such as 3,32,32.")
    return found


def _verdict(error: float, bound: float) -> str:
    word = "equal to" if error <= bound else "DIFFERS from"
    return f"{word} double backward in float64: relative error {error:.1e}, bound {bound:.0e}"
