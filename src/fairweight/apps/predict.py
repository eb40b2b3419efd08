"""Predict new rows with a finished run's model, through the preprocessing that was fixed in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from fairweight.data import New, Preprocessing, TableOptions, TablePreprocessing
from fairweight.data.files import bounded
from fairweight.data.image.decode import DROP
from fairweight.data.meaning import Meaning
from fairweight.data.texts import columns_are
from fairweight.errors import BadInput, MissingColumn, UnreadableImage, option
from fairweight.metrics import GroupTable
from fairweight.runs.build import network_for
from fairweight.runs.own_model import with_trusted_network
from fairweight.runs.run import by_group, probabilities
from fairweight.runs.run_place import finished
from fairweight.runs.shift import shifted
from fairweight.training.predict import logits
from fairweight.types import Batch

MOST_CLASSES = 20  # of more, the probability of the predicted one alone is written


@dataclass(frozen=True)
class Predictions:
    """What the model says of every row, and the table by group where labels are known."""

    names: tuple[str, ...]  # of the classes
    chances: Tensor  # [N, K]
    table: GroupTable | None
    notes: tuple[str, ...]
    files: list[str | None] | None = None  # of images that are files
    kept: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # columns of the source to carry along

    @property
    def predicted(self) -> list[str]:
        return [self.names[k] for k in self.chances.argmax(dim=1).tolist()]

    def to_pandas(self) -> pd.DataFrame:
        """One row per row of the file or image, in order: predicted, and the probability of each class."""
        columns: dict[str, Any] = {"row": range(len(self.chances))}
        if self.files is not None:
            columns["file"] = self.files
        columns |= self.kept
        columns["predicted"] = self.predicted
        if len(self.names) <= MOST_CLASSES:
            columns |= {f"probability_{name}": self.chances[:, k].tolist() for k, name in enumerate(self.names)}
        else:
            columns["probability"] = self.chances.amax(dim=1).tolist()
        return pd.DataFrame(columns)


def predict_rows(
    run: str | Path,
    source: str | Path,
    device: str = "cpu",
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    file_column: str | None = None,
    keep_columns: Sequence[str] = (),
    max_file_gb: float | None = None,
    max_megapixels: float | None = None,
    network: str | None = None,
    trust_code: bool = False,
) -> Predictions:
    """Predict every row of a file, a folder of images or an image with a finished run.

    delimiter, encoding: of this file, where it is not written as that of the training was; file_column: in a list of
    images, the column that names them; keep_columns: columns of the source to carry along, such as an id;
    max_file_gb, max_megapixels: the largest file to read, unpacked, and the largest image to decode. network: the
    run's own model, repeated; without it, or trust_code, a model that is code is not imported.
    """
    folder = finished(run)
    spec = with_trusted_network(folder, network, trust_code)
    preprocessing = folder.read_preprocessing()
    model = network_for(preprocessing, spec.network)
    folder.read_model(model)
    with bounded(max_file_gb):
        new = _read(preprocessing, source, delimiter, encoding, file_column, max_megapixels)
    meaning, shift = preprocessing.meaning, spec.judge.get("shift")
    kept = _kept(new, keep_columns, meaning.label_names)
    if len(shift or ()) > 1 and new.groups is None:
        raise BadInput(
            f"this model decides by group, and the rows have no column {', '.join(meaning.group)!r}; add it, or train "
            f"without {option('groups_at_prediction')}."
        )
    samples = Batch(new.inputs, torch.zeros(len(new), dtype=torch.int64))
    chances = probabilities(shifted(logits(model.to(device), samples).cpu().double(), new.groups, shift))
    table, notes = _table(meaning, new, chances.argmax(dim=1))
    return Predictions(meaning.label_names, chances, table, (*new.notes, *notes), new.files, kept)


def _read(
    preprocessing: Preprocessing, source: str | Path, delimiter: str | None, encoding: str | None,
    file_column: str | None, max_megapixels: float | None,
) -> New:  # fmt: skip
    trained = preprocessing.options if isinstance(preprocessing, TablePreprocessing) else TableOptions()
    text = replace(trained, delimiter=delimiter or trained.delimiter, encoding=encoding or trained.encoding)
    if isinstance(preprocessing, TablePreprocessing):
        if file_column is not None:
            raise BadInput(
                f"this model was trained on a table, which names no image files; leave {option('file_column')} out."
            )
        return replace(preprocessing, options=text).read(source)
    try:
        return preprocessing.read(source, file_column, text, max_megapixels)
    except UnreadableImage as error:
        # Some options of training are none here.
        message = error.sentence.marked.replace(DROP, "take it away")
        message = message.replace(f"set {option('image.size')} to bring all to", "resize them to")
        raise UnreadableImage(message) from error


def _kept(new: New, names: Sequence[str], classes: Sequence[str]) -> dict[str, list[Any]]:
    """The columns to carry along, refused where the source has none of that name or the predictions have one."""
    own = {"row", "predicted", "probability", *(f"probability_{name}" for name in classes)}
    own |= {"file"} if new.files is not None else set()
    there = [] if new.rows is None else new.rows.names()
    for name in names:
        if name not in there:
            raise MissingColumn(f"there is no column {name!r} to keep; {columns_are(name, there)}.")
        if name in own:
            raise BadInput(f"the predictions have a column {name!r} of their own; rename that of the file.")
    return {name: new.rows.frame[name].tolist() for name in names if new.rows is not None}


def _table(meaning: Meaning, new: New, predictions: Tensor) -> tuple[GroupTable | None, list[str]]:
    """Table by group where every row has a label that the model knows, or a note on why rows with labels have none."""
    if new.labels is None:
        return None, []
    if unknown := int((new.labels < 0).sum()):
        return None, [
            f"{unknown:,} of {len(new):,} rows have no label {meaning.label!r} that the model knows, so nothing is "
            "counted by group; fill them in, or take them away."
        ]
    if meaning.group and (new.groups is None or not bool((new.groups >= 0).any())):
        asked = ",".join(meaning.group)
        return None, [f"No row has a group {asked!r} that the model knows, so nothing is counted by group."]
    return by_group(meaning, new.labels, predictions, new.groups), []
