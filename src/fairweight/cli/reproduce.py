"""fairweight reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fairweight.cli import _options as opt
from fairweight.cli._parse import listed, pairs
from fairweight.errors import BadInput


def reproduce(
    table: Annotated[str, typer.Argument(help="A table; `fairweight list tables` names them.")] = "",
    seeds: Annotated[int | None, opt.flag("Runs per row; default: the size's own.", at_least=1)] = None,
    quick: Annotated[bool, opt.flag("Small size: every code path, minutes on two cores.", "--quick")] = False,
    short: Annotated[bool, opt.flag("Shortened schedule, for one GPU.", "--short")] = False,
    rows: Annotated[str, opt.flag("Only these rows, A,B,...; all: the extra ones too.")] = "",
    option: Annotated[list[str] | None, opt.flag("Choice that the paper leaves open, NAME=VALUE; repeatable.")] = None,
    epochs: Annotated[int | None, opt.flag("Epochs; default: the size's own.", at_least=1)] = None,
    plan: Annotated[bool, opt.flag("Print what would be run, and stop.", "--plan")] = False,
    status: Annotated[bool, opt.flag("Print what became of each table in --records, and stop.", "--status")] = False,
    records: Annotated[Path, opt.flag("Folder to keep the record in.")] = Path("records"),
    out: opt.Out = Path("runs/reproduce"),
    seed: opt.Seed = 0,
    engine: opt.Engine = "processes",
    jobs: opt.Jobs = None,
    device: opt.Device = "auto",
    data_dir: opt.DataDir = None,
    download: opt.Download = False,
    json: opt.Json = False,
) -> None:
    """Run a table of the paper over seeds: ours beside the printed numbers, with a verdict. It resumes."""
    if status:
        from fairweight.paper.records import grouped, read_all
        from fairweight.paper.status import WIDTH, standings, status_text

        states = standings(grouped(read_all(records)))
        text = status_text(states, opt.columns(WIDTH))
        if not records.is_dir():
            text += f"\n\nThere is no folder {records} here; --records names the one that your records lie in."
        opt.show({"tables": [vars(state) for state in states]}, text, json)
        return
    if not table:
        raise BadInput("name a table, one of `fairweight list tables`; --status says what became of each.")
    if quick and short:
        raise BadInput("--quick and --short are two sizes; give one of them, or neither for the paper's own.")
    size = "quick" if quick else "short" if short else "paper"
    names = listed(rows) or None
    options = dict(pairs(option or [], "--option", "NAME=VALUE; --plan names the options of a table"))

    from fairweight.cli._progress import RunsProgress
    from fairweight.paper import records as kept
    from fairweight.paper._table_text import text_of
    from fairweight.paper.plan import planned
    from fairweight.paper.reproduce import reproduce as run_table

    table_plan = planned(table, size=size, seeds=seeds, first_seed=seed, rows=names, options=options, epochs=epochs)
    if plan:
        opt.show(table_plan.to_dict(), table_plan.text(), json)
        return
    opt.quiet()
    place: dict[str, Any] = {"device": opt.device_of(device), "data_dir": data_dir, "download": download}
    place |= {"engine": engine, "jobs": jobs, "watcher": RunsProgress(table_plan.run_names())}
    record = run_table(table_plan, out, keep=lambda so_far: kept.keep(so_far, records), **place)
    path = kept.keep(record, records)
    opt.show(record, f"{text_of(record)}\n\nRecord: {path}   Run folders: {Path(out) / 'runs'}", json)
    opt.refuse_failed(record)
