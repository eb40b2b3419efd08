"""fairweight weights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fairweight.cli import _options as opt
from fairweight.cli._flags import DATA_FLAGS, OUTPUT, SEARCH_FLAGS, options_given, takes


@takes([*DATA_FLAGS, *SEARCH_FLAGS])
def weights(
    source: opt.Source,
    label: opt.Label = None,
    group: opt.Group = None,
    data_dir: opt.DataDir = None,
    download: opt.Download = False,
    seed: opt.Seed = 0,
    device: opt.Device = "auto",
    out: Annotated[Path, opt.flag("File to write, parquet or CSV.", panel=OUTPUT)] = Path("weights.parquet"),
    json: opt.Json = False,
    **given: Any,
) -> None:
    """Learn a weight for every row of a table and stop: for any trainer that takes sample weights."""
    data, search = options_given(DATA_FLAGS, given), options_given(SEARCH_FLAGS, given)

    from fairweight.apps import train as app
    from fairweight.apps.weights import weights as learn

    where = opt.device_of(device)
    request = app.TrainRequest(source, label, group, None, seed, data, **search)
    prepared = app.prepare(request, device=where, data_dir=data_dir, download=download)
    found = learn(prepared, out, device=where, tell=None if json else opt.candidate_shown)
    opt.show(found.to_dict(), found.text(), json)
