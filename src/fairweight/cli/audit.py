"""fairweight audit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairweight.cli._options import Json, Seed, print_json
from fairweight.cli._pool import DataDir, quiet
from fairweight.cli._words import delimiter_of
from fairweight.errors import BadInput

if TYPE_CHECKING:
    from fairweight.apps._audit_files import Audited


def audit(
    run: Annotated[Path | None, typer.Argument(help="The folder of a finished run.")] = None,
    baseline: Annotated[
        Path | None, typer.Option("--baseline", help="A run to stand beside; by default a uniform one in its folder.")
    ] = None,
    predictions: Annotated[
        Path | None, typer.Option("--predictions", help="Audit any model: a file with labels and predictions.")
    ] = None,
    label: Annotated[str | None, typer.Option("--label", help="Of --predictions: the column of labels.")] = None,
    prediction: Annotated[
        str | None, typer.Option("--prediction", help="Of --predictions: the column of predictions.")
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", help="Of --predictions: the sensitive column, or several: sex,race.")
    ] = None,
    positive: Annotated[str | None, typer.Option("--positive", help="Of --predictions: the label that counts.")] = None,
    threshold: Annotated[
        float | None, typer.Option("--threshold", help="Of --predictions: they are probabilities, cut here.")
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option("--delimiter", help="Of --predictions: between the columns of a text file.")
    ] = None,
    encoding: Annotated[str, typer.Option("--encoding", help="Of --predictions: of a text file.")] = "utf-8",
    images: Annotated[int, typer.Option("--images", min=0, help="Pictures that the page carries.")] = 600,
    data_dir: DataDir = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the page; default: the run's.")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Write an audit page, report.html: what a run's weights know of its data, or how any predictions err by group."""
    from fairweight.apps._audit_files import audit_file, audit_run

    quiet()
    if (run is None) == (predictions is None):
        raise BadInput("name the folder of a run, or a file with --predictions: one of the two.")
    if predictions is not None:
        where = out if out is not None else Path("runs") / f"audit_{predictions.stem}"
        found = audit_file(
            predictions,
            where,
            label=label,
            prediction=prediction,
            group=group,
            positive=positive,
            threshold=threshold,
            delimiter=delimiter_of(delimiter),
            encoding=encoding,
            seed=seed,
        )
    else:
        assert run is not None
        found = audit_run(run, out if out is not None else run, baseline=baseline, data_dir=data_dir, images=images)
    if json:
        print_json(found.to_dict())
        return
    _tell(found)


def _tell(found: Audited) -> None:
    import shutil
    import textwrap

    width = min(110, shutil.get_terminal_size((110, 24)).columns)
    for finding in found.findings:
        text = f"{finding.level:5s} {finding.sentence}"
        print(textwrap.fill(text, width, subsequent_indent=" " * 6))
    for note in found.audit.missing:
        print(textwrap.fill(f"      {note}", width, subsequent_indent=" " * 6))
    print(f"\nPage: {found.page}" + ("" if found.card is None else f"   Model card: {found.card}"))
