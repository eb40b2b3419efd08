"""fairweight clean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fairweight.cli import _options as opt


def clean(
    run: opt.Run,
    out: Annotated[Path | None, opt.flag("Output folder; default: clean, inside the run's.")] = None,
    trust: opt.Trust = None,
    seeds: Annotated[int, opt.flag("Trainings of each set.", at_least=1)] = 5,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
    device: opt.Device = "cpu",
    data_dir: opt.DataDir = None,
    json: opt.Json = False,
) -> None:
    """Train again with wrong labels corrected or dropped: say what that does to accuracy and gap."""
    from fairweight.apps.clean import clean as clean_run

    opt.quiet()
    cleaned = clean_run(run, out, trust=trust, trainings=opt.trainings(seeds, seed, jobs, device, data_dir))
    opt.show(cleaned.to_dict(), cleaned.text(), json)
