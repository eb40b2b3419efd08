"""fairweight audit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from fairweight.cli import _options as opt
from fairweight.cli._parse import delimiter as delimiter_of
from fairweight.errors import BadInput

Text = str | None


def audit(
    run: Annotated[Path | None, typer.Argument(help="Folder of a finished run.")] = None,
    baseline: Annotated[Path | None, opt.flag("Run to compare with; default: plain training found beside it.")] = None,
    predictions: Annotated[Path | None, opt.flag("File of any model's predictions, with labels, to audit.")] = None,
    label: Annotated[Text, opt.flag("Column of labels in --predictions.")] = None,
    prediction: Annotated[Text, opt.flag("Column of predictions in --predictions.")] = None,
    group: Annotated[Text, opt.flag("Sensitive column in --predictions, or several: sex,race.")] = None,
    positive: Annotated[Text, opt.flag("Positive label in --predictions.")] = None,
    threshold: Annotated[float | None, opt.flag("Predict positive where a probability is at least this.")] = None,
    delimiter: Annotated[Text, opt.flag("Character between the columns of --predictions.")] = None,
    encoding: Annotated[str, opt.flag("Encoding of --predictions.")] = "utf-8",
    max_file_gb: Annotated[float | None, opt.flag("Refuse a larger file, in GB; default 2.")] = None,
    images: Annotated[int, opt.flag("Most pictures on the page.", at_least=0)] = 600,
    without_rows: Annotated[
        bool | None, opt.flag("Leave single rows out; default: only out of --share.", "--without-rows/--with-rows")
    ] = None,
    share: Annotated[Path | None, opt.flag("Also write a page to hand on: one file, without single rows.")] = None,
    data_dir: opt.DataDir = None,
    out: Annotated[Path | None, opt.flag("Folder for the page; default: the run's.")] = None,
    seed: opt.Seed = 0,
    json: opt.Json = False,
) -> None:
    """Write an audit page, report.html: a verdict on a run, or how any model's predictions err by group."""
    from fairweight.apps.audit import audit_of, write_audit
    from fairweight.apps.audit_predictions import audit_predictions
    from fairweight.cli import flags_for_names, in_flags
    from fairweight.runs.folder import RunFolder
    from fairweight.runs.run_place import check_file, check_no_run
    from fairweight.runs.spec_data import files_named

    opt.quiet()
    if out is not None and (run is None or out.resolve() != run.resolve()):
        check_no_run(out)
    if predictions is not None and run is None:
        if share is not None:
            check_file(share, str(predictions), flag="share")
        way: dict[str, Any] = {"label": label, "prediction": prediction, "group": group, "positive": positive}
        way |= {"threshold": threshold, "delimiter": delimiter and delimiter_of(delimiter), "encoding": encoding}
        made = audit_predictions(predictions, **way, max_file_gb=max_file_gb, seed=seed)
        where = Path("runs") / f"audit_{predictions.stem}"
    elif run is not None and predictions is None:
        opt.introduce(run, source=True)
        if share is not None:
            check_file(share, *files_named(RunFolder(run).read_spec()), flag="share")
        made, where = audit_of(run, baseline=baseline, data_dir=data_dir, images=images), run
    else:
        raise BadInput("name the folder of a run, or a file with --predictions: one of the two.")
    made = replace(made, notes=tuple(map(flags_for_names, made.notes)))
    rows = None if without_rows is None else not without_rows
    written = write_audit(made, out if out is not None else where, rows=rows, share=share)
    opt.show(written.to_dict(), written.text(opt.columns(110), in_flags), json)
