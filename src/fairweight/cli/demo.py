"""fairweight demo."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from fairweight.cli import _options as opt


def demo(
    out: opt.Out = Path("runs/demo"),
    seed: opt.Seed = 0,
    seeds: Annotated[int, opt.flag("Runs per row.", at_least=1)] = 5,
    device: opt.Device = "cpu",
    json: opt.Json = False,
    records: opt.Records = None,
) -> None:
    """Train on digits with 20 % wrong labels: plain training, plain uses of exemplars, and FORML, in a minute."""
    from fairweight.apps.demo import demo as run_demo
    from fairweight.apps.demo import text_of

    started, where = time.monotonic(), opt.device_of(device)
    if not json:
        opt.tell("Handwritten digits; 20 % of the training labels are set to 2. Learning what each sample is worth ...")
    values = run_demo(out, seeds=seeds, first_seed=seed, device=where, tell=opt.tell)
    if records is not None:
        from fairweight.paper import records as kept
        from fairweight.runs.provenance import provenance

        numbers = {key: value for key, value in values.items() if key not in ("folders", "picture")}
        kept.keep({"kind": "demo", **numbers, **provenance(where)}, records)
    files = f"Run folders: {str(out).rstrip('/')}/   Picture: {values['picture']}"
    took = f"Done in {time.monotonic() - started:.0f} seconds."
    opt.show(values, f"\n{text_of(values)}\n{files}\n{took}", json)
