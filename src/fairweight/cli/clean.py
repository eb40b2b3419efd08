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
    """Train again with wrong labels mended, weighted down or dropped: what that does to accuracy and gap."""
    from fairweight.apps.clean import clean as clean_run
    from fairweight.apps.condense import Trainings
    from fairweight.cli._progress import RunsProgress

    opt.quiet()
    trainings = Trainings(seeds, seed, jobs, opt.device_of(device), data_dir, RunsProgress)
    found = clean_run(run, out, trust=trust, trainings=trainings)
    if json:
        opt.print_json(found.to_dict())
    else:
        print(found.text())
