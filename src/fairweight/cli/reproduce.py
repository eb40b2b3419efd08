"""fairweight reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairweight.cli._options import Device, Json, Out, Seed, device_of, print_json
from fairweight.cli._pool import DataDir, Download, Engine, Jobs, engine_of, quiet
from fairweight.errors import BadInput, RunsFailed


def reproduce(
    table: Annotated[str, typer.Argument(help="A table; `fairweight list tables` names them.")],
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, help="Runs per row; the size's own if not given.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Minutes on two cores: the code path, small.")] = False,
    short: Annotated[bool, typer.Option("--short", help="A shortened schedule on one GPU.")] = False,
    rows: Annotated[str, typer.Option("--rows", help="Only these rows, A,B,...; all: the extra ones too.")] = "",
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="What the paper leaves open.")
    ] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="In place of the size's own.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be run, and stop.")] = False,
    records: Annotated[Path, typer.Option("--records", help="Folder that the record is kept in.")] = Path("records"),
    out: Out = Path("runs/reproduce"),
    seed: Seed = 0,
    engine: Engine = "processes",
    jobs: Jobs = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    download: Download = False,
    json: Json = False,
) -> None:
    """Run a table of the paper over seeds: ours beside the printed numbers, with a verdict. It resumes."""
    if quick and short:
        raise BadInput("--quick and --short are two sizes; give one of them, or neither for the paper's own.")
    size = "quick" if quick else "short" if short else "paper"
    names = [name.strip() for name in rows.split(",") if name.strip()] or None
    options = _pairs(option or [])

    from fairweight.cli._progress import RunsProgress
    from fairweight.paper import records as kept
    from fairweight.paper._table_text import text_of
    from fairweight.paper.reproduce import planned
    from fairweight.paper.reproduce import reproduce as run_table

    what = planned(table, size=size, seeds=seeds, first_seed=seed, rows=names, options=options, epochs=epochs)
    if plan:
        print_json(what.to_dict()) if json else print(what.text())
        return
    quiet()
    record = run_table(
        what,
        out,
        engine=engine_of(engine),
        jobs=jobs,
        device=device_of(device),
        data_dir=data_dir,
        download=download,
        watcher=RunsProgress(what.run_names()),
        keep=lambda so_far: kept.keep(so_far, records),
    )
    path = kept.keep(record, records)
    if json:
        print_json(record)
    else:
        print(text_of(record))
        print(f"\nRecord: {path}   Run folders: {Path(out) / 'runs'}")
    failed = {f"{row['key']}, seed {s}": why for row in record["rows"] for s, why in row["failed"].items()}
    if failed:
        first, why = next(iter(failed.items()))
        raise RunsFailed(f"{len(failed)} of the runs failed, first {first}: {why} The same command tries them again.")


def _pairs(entries: list[str]) -> dict[str, str]:
    pairs = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals or not name or not value:
            raise BadInput(f"--option {entry}: write NAME=VALUE; --plan names the options of a table.")
        pairs[name.strip()] = value.strip()
    return pairs
