"""fairweight condense."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairweight.cli._options import Device, Json, Seed, device_of, print_json
from fairweight.cli._pool import DataDir, Jobs, quiet

if TYPE_CHECKING:
    from fairweight.apps.condense import Retrained, Written


def condense(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    drop: Annotated[str, typer.Option("--drop", help="How many go: 10%, 0.1, or a number of samples.")] = "10%",
    rule: Annotated[
        str, typer.Option("--rule", help="N1 (the paper's) to N5, DRoP, or a name; docs/audit.md has all.")
    ] = "weighted-loss",
    floor: Annotated[int, typer.Option("--floor", min=0, help="Samples of each cell that stay.")] = 10,
    retrain: Annotated[bool, typer.Option("--retrain", help="Train on what is kept, beside random sets.")] = False,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Trainings of each set.")] = 5,
    out: Annotated[Path | None, typer.Option("--out", help="Folder; default: one inside the run's.")] = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    device: Device = "cpu",
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Drop the samples that count least, and write the rest; --retrain compares it with random sets of its size."""
    from fairweight.apps._drop_rules import rule_named
    from fairweight.apps.condense import condense_run
    from fairweight.apps.condense import retrain as train_again
    from fairweight.cli._progress import RunsProgress

    quiet()
    name = rule_named(rule)
    share = drop.strip().replace("%", "pct")
    where = out if out is not None else run / f"condensed_{name}_{share}"
    written = condense_run(run, drop, name, floor, where, seed=seed)
    found = None
    if not json:
        _tell(written)
    if retrain:
        found = train_again(
            written,
            seeds=seeds,
            first_seed=seed,
            jobs=jobs,
            device=device_of(device),
            data_dir=data_dir,
            watching=RunsProgress,
        )
    if json:
        print_json({**written.to_dict(), **({} if found is None else {"retrained": found.to_dict()})})
    elif found is not None:
        _tell_retrained(found, seeds)


def _tell(written: Written) -> None:
    condensed = written.condensed
    print(f"{condensed.dropped:,} samples go and {int(condensed.kept.sum()):,} stay, by {condensed.rule}.")
    for note in condensed.notes:
        print(f"  {note}")
    table = condensed.by_label().sort_values("dropped_share", ascending=False)
    print(f"\n{'label':24s}{'before':>10s}{'after':>10s}{'dropped':>10s}")
    for label, row in table.head(20).iterrows():
        print(
            f"{str(label)[:23]:24s}{int(row['before']):10,}{int(row['after']):10,}{100 * row['dropped_share']:9.1f} %"
        )
    if len(table) > 20:
        print(f"... and {len(table) - 20} more labels, of which less was dropped.")
    if written.correlation is not None:
        print(f"Correlation of a label's dropped share with its recall: {written.correlation:+.2f}.")
    print(f"\nKept rows: {written.out / 'kept.parquet'} and {written.out / 'kept.txt'}, one source row per line.")


def _tell_retrained(found: Retrained, seeds: int) -> None:
    from fairweight.apps.condense import ARMS, NUMBERS

    heads = "".join(f"{title:>18s}" for title in NUMBERS.values())
    print(f"\n{f'Uniform, in %, {seeds} seeds, mean ± standard error':48s}{'samples':>9s}{heads}")
    for arm, title in ARMS.items():
        cells = "".join(f"{found.mean(arm, number).text():>18s}" for number in NUMBERS)
        print(f"{title:48s}{found.sizes[arm]:9,}{cells}")
    for arm in ("kept", "random-by-class"):
        cells = "".join(f"{found.difference(arm, number).text():>18s}" for number in NUMBERS)
        print(f"{ARMS[arm] + ', minus random':48s}{'':9s}{cells}")
