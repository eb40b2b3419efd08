"""fairweight train."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairweight.cli._options import Device, Json, Seed, device_of, epochs_shown, print_json, show_log, spare_threads
from fairweight.cli._words import assigned, delimiter_of, given, listed, numbers, share_or_file
from fairweight.errors import BadInput

if TYPE_CHECKING:
    from fairweight.apps.train import Prepared, Wanted

Text = str | None
Say = Callable[[str], None]


def _flag(help_text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help_text, show_default=False, **more)


def train(
    source: Annotated[str, typer.Argument(help="A CSV, TSV or parquet file, a glob, a folder of images, or a set.")],
    label: Annotated[Text, _flag("The column to predict, or a question to one, such as 'age>=30'.")] = None,
    group: Annotated[Text, _flag("Sensitive column, or several to cross: sex,race; none: the label itself.")] = None,
    method: Annotated[str, typer.Option(help="One of: fairweight list methods.")] = "forml",
    out: Annotated[Path | None, _flag("Folder of the run; default: one under runs/.", "--out")] = None,
    seed: Seed = 0,
    device: Device = "auto",
    json: Json = False,
    no_baseline: Annotated[bool, _flag("Do not train a plain model beside it.", "--no-baseline")] = False,
    trade_off: Annotated[bool, _flag("Train at several strengths; choose one on validation.", "--trade-off")] = False,
    strengths: Annotated[str, _flag("Of --trade-off, with commas; default 0.1,0.3,1,3,10.")] = "0.1,0.3,1,3,10",
    give_up: Annotated[float, _flag("Points of validation accuracy that --trade-off may give up; default 1.")] = 1.0,
    fresh: Annotated[bool, _flag("Start over where --out holds a run, or go on with it.", "--fresh/--resume")] = False,
    # -- the data
    data_dir: Annotated[Path | None, _flag("Folder that named sets lie in; default: FAIRWEIGHT_DATA.")] = None,
    download: Annotated[bool, _flag("Fetch a named set that is not there.", "--download")] = False,
    positive: Annotated[Text, _flag("Of two labels, the one whose true positive rate counts.")] = None,
    max_classes: Annotated[
        int | None, _flag("More distinct labels than so many are refused as numbers or ids.")
    ] = None,
    missing_labels: Annotated[Text, _flag("refuse or drop rows without a label.")] = None,
    missing_groups: Annotated[Text, _flag("unknown, group, drop or refuse: rows without a group.")] = None,
    small_groups: Annotated[Text, _flag("refuse, merge, drop or keep groups with too few rows of a label.")] = None,
    floor: Annotated[int | None, _flag("How many rows of each label a group must have.")] = None,
    only_groups: Annotated[Text, _flag("Groups to compare, with commas; the others form one.")] = None,
    numeric: Annotated[Text, _flag("Columns to read as numbers, with commas.")] = None,
    categorical: Annotated[Text, _flag("Columns to read as categories, with commas.")] = None,
    drop: Annotated[Text, _flag("Columns to keep out of the inputs, with commas.")] = None,
    keep: Annotated[Text, _flag("Columns to keep although they look like ids or free text.")] = None,
    group_in_inputs: Annotated[bool, _flag("Let the model see the group columns.", "--group-in-inputs")] = False,
    drop_leaks: Annotated[bool, _flag("Drop columns that give the label away.", "--drop-leaks")] = False,
    max_categories: Annotated[int | None, _flag("Per column; rarer ones share a place.")] = None,
    delimiter: Annotated[Text, _flag("Between the columns of a text file.")] = None,
    encoding: Annotated[Text, _flag("Of a text file; default utf-8.")] = None,
    image_size: Annotated[int | None, _flag("Resize images to so many pixels a side.")] = None,
    channels: Annotated[int | None, _flag("1 for grey images, 3 for coloured ones.")] = None,
    file_column: Annotated[Text, _flag("In a list of image files, the column that names them.")] = None,
    unreadable: Annotated[Text, _flag("refuse or drop images that cannot be decoded or are not there.")] = None,
    memory_gb: Annotated[float | None, _flag("A part with more pixels streams from disk; default 8.")] = None,
    test: Annotated[Text, _flag("Share of the rows for test, or a file; default 0.2 or the set's own.")] = None,
    validation: Annotated[Text, _flag("Share of the rows for validation, or a file; default 0.1.")] = None,
    split_column: Annotated[Text, _flag("A column that says train, validation, exemplar or test.")] = None,
    exemplars: Annotated[Text, _flag("Where exemplars come from: train, validation or a file.")] = None,
    exemplar_size: Annotated[int | None, _flag("Exemplars of each cell; default: a tenth of train.")] = None,
    exemplar_inside: Annotated[bool, _flag("Leave exemplars in train, too.", "--exemplar-inside")] = False,
    corrupt: Annotated[list[str] | None, _flag("Such as 'one-class:label=2,fraction=0.2'; repeat for more.")] = None,
    limit: Annotated[int | None, _flag("At most so many rows of each part: a quick look.")] = None,
    # -- the training
    network: Annotated[Text, _flag("mlp, resnet18, or your own as MODULE:MODEL.")] = None,
    hidden: Annotated[Text, _flag("Widths of an mlp's layers, such as 64,64.")] = None,
    optimizer: Annotated[Text, _flag("adam, adamw or sgd.")] = None,
    lr: Annotated[float | None, _flag("Learning rate.")] = None,
    weight_decay: Annotated[float | None, _flag("Weight decay.")] = None,
    epochs: Annotated[int | None, _flag("At most so many.")] = None,
    patience: Annotated[int | None, _flag("Epochs without a better one before it stops; 0: never stop early.")] = None,
    batch_size: Annotated[int | None, _flag("Training rows in a step.")] = None,
    per_cell: Annotated[int | None, _flag("Exemplars of each cell in a step.")] = None,
    objective: Annotated[Text, _flag("Such as 'mean + 0.5 * variance'; see: fairweight list objectives.")] = None,
    option: Annotated[list[str] | None, _flag("An option of the method, name=value; repeat for more.")] = None,
    search: Annotated[
        list[str] | None, _flag("Many trainings, such as name=multiplier, iterations=15; see docs/methods.md.")
    ] = None,
) -> None:
    """Train on a file, a folder or a named set: a model, a table by group, and a weight for every sample."""
    from fairweight.apps.train import Wanted

    data = {
        "labels": given(positive=positive, missing=missing_labels, max_classes=max_classes),
        "groups": given(below=small_groups, floor=floor, missing=missing_groups, only=listed(only_groups) or None),
        "table": given(
            numeric=listed(numeric) or None, categorical=listed(categorical) or None, drop=listed(drop) or None,
            keep=listed(keep) or None, group_in_inputs=group_in_inputs or None, drop_leaks=drop_leaks or None,
            max_categories=max_categories, delimiter=delimiter_of(delimiter), encoding=encoding,
        ),
        "image": given(
            size=image_size, channels=channels, file_column=file_column, unreadable=unreadable,
            memory_gb=memory_gb,
        ),
        "split": given(
            test=None if test is None else share_or_file(test),
            validation=None if validation is None else share_or_file(validation), column=split_column,
        ),
        "exemplar": given(source=exemplars, size=exemplar_size, inside=exemplar_inside or None),
        "corruptions": list(corrupt or []),
        "limit": limit,
    }  # fmt: skip
    training = given(
        optimizer=optimizer, lr=lr, weight_decay=weight_decay, epochs=epochs, batch_size=batch_size, per_cell=per_cell,
        network=given(name=network, hidden=_widths(hidden)) or None,
        method_options={**assigned(option or [], "--option"), **given(objective=objective)} or None,
        search=assigned(search or [], "--search") or None,
    )  # fmt: skip
    if patience is not None and patience < 0:
        raise BadInput(f"--patience {patience}: give a number of epochs from 1, or 0 to never stop early.")
    if not 0 <= give_up <= 100:
        raise BadInput(f"--give-up {give_up:g}: give points of accuracy from 0 to 100, such as --give-up 1.")
    if patience is not None:
        training["early_stopping"] = {"metric": "objective", "patience": patience} if patience > 0 else {}
    said = {key: value for key, value in data.items() if value not in (None, {}, [])}
    wanted = Wanted(source, label, group, method, seed, said, training)
    sweep = numbers(strengths, "--strengths") if trade_off else None
    _train(wanted, out, device_of(device), json, not no_baseline, sweep, give_up, fresh, data_dir, download)


def _train(
    wanted: Wanted, out: Path | None, device: str, json: bool, baseline: bool, sweep: list[float] | None,
    give_up: float, fresh: bool, data_dir: Path | None, download: bool,
) -> None:  # fmt: skip
    from fairweight.apps.trade_off import strength_specs
    from fairweight.apps.train import check_folder, prepare
    from fairweight.apps.train import train as run_train
    from fairweight.cli import _train_text as text

    started = time.monotonic()
    say = _silent if json else _say
    prepared = prepare(wanted, device=device, data_dir=data_dir, download=download)
    folder = out or Path("runs") / f"{prepared.dataset.name}_{prepared.spec.method}_{prepared.spec.fingerprint[:6]}"
    check_folder(folder, prepared.spec, prepared.dataset, sweep=sweep is not None, fresh=fresh)
    if sweep is not None:
        strength_specs(prepared, sweep)
    spare_threads(prepared.parameters, device)
    show_log()
    say(text.opening(prepared, device))
    if sweep is not None:
        _sweep(prepared, folder, device, json, sweep, give_up, say)
        return
    done = run_train(prepared, folder, device=device, baseline=baseline, watching=epochs_shown(json))
    if json:
        print_json(done.to_dict())
        return
    print(text.closing(done, time.monotonic() - started))


def _sweep(
    prepared: Prepared, folder: Path, device: str, json: bool, strengths: list[float], give_up: float, say: Say
) -> None:
    from fairweight.apps.trade_off import trade_off
    from fairweight.cli import _train_text as text

    started = time.monotonic()
    found = trade_off(prepared, folder, strengths, give_up / 100, device=device, watching=epochs_shown(json))
    if json:
        print_json(found.to_dict())
        return
    print(text.front(found))
    print(text.closing(found.chosen_run, time.monotonic() - started))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _silent(line: str) -> None:
    """Nothing but the JSON object is printed."""


def _widths(words: str | None) -> list[int] | None:
    if words is None:
        return None
    try:
        found = [int(word) for word in words.replace("-", ",").split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise BadInput(f"--hidden {words}: give the layers' widths with commas between them, such as 64,64.")
    return found
