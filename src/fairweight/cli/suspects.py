"""fairweight suspects."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fairweight.cli import _options as opt


def suspects(
    run: opt.Run,
    top: Annotated[int, opt.flag("How many to print.", at_least=1)] = 20,
    out: Annotated[Path | None, opt.flag("A .csv or .parquet file; default: suspects.csv in the run's folder.")] = None,
    relabel: Annotated[
        str | None, opt.flag("Also write relabelled.csv: the suggested labels, or the chance of each with soft.")
    ] = None,
    drop: Annotated[bool, opt.flag("Also write kept.csv, without labels that look wrong.", "--drop")] = False,
    trust: opt.Trust = None,
    json: opt.Json = False,
) -> None:
    """Rank the training labels that are probably wrong; say how many are, and write a corrected set."""
    from fairweight.apps.suspects import kept, suspects_of
    from fairweight.cli import in_flags
    from fairweight.runs.folder import RunFolder
    from fairweight.runs.run_place import check_file
    from fairweight.runs.spec_data import files_named
    from fairweight.runs.table_file import write_table

    opt.introduce(run)
    suspected = suspects_of(run, trust=trust)
    if out is not None:
        check_file(out, *files_named(RunFolder(run).read_spec()))
    sets = {} if relabel is None else {"relabelled": suspected.relabelled(relabel)}
    sets |= {"kept": kept(suspected.ranked)} if drop else {}
    path = write_table(suspected.ranked, run / "suspects.csv" if out is None else out)
    written = {name: str(write_table(table, path.with_name(f"{name}.csv"))) for name, table in sets.items()}
    said = in_flags(suspected.text(top, opt.columns(200)))
    lines = [f"{said}\n\nAll {len(suspected.ranked):,} labels, ranked: {path}"]
    lines += [f"{name.capitalize()}: {len(sets[name]):,} rows in {where}" for name, where in written.items()]
    opt.show({**suspected.to_dict(top), "file": str(path), **written}, "\n".join(lines), json)
