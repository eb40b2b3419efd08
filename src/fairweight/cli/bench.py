"""fairweight bench."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fairweight.cli._options import Device, Json, Out, Seed, device_of, print_json


def bench(
    model: Annotated[str, typer.Option("--model", metavar="MODULE:MODEL", help="Your own model.")] = "",
    shape: Annotated[str, typer.Option("--input", help="Shape of one input, such as 3,32,32.")] = "",
    inputs: Annotated[str, typer.Option("--inputs", help="MODULE:FUNCTION that makes inputs for a batch size.")] = "",
    batch: Annotated[int, typer.Option("--batch", min=2, help="Training samples in a step.")] = 128,
    exemplars: Annotated[int, typer.Option("--exemplars", min=2, help="Exemplars in a step.")] = 30,
    width: Annotated[int, typer.Option("--width", min=1, help="Of the built-in ResNet-18; 64 is the usual one.")] = 64,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Timed steps of each way.")] = 15,
    bf16: Annotated[bool, typer.Option("--bf16", help="Autocast to bfloat16.")] = False,
    growth: Annotated[bool, typer.Option("--growth", help="Time against the number of scores and the batch.")] = False,
    out: Out = Path("runs/bench"),
    seed: Seed = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Time a step on this machine: plain training, FORML in each of its ways, double backward."""
    import torch

    from fairweight.apps import bench as measuring
    from fairweight.cli.check import _shape
    from fairweight.models.resnet import ResNet18
    from fairweight.runs.build import laid_out
    from fairweight.runs.folder import RunFolder
    from fairweight.runs.own_model import example_batches, example_inputs, model_from
    from fairweight.runs.provenance import provenance
    from fairweight.types import map_tensors

    where = device_of(device)
    torch.manual_seed(seed)
    folder = RunFolder(out)
    if growth:
        folder.make()
        from fairweight.apps.growth import draw
        from fairweight.apps.growth import growth as measure_growth

        found = measure_growth(where)
        picture = draw(found, out / "growth.png")
        folder.write("growth.json", {"kind": "growth", **found, **provenance(where)})
        if json:
            print_json({**found, "picture": str(picture)})
            return
        for row in found["samples"]:
            print(f"{row['samples']:>12,} scores  batch {row['batch']:4d}  {row['median_ms']:8.2f} ms")
        for row in found["batch"]:
            print(f"{row['samples']:>12,} scores  batch {row['batch']:4d}  {row['median_ms']:8.2f} ms")
        print(f"Picture: {picture}")
        return
    net = laid_out(model_from(model) if model else ResNet18(10, width=width), where)
    size = _shape(shape)

    def made(count: int) -> object:
        return map_tensors(example_inputs(net, count, size, inputs or None), lambda t: t.to(where))

    train, held = example_batches(net, made(batch), made(exemplars), batch, exemplars)
    folder.make()  # before minutes of measuring, and after a model that is not there
    if not json:
        name = model or f"ResNet-18, {width} wide"
        print(f"{name}: {batch} training samples and {exemplars} exemplars a step, on {where}.", file=sys.stderr)

    def tell(timing: measuring.Timing) -> None:
        took = "refused" if timing.median_ms is None else f"{timing.median_ms:.1f} ms"
        print(f"  {timing.name}, {timing.regime}: {took}", file=sys.stderr, flush=True)

    results = measuring.bench(net, train, held, repeats=repeats, bf16=bf16, tell=tell)
    record = {
        "kind": "bench",
        "model": model or f"ResNet18(width={width})",
        "batch": batch,
        "exemplars": exemplars,
        "bf16": bf16,
        "results": [r.to_dict() for r in results],
        **provenance(where),
    }
    folder.write("bench.json", record)
    if json:
        print_json(record)
    else:
        print(measuring.text(results))
        print(f"Record: {out / 'bench.json'}")
