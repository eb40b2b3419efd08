"""fairweight demo."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from fairweight.cli._options import Device, Json, Out, Seed, device_of, print_json


def demo(
    out: Out = Path("runs/demo"),
    seed: Seed = 0,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Runs per row.")] = 5,
    device: Device = "cpu",
    json: Json = False,
    records: Annotated[Path | None, typer.Option("--records", help="Folder to keep a record in.")] = None,
) -> None:
    """Train on digits with 20 % wrong labels: plain training beside FORML, under a minute."""
    from fairweight.apps.demo import NUMBERS
    from fairweight.apps.demo import demo as run_demo
    from fairweight.runs.statistics import Mean

    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    started = time.monotonic()
    if not json:
        tell("Handwritten digits; 20 % of the training labels are set to 2. Learning what each sample is worth ...")
    found = run_demo(out, seeds=seeds, first_seed=seed, device=device_of(device), tell=tell)
    if records is not None:
        from fairweight.paper import records as kept
        from fairweight.runs.provenance import provenance

        numbers = {key: value for key, value in found.to_dict().items() if key not in ("folders", "picture")}
        kept.keep({"kind": "demo", **numbers, **provenance(device_of(device))}, records)
    if json:
        print_json(found.to_dict())
        return

    def cell(mean: Mean) -> str:
        error = "" if mean.n < 2 else f" ± {100 * mean.error:.2f}"
        return f"{100 * mean.value:6.2f}{error}"

    heads = {"tprd": "TPRD ↓", "max_fnr": "maxFNR ↓", "accuracy": "accuracy ↑"}
    print(
        f"\n{'in %, mean ± standard error, ' + str(seeds) + ' seeds':38s}"
        + "".join(f"{heads[n]:>18s}" for n in NUMBERS)
    )
    for name, numbers in found.rows.items():
        print(f"{name:38s}" + "".join(f"{cell(numbers[n]):>18s}" for n in NUMBERS))
    auc = found.auc
    error = "" if auc.n < 2 else f" ± {auc.error:.3f}"
    print(f"\nA low score finds a wrong label: AUC {auc.value:.3f}{error}.")
    print(f"Run folders: {out}{'/' if not str(out).endswith('/') else ''}   Picture: {found.picture}")
    print(f"Done in {time.monotonic() - started:.0f} seconds.")
