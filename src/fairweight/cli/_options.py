"""Options that several verbs share, and what they need."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import textwrap
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairweight.cli._flags import DATA, OUTPUT, TRAINING
from fairweight.errors import BadInput, RunsFailed, printable_lines

if TYPE_CHECKING:
    from fairweight.apps.train import Prepared
    from fairweight.apps.trainings import Trainings
    from fairweight.runs.run_place import Watching

HELD = ExitStack()  # locks that the command holds until it ends


def flag(help_text: str, *names: str, panel: str | None = None, at_least: int | None = None) -> Any:
    """An option of a verb; its flag is the parameter's name unless others are given."""
    return typer.Option(*names, help=help_text, rich_help_panel=panel, min=at_least)


Run = Annotated[Path, typer.Argument(help="Folder of a finished run.")]
Source = Annotated[str, typer.Argument(help="A CSV, TSV or parquet file, a glob, a folder of images, or a named set.")]
Label = Annotated[str | None, flag("Label column, or a threshold such as age>=30.", panel=DATA)]
Group = Annotated[str | None, flag("Sensitive column, or several to cross: sex,race; default: the label.", panel=DATA)]
Out = Annotated[Path, flag("Output folder.", panel=OUTPUT)]
Seed = Annotated[int, flag("Random seed.", panel=TRAINING)]
Device = Annotated[str, flag("Device: cpu, cuda, cuda:1 ..., or auto.", panel=TRAINING)]
Json = Annotated[bool, flag("Print one JSON object instead of text.", "--json", panel=OUTPUT)]
Engine = Annotated[str, flag("Run trainings in processes, or with ray on a cluster.", panel=TRAINING)]
Jobs = Annotated[int | None, flag("Runs at a time; default: one per core, or one per GPU.", panel=TRAINING, at_least=1)]
DataDir = Annotated[Path | None, flag("Folder of named sets; default: FAIRWEIGHT_DATA.", panel=DATA)]
Download = Annotated[bool, flag("Fetch a named set that is not there.", "--download", panel=DATA)]
NoBaseline = Annotated[bool, flag("Do not also train a plain model to compare with.", "--no-baseline", panel=OUTPUT)]
Fresh = Annotated[bool, flag("Start over, or continue, if --out holds a run.", "--fresh/--resume", panel=OUTPUT)]
Network = Annotated[str | None, flag("Import this MODULE:MODEL, which the run was trained with.")]
TrustCode = Annotated[bool, flag("Import whatever MODULE:MODEL the run names.", "--trust-code")]
Trust = Annotated[
    bool | None,
    flag(
        "Take the exemplars' labels as right; default: if you gave them, not if drawn from train.", "--trust/--no-trust"
    ),
]
Records = Annotated[Path | None, flag("Folder to keep a record in.", panel=OUTPUT)]


def device_of(asked: str) -> str:
    """Choose the device; refuse one that this machine does not have."""
    import torch

    if asked == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    counts = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    try:
        device = torch.device(asked)
        count = counts[device.type]
    except (RuntimeError, KeyError):
        raise BadInput(f"--device {asked}: choose cpu, cuda, cuda:0 ..., or auto.") from None
    if (device.index or 0) >= count:
        raise BadInput(f"--device {asked} is not on this machine; use --device cpu, or auto.")
    return asked


def trainings(seeds: int, first: int, jobs: int | None, device: str, data_dir: Path | None) -> Trainings:
    """How `clean` and `condense` train their sets, with a line of progress."""
    from fairweight.apps.trainings import Trainings
    from fairweight.cli._progress import RunsProgress

    return Trainings(seeds, first, jobs, device_of(device), data_dir, RunsProgress)


def hold(folder: Path) -> None:
    """Keep other writers out of the folder until the command ends."""
    from fairweight.runs.run_place import check_place
    from fairweight.training.lock import claimed

    check_place(folder)
    HELD.enter_context(claimed(folder))


