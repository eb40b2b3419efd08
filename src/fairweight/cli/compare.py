"""fairweight compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fairweight.cli._options import Device, Json, Out, Seed, device_of, print_json
from fairweight.cli._pool import DataDir, Download, Engine, Jobs, engine_of, quiet
from fairweight.errors import MissingGroups, RunsFailed


def compare(
    source: Annotated[str, typer.Argument(help="A named set, a file, a glob or a folder of images.")],
    label: Annotated[str | None, typer.Option("--label", help="The column to predict.")] = None,
    group: Annotated[str | None, typer.Option("--group", help="The sensitive column, or several: sex,race.")] = None,
    methods: Annotated[str, typer.Option("--methods", help="A,B,... or all; uniform is always among them.")] = "all",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Runs per method.")] = 5,
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="The same for every method.")] = None,
    batch_size: Annotated[int | None, typer.Option("--batch-size", min=1, help="Rows in a batch.")] = None,
    lr: Annotated[float | None, typer.Option("--lr", help="Learning rate.")] = None,
    per_cell: Annotated[
        int | None, typer.Option("--per-cell", min=1, help="Exemplars of each cell in a batch.")
    ] = None,
    select: Annotated[
        str, typer.Option("--select", help="Validation number whose best epoch counts, or last.")
    ] = "accuracy",
    split_seed: Annotated[
        int | None, typer.Option("--split-seed", help="One split for all seeds; otherwise each seed has its own.")
    ] = None,
    corrupt: Annotated[
        list[str] | None, typer.Option("--corrupt", help="Such as one-class:label=2,fraction=0.2; may be repeated.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many rows of each part.")] = None,
    records: Annotated[Path | None, typer.Option("--records", help="Folder to keep a record in.")] = None,
    out: Out = Path("runs/compare"),
    seed: Seed = 0,
    engine: Engine = "processes",
    jobs: Jobs = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    download: Download = False,
    json: Json = False,
) -> None:
    """Train several methods under one protocol: one table, a paired test against uniform, and what each costs."""
    from fairweight.cli._progress import RunsProgress
    from fairweight.experiments import records as kept
    from fairweight.experiments._compare_text import text_of
    from fairweight.experiments.compare import Protocol, prepare
    from fairweight.experiments.compare import compare as run_methods

    quiet()
    asked = {"epochs": epochs, "batch_size": batch_size, "lr": lr, "per_cell": per_cell}
    data: dict[str, Any] = {"corruptions": corrupt} if corrupt else {}
    if limit is not None:
        data["limit"] = limit
    protocol = Protocol(
        source,
        label,
        group,
        data,
        {key: value for key, value in asked.items() if value is not None},
        select,
        split_seed,
    )
    names = None if methods.strip() == "all" else [name.strip() for name in methods.split(",") if name.strip()]
    where = device_of(device)
    prepared = prepare(protocol, names, first_seed=seed, device=where, data_dir=data_dir, download=download)
    if names is not None and prepared.left_out:  # asked for by name; "all" takes what there is
        method, reason = next(iter(prepared.left_out.items()))
        raise MissingGroups(f"{method} cannot be compared: {reason}")
    record = run_methods(
        prepared,
        out,
        seeds=seeds,
        first_seed=seed,
        engine=engine_of(engine),
        jobs=jobs,
        device=where,
        data_dir=data_dir,
        download=download,
        watcher=RunsProgress(prepared.run_names(seeds, seed)),
    )
    path = None if records is None else kept.keep(record, records)
    if json:
        print_json(record)
    else:
        print(text_of(record))
        if path is not None:
            print(f"\nRecord: {path}")
    failed = {f"{row['key']}, seed {s}": why for row in record["rows"] for s, why in row["failed"].items()}
    if failed:
        first, why = next(iter(failed.items()))
        raise RunsFailed(f"{len(failed)} of the runs failed, first {first}: {why} The same command tries them again.")
