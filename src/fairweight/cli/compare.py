"""fairweight compare."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from fairweight.cli import _options as opt
from fairweight.cli._flags import DATA_FLAGS, FAIRNESS, GOAL_FLAGS, TRAINING, TRAINING_FLAGS, options_given, takes
from fairweight.cli._parse import listed
from fairweight.errors import BadInput, MissingGroups

_FROM_1 = ("limit", "epochs", "batch_size", "per_cell")
_DATA, _TRAINING = (
    [replace(entry, minimum=1) if entry.option in _FROM_1 else entry for entry in entries if entry.compare]
    for entries in (DATA_FLAGS, TRAINING_FLAGS)
)


@takes([*_DATA, *GOAL_FLAGS, *_TRAINING])
def compare(
    source: opt.Source,
    label: opt.Label = None,
    group: opt.Group = None,
    data_dir: opt.DataDir = None,
    download: opt.Download = False,
    methods: Annotated[str, opt.flag("Methods, A,B,... or all; uniform is always among them.", panel=FAIRNESS)] = "all",
    seeds: Annotated[int, opt.flag("Runs per method.", panel=TRAINING, at_least=1)] = 5,
    seed: opt.Seed = 0,
    split_seed: Annotated[
        int | None, opt.flag("Seed of one split for all; default: a split per run.", panel=TRAINING)
    ] = None,
    select: Annotated[str, opt.flag("Metric on validation that chooses the epoch, or last.", panel=TRAINING)] = "loss",
    engine: opt.Engine = "processes",
    jobs: opt.Jobs = None,
    device: opt.Device = "auto",
    out: opt.Out = Path("runs/compare"),
    records: opt.Records = None,
    json: opt.Json = False,
    **given: Any,
) -> None:
    """Train several methods under one protocol: one table, a paired test against uniform, and what each costs."""
    names = None if methods.strip() == "all" else listed(methods)
    if names == []:
        raise BadInput("--methods names none; give some with commas between them, or all.")

    from fairweight.apps import compare as app
    from fairweight.cli._progress import RunsProgress
    from fairweight.paper import records as kept
    from fairweight.runs.run_place import check_place

    opt.quiet()
    if records is not None:
        check_place(records, "records")  # now, and not after hours of training
    data, training, goal = (options_given(entries, given) for entries in (_DATA, _TRAINING, GOAL_FLAGS))
    protocol = app.Protocol(
        source, label, group, data=data, training=training, select=select, split_seed=split_seed, **goal
    )
    place: dict[str, Any] = {"device": opt.device_of(device), "data_dir": data_dir, "download": download}
    prepared = app.prepare(protocol, names, first_seed=seed, **place)
    if names is not None and prepared.left_out:  # asked for by name; "all" takes what there is
        method, reason = next(iter(prepared.left_out.items()))
        raise MissingGroups(f"{method} cannot be compared: {reason}")
    watcher = RunsProgress(prepared.run_names(seeds, seed))
    place |= {"engine": engine, "jobs": jobs, "watcher": watcher}
    record = app.compare(prepared, out, seeds=seeds, first_seed=seed, **place)
    written = {"Page": app.write_page(record, out), "Record": None if records is None else kept.keep(record, records)}
    where = [f"\n\n{title}: {path}" for title, path in written.items() if path is not None]
    opt.show(record, app.text_of(record) + "".join(where), json)
    opt.refuse_failed(record)
