"""fairweight bench."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from fairweight.cli import _options as opt
from fairweight.cli.check import Inputs, Shape, batches_for


def bench(
    model: Annotated[str, opt.flag("Your own model, MODULE:MODEL.")] = "",
    shape: Shape = "",
    inputs: Inputs = "",
    batch: Annotated[int, opt.flag("Training samples in a step.", at_least=2)] = 128,
    exemplars: Annotated[int, opt.flag("Exemplars in a step.", at_least=2)] = 30,
    width: Annotated[int, opt.flag("Width of the built-in ResNet-18; 0: 64, and 16 on a CPU.", at_least=0)] = 0,
    repeats: Annotated[int, opt.flag("Timed steps of each mode.", at_least=1)] = 15,
    bf16: Annotated[bool, opt.flag("Autocast to bfloat16.", "--bf16")] = False,
    seconds: Annotated[float, opt.flag("Time for the whole command; if it is short, fewer steps are timed.")] = 110.0,
    out: opt.Out = Path("runs/bench"),
    seed: opt.Seed = 0,
    device: opt.Device = "auto",
    json: opt.Json = False,
) -> None:
    """Time a step on this machine: plain training, FORML in each mode, double backward."""
    import torch

    from fairweight.apps import bench as app
    from fairweight.models.resnet import ResNet18
    from fairweight.runs.build import laid_out
    from fairweight.runs.folder import RunFolder
    from fairweight.runs.own_model import model_from
    from fairweight.runs.provenance import provenance

    device = opt.device_of(device)
    width = width or (16 if device == "cpu" else 64)
    torch.manual_seed(seed)
    net = laid_out(model_from(model) if model else ResNet18(10, width=width), device)
    train, exemplar = batches_for(net, shape, inputs, (batch, exemplars), device)
    folder = RunFolder(out)
    folder.make()  # before minutes of measuring, and after a model that is not there
    tell = (lambda _: None) if json else opt.tell
    name = model or f"ResNet-18, {width} wide"
    tell(f"{name}: {batch} training samples and {exemplars} exemplars a step, on {device}.")

    def show_timing(timing: app.Timing) -> None:
        took = "refused" if timing.median_ms is None else f"{timing.median_ms:.1f} ms"
        opt.tell(f"  {timing.name}, {timing.regime}: {took}")

    limit = seconds if device == "cpu" else math.inf  # on a GPU most of the time is compiling, which is done once
    advice = f"to end in about {seconds:.0f} seconds; --seconds gives it longer."
    if device == "cpu":
        train, exemplar = app.shortened(net, train, exemplar, limit)
    if len(train) < batch:
        tell(f"Shortened to {len(train)} training samples and {len(exemplar)} exemplars a step, {advice}")
    results = app.bench(net, train, exemplar, repeats=repeats, bf16=bf16, seconds=limit, tell=show_timing)
    cut = [r for r in results if r.median_ms is not None and r.n < repeats]
    if cut or any(r.refusal and r.refusal.startswith("left out") for r in results):
        tell(f"{len(cut)} ways were timed on fewer than {repeats} steps {advice}")
    record = {
        "kind": "bench",
        "model": model or f"ResNet18(width={width})",
        "batch": len(train),
        "exemplars": len(exemplar),
        "bf16": bf16,
        "results": [asdict(r) for r in results],
        **provenance(device),
    }
    folder.write("bench.json", record)
    opt.show(record, f"{app.text(results)}\nRecord: {out / 'bench.json'}", json)
