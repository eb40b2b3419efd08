"""fairweight refit."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from fairweight.cli import _options as opt


def refit(
    run: opt.Run,
    out: Annotated[Path | None, opt.flag("Output folder; default: refit, inside the run's.")] = None,
    seed: Annotated[int | None, opt.flag("Random seed; default: the run's.")] = None,
    no_baseline: opt.NoBaseline = False,
    fresh: opt.Fresh = False,
    device: opt.Device = "auto",
    data_dir: opt.DataDir = None,
    network: opt.Network = None,
    trust_code: opt.TrustCode = False,
    json: opt.Json = False,
) -> None:
    """Train once more with the weights that a run has learned; the exemplars that it held out are trained on too."""
    from fairweight.apps import _train_text as text
    from fairweight.apps.refit import prepare_refit
    from fairweight.apps.train import train as run_train
    from fairweight.cli import in_flags
    from fairweight.runs.folder import METRICS, RunFolder

    started, device = time.monotonic(), opt.device_of(device)
    opt.introduce(run, source=True)
    prepared, folder = prepare_refit(
        run, out, seed=seed, device=device, data_dir=data_dir, network=network, trust_code=trust_code
    )
    before = RunFolder(run).read(METRICS)
    opt.hold(folder)
    opt.begin(prepared, folder, device, json, fresh=fresh)
    result = run_train(prepared, folder, device=device, baseline=not no_baseline, watching=opt.epochs_shown(json))
    gap = "–" if before["tprd"] is None else f"{100 * before['tprd']:.2f}"
    source_run = f"Before the refit, {run}: TPRD {gap}, accuracy {100 * before['accuracy']:.2f} points."
    opt.show(result.to_dict(), f"{text.closing(result, time.monotonic() - started, in_flags)}\n{source_run}", json)
