"""Predict new rows with a finished run's model, through the preprocessing that was fixed in training."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fairweight.apps.before_after import by_group
from fairweight.data import New, Preprocessing, TableOptions, TablePreprocessing
from fairweight.data.meaning import Meaning
from fairweight.errors import BadInput, NoSpace, UnreadableImage, option
from fairweight.metrics import GroupTable
from fairweight.runs.build import network_for
from fairweight.runs.folder import METRICS, MODEL, RunFolder
from fairweight.runs.run import probabilities
from fairweight.runs.shift import shifted
from fairweight.runs.spec import Spec
from fairweight.training import state
from fairweight.training.predict import logits
from fairweight.types import Batch

if TYPE_CHECKING:
    import pandas as pd

MOST_CLASSES = 20  # of more, the probability of the predicted one alone is written


@dataclass(frozen=True)
class Predictions:
    """What the model says of every row, and the table by group where labels are known."""

    names: tuple[str, ...]  # of the classes
    chances: Tensor  # [N, K]
    table: GroupTable | None
    notes: tuple[str, ...]
    files: list[str | None] | None = None  # of images that are files

    @property
    def predicted(self) -> list[str]:
        return [self.names[k] for k in self.chances.argmax(dim=1).tolist()]

    def to_pandas(self) -> pd.DataFrame:
        """One row per row of the file or image, in order: predicted, and the probability of each class."""
        import pandas as pd

        columns: dict[str, Any] = {"row": range(len(self.chances))}
        if self.files is not None:
            columns["file"] = self.files
        columns["predicted"] = self.predicted
        if len(self.names) <= MOST_CLASSES:
            columns |= {f"probability_{name}": self.chances[:, k].tolist() for k, name in enumerate(self.names)}
        else:
            columns["probability"] = self.chances.amax(dim=1).tolist()
        return pd.DataFrame(columns)

    def write(self, path: Path) -> None:
        """Write as CSV, or as parquet by the file's name; whole or not at all."""
        frame, out = self.to_pandas(), io.BytesIO()
        if path.is_dir():
            raise BadInput(f"{option('out', path)} is a folder; name a file, such as {path / 'predictions.csv'}.")
        if path.suffix.lower() in (".parquet", ".pq"):
            frame.to_parquet(out, index=False)
        else:
            frame.to_csv(out, index=False, float_format="%.6f")
        try:
            state.write_atomically(path, out.getvalue())
        except OSError as error:
            where = option("out")
            raise NoSpace(f"{path} cannot be written ({error.strerror}); choose another file with {where}.") from error


def predict_rows(
    run: str | Path,
    source: str | Path,
    device: str = "cpu",
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    file_column: str | None = None,
) -> Predictions:
    """Predict every row of a file, a folder of images or an image with a finished run.

    delimiter, encoding: of this file, where it is not written as that of the training was; file_column: in a list of
    images, the column that names them.
    """
    folder = RunFolder(run)
    spec = folder.read_spec()
    folder.read(METRICS)  # a run without them is not finished
    preprocessing = folder.read_preprocessing()
    model = network_for(preprocessing, spec.network)
    try:
        folder.read_model(model)
    except (OSError, RuntimeError, ValueError) as error:
        what = str(error).strip().split("\n")[0]
        raise BadInput(f"{folder.path / MODEL} does not fit the run ({what}); run the training again.") from error
    new = _read(preprocessing, source, delimiter, encoding, file_column)
    samples = Batch(new.inputs, torch.zeros(len(new), dtype=torch.int64))
    found = logits(model.to(device), samples).cpu().double()
    chances = probabilities(shifted(found, _groups(preprocessing.meaning, new, spec), spec.judge.get("shift")))
    table, notes = _table(preprocessing.meaning, new, chances.argmax(dim=1))
    return Predictions(preprocessing.meaning.label_names, chances, table, (*new.notes, *notes), new.files)


def _groups(meaning: Meaning, new: New, spec: Spec) -> Tensor | None:
    """Groups of the rows, which a model that decides by group cannot do without."""
    if spec.judge.get("shift") and new.groups is None:
        raise BadInput(
            f"this model decides by group, and the rows have no column {', '.join(meaning.group)!r}; add it, or train "
            f"without {option('groups_at_prediction')}."
        )
    return new.groups


def _read(
    preprocessing: Preprocessing,
    source: str | Path,
    delimiter: str | None,
    encoding: str | None,
    file_column: str | None,
) -> New:
    trained = preprocessing.options if isinstance(preprocessing, TablePreprocessing) else TableOptions()
    text = replace(trained, delimiter=delimiter or trained.delimiter, encoding=encoding or trained.encoding)
    if isinstance(preprocessing, TablePreprocessing):
        if file_column is not None:
            raise BadInput(
                f"this model was trained on a table, which names no image files; leave {option('file_column')} out."
            )
        return replace(preprocessing, options=text).read(source)
    try:
        return preprocessing.read(source, file_column, text)
    except UnreadableImage as error:
        said = str(error).replace("leave such images out with image.unreadable=drop", "take it away")  # no option here
        raise UnreadableImage(said.replace("set image.size to bring all to", "resize them to")) from error


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
