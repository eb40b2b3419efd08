"""fairweight compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fairweight.cli._options import Device, Json, Out, Seed, device_of, print_json
from fairweight.cli._pool import DataDir, Download, Engine, Jobs, engine_of, quiet
from fairweight.cli._words import delimiter_of, given, listed, share_or_file
from fairweight.errors import BadInput, MissingGroups, RunsFailed


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
    positive: Annotated[
        str | None, typer.Option("--positive", help="Of two labels, the one that counts; from here on as in train.")
    ] = None,
    max_classes: Annotated[
        int | None, typer.Option("--max-classes", help="More labels than so many are refused.")
    ] = None,
    missing_labels: Annotated[str | None, typer.Option("--missing-labels", help="refuse or drop rows without.")] = None,
    missing_groups: Annotated[
        str | None, typer.Option("--missing-groups", help="unknown, group, drop or refuse.")
    ] = None,
    small_groups: Annotated[str | None, typer.Option("--small-groups", help="refuse, merge, drop or keep.")] = None,
    floor: Annotated[int | None, typer.Option("--floor", help="Rows of each label that a group must have.")] = None,
    drop: Annotated[str | None, typer.Option("--drop", help="Columns to keep out of the inputs.")] = None,
    keep: Annotated[str | None, typer.Option("--keep", help="Columns that only look like ids.")] = None,
    delimiter: Annotated[str | None, typer.Option("--delimiter", help="Of a text file.")] = None,
    encoding: Annotated[str | None, typer.Option("--encoding", help="Of a text file.")] = None,
    image_size: Annotated[int | None, typer.Option("--image-size", help="Pixels a side.")] = None,
    channels: Annotated[int | None, typer.Option("--channels", help="1 or 3.")] = None,
    file_column: Annotated[str | None, typer.Option("--file-column", help="Column that names image files.")] = None,
    unreadable: Annotated[str | None, typer.Option("--unreadable", help="refuse or drop images.")] = None,
    test: Annotated[str | None, typer.Option("--test", help="A share or a file.")] = None,
    validation: Annotated[str | None, typer.Option("--validation", help="A share or a file.")] = None,
    split_column: Annotated[
        str | None, typer.Option("--split-column", help="Column that says which row is what.")
    ] = None,
    exemplars: Annotated[str | None, typer.Option("--exemplars", help="train, validation or a file.")] = None,
    exemplar_size: Annotated[int | None, typer.Option("--exemplar-size", help="Exemplars of each cell.")] = None,
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
    from fairweight.apps.compare import Protocol, prepare, text_of
    from fairweight.apps.compare import compare as run_methods
    from fairweight.cli._progress import RunsProgress
    from fairweight.paper import records as kept

    quiet()
    asked = {"epochs": epochs, "batch_size": batch_size, "lr": lr, "per_cell": per_cell}
    data: dict[str, Any] = {
        "labels": given(positive=positive, max_classes=max_classes, missing=missing_labels),
        "groups": given(below=small_groups, floor=floor, missing=missing_groups),
        "table": given(
            drop=listed(drop) or None,
            keep=listed(keep) or None,
            delimiter=delimiter_of(delimiter),
            encoding=encoding,
        ),
        "image": given(size=image_size, channels=channels, file_column=file_column, unreadable=unreadable),
        "split": given(
            test=None if test is None else share_or_file(test),
            validation=None if validation is None else share_or_file(validation),
            column=split_column,
        ),
        "exemplar": given(source=exemplars, size=exemplar_size),
        "corruptions": corrupt,
        "limit": limit,
    }
    protocol = Protocol(
        source,
        label,
        group,
        {key: value for key, value in data.items() if value not in (None, {}, [])},
        {key: value for key, value in asked.items() if value is not None},
        select,
        split_seed,
    )
    names = None if methods.strip() == "all" else [name.strip() for name in methods.split(",") if name.strip()]
    if names == []:
        raise BadInput("--methods names none; give some with commas between them, or all.")
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
