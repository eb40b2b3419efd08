"""fairweight refit."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from fairweight.cli._options import Device, Json, device_of, epochs_shown, print_json, show_log, spare_threads
from fairweight.cli._pool import DataDir


def refit(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    out: Annotated[Path | None, typer.Option("--out", help="Folder; default: refit, inside the run's.")] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Where randomness starts; default: the run's.", show_default=False)
    ] = None,
    no_baseline: Annotated[bool, typer.Option("--no-baseline", help="Do not train a plain model beside it.")] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh/--resume", help="Start over where --out holds a run, or go on with it.")
    ] = False,
    device: Device = "auto",
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Train once more with the weights that a run has learned; the exemplars that it held out are trained on too."""
    from fairweight.apps.refit import prepare_refit
    from fairweight.apps.train import check_folder
    from fairweight.apps.train import train as run_train
    from fairweight.cli import _train_text as text
    from fairweight.runs.folder import METRICS, RunFolder

    started = time.monotonic()
    where_to = device_of(device)
    prepared, folder = prepare_refit(run, out, seed=seed, device=where_to, data_dir=data_dir)
    before = RunFolder(run).read(METRICS)
    check_folder(folder, prepared.spec, prepared.dataset, fresh=fresh)
    spare_threads(prepared.parameters, where_to)
    show_log()
    if not json:
        print(text.opening(prepared, where_to), file=sys.stderr, flush=True)
    done = run_train(prepared, folder, device=where_to, baseline=not no_baseline, watching=epochs_shown(json))
    if json:
        print_json(done.to_dict())
        return
    print(text.closing(done, time.monotonic() - started))
    gap = "–" if before["tprd"] is None else f"{100 * before['tprd']:.2f}"
    print(f"The run whose weights these are, {run}: TPRD {gap}, accuracy {100 * before['accuracy']:.2f} points.")
