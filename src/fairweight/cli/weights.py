"""fairweight weights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fairweight.cli import _options as opt
from fairweight.cli._flags import DATA_FLAGS, OUTPUT, options_said, takes
from fairweight.cli._parse import duration, listed


@takes(DATA_FLAGS)
def weights(
    source: opt.Source,
    label: opt.Label = None,
    group: opt.Group = None,
    data_dir: opt.DataDir = None,
    download: opt.Download = False,
    criterion: opt.Criterion = None,
    bound: opt.Bound = None,
    budget: opt.Budget = None,
    each: opt.Each = False,
    learner: opt.Learner = None,
    candidates: opt.Candidates = None,
    seconds: opt.Time = None,
    seeds: opt.Seeds = 1,
    seed: opt.Seed = 0,
    device: opt.Device = "auto",
    out: Annotated[Path, opt.flag("File to write, parquet or CSV.", panel=OUTPUT)] = Path("weights.parquet"),
    json: opt.Json = False,
    **said: Any,
) -> None:
    """Learn a weight for every row of a table and stop: for any trainer that takes sample weights."""
    data = options_said(DATA_FLAGS, said)

    from fairweight.apps import train as app
    from fairweight.apps.weights import weights as learn

    where = opt.device_of(device)
    wanted = app.Wanted(
        source,
        label,
        group,
        None,
        seed,
        data,
        criterion=criterion,
        bound=bound,
        budget=budget,
        learner=learner,
        candidates=None if candidates is None else tuple(listed(candidates)),
        seconds=None if seconds is None else duration(seconds, "--time"),
        seeds=seeds,
        each=each,
    )
    prepared = app.prepare(wanted, device=where, data_dir=data_dir, download=download)
    found = learn(prepared, out, device=where, tell=None if json else opt.candidate_shown)
    if json:
        opt.print_json(found.to_dict())
    else:
        print(found.text())