def introduce(run: Path, *, source: bool = False) -> None:
    """Say on stderr what a run's folder is about to make us read, and whether its files can be verified."""
    from fairweight.runs.folder import RunFolder
    from fairweight.runs.spec_data import files_named

    folder = RunFolder(run)
    if not folder.finished:
        return  # refused in a moment, with a better sentence
    if not folder.verified:
        tell(f"Note: {run} has no manifest.json, so its files are not verified.")
    if source:
        tell(f"Reading what {run} was trained on: {', '.join(files_named(folder.read_spec()))}.")


def begin(prepared: Prepared, folder: Path, device: str, json: bool, *, fresh: bool, sweep: bool = False) -> None:
    """Check that the run may be written there, and say what will be trained."""
    from fairweight.apps._train_text import opening
    from fairweight.cli import in_flags
    from fairweight.runs.run_place import check_folder

    check_folder(folder, prepared.spec, prepared.dataset, sweep=sweep, fresh=fresh)
    spare_threads(prepared.built.parameters, device)
    show_log(only_errors=prepared.request is not None)  # of many trainings
    if not json:
        tell(opening(prepared, device, in_flags))


def spare_threads(parameters: int, device: str) -> None:
    """One thread for a small network on a CPU: more cost more than they save, ten times so on a busy machine."""
    import torch

    from fairweight.runs.run import SMALL

    if device == "cpu" and parameters < SMALL and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


class _StderrNow(logging.Handler):
    """Writes to what sys.stderr is at that moment: while a bar is shown, that is what keeps lines above it."""

    def emit(self, record: logging.LogRecord) -> None:
        print(printable_lines(record.getMessage()), file=sys.stderr, flush=True)


def show_log(*, only_errors: bool = False) -> None:
    """Print the library's messages on stderr, one line each."""
    logger = logging.getLogger("fairweight")
    logger.handlers = [_StderrNow()]
    logger.setLevel(logging.ERROR if only_errors else logging.INFO)


def quiet() -> None:
    """Keep single runs' messages off the screen: each run's log and record have them."""
    logging.getLogger("fairweight").addHandler(logging.NullHandler())  # with any handler, none speaks up by itself


def epochs_shown(json: bool) -> Watching:
    """A bar of epochs for each training; none where one JSON object is all that is printed."""
    from fairweight.training.callbacks import Progress

    return lambda title: () if json else (Progress(title),)


def tell(line: str) -> None:
    """Print a line on stderr now, with the flags of the options that it names."""
    from fairweight.cli import in_flags

    print(in_flags(line), file=sys.stderr, flush=True)


def candidate_shown(title: str, done: int) -> None:
    """A line for each model that was trained and judged."""
    tell(f"  {done:2d} {title}")


def show(values: Mapping[str, Any], text: str, as_json: bool) -> None:
    """Print a result: as one JSON object, or for people."""
    text = json.dumps(values, indent=2) if as_json else fitted(text)
    print(text, file=getattr(sys.stdout, "for_results", None))


def fitted(text: str) -> str:
    """The text with sentences as wide as the terminal; rows of tables, whose cells stand two blanks apart, stay."""
    fill = partial(textwrap.fill, width=columns(1_000_000), break_long_words=False, break_on_hyphens=False)
    parts = ((line, line.lstrip()) for line in text.split("\n"))
    return "\n".join(s if "  " in words else fill(s, subsequent_indent=s.removesuffix(words)) for s, words in parts)


def columns(most: int) -> int:
    """How wide the terminal is, at most this much."""
    return min(most, shutil.get_terminal_size((most, 24)).columns)


def refuse_failed(record: Mapping[str, Any]) -> None:
    """Exit with an error where some runs of a record failed."""
    failed = {f"{row['key']}, seed {s}": why for row in record["rows"] for s, why in row["failed"].items()}
    if failed:
        first, why = next(iter(failed.items()))
        raise RunsFailed(f"{len(failed)} of the runs failed, first {first}: {why} The same command tries them again.")
