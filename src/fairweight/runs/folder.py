"""Read and write what is in a run's folder: what determines it, its numbers, a row per sample, and the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import Tensor, nn

from fairweight.data import Dataset, Preprocessing, preprocessing_from
from fairweight.errors import BadCheckpoint, BadInput, MissingData, first_line
from fairweight.metagradient.model import unwrap
from fairweight.methods import Reweighter
from fairweight.runs import sealed
from fairweight.runs.manifest import AGAIN
from fairweight.runs.manifest import VERSION as MANIFEST_VERSION
from fairweight.runs.spec import Spec
from fairweight.training import state
from fairweight.training.history import Dynamics
from fairweight.types import Samples

if TYPE_CHECKING:
    import pandas as pd

FILES, SEALED, READ = sealed.FILES, sealed.SEALED, sealed.READ
RUN, METRICS, PREPROCESSING = sealed.RUN, sealed.METRICS, sealed.PREPROCESSING
MODEL, WEIGHTS, PREDICTIONS, LOGITS = sealed.MODEL, sealed.WEIGHTS, sealed.PREDICTIONS, sealed.LOGITS
NAMES = ("label", "group", "true_label", "predicted", "suggested")  # columns of names, from a fixed list
FILE = "file"  # names of image files, where samples are such
NEEDED = {
    WEIGHTS: ("row", "label", "group", "score", "weight"),
    PREDICTIONS: ("row", "label", "predicted"),
}


class RunFolder(sealed.SealedFolder):
    """The folder of one run."""

    def holds(self, spec: Spec, dataset: Dataset | None = None) -> bool:
        """True if the run that stands here, finished or not, is the Spec's, and of the same data if given."""
        if not self.started:
            return False
        values = self.read(RUN)
        if values.get("fingerprint") != spec.fingerprint:
            return False
        return dataset is None or values.get("data", {}).get("fingerprint") == dataset.fingerprint

    def read_spec(self) -> Spec:
        return Spec.from_dict(self.read(RUN)["spec"])

    def write_run(self, spec: Spec, dataset: Dataset, about: Mapping[str, Any]) -> None:
        """Write what determines the run, the data that was found, and where it is trained."""
        data = {**dataset.spec, "fingerprint": dataset.fingerprint, "notes": list(dataset.notes)}
        values = {"spec": spec.to_dict(), "fingerprint": spec.fingerprint, "data": data, **about}
        self.write(RUN, {**values, "manifest": MANIFEST_VERSION})

    def write_model(self, model: nn.Module) -> None:
        from safetensors.torch import save

        kept = {key: t.detach().to("cpu", copy=True).contiguous() for key, t in unwrap(model).state_dict().items()}
        state.write_atomically(self.path / MODEL, save(kept))

    def read_model(self, model: nn.Module) -> None:
        """Put the saved parameters into a model of the same make."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        path = self.checked(MODEL)
        try:
            model.load_state_dict(load_file(path))
        except SafetensorError as error:
            raise BadInput(f"{path} cannot be read ({error}); {AGAIN}.") from error
        except (OSError, RuntimeError, TypeError, ValueError) as error:
            raise BadInput(f"{path} does not fit the run ({first_line(error)}); run the training again.") from error

    def read_preprocessing(self) -> Preprocessing:
        """Read the way from new rows to inputs, as it was fixed on this run's train rows."""
        return preprocessing_from(self.read(PREPROCESSING))

    def write_logits(self, parts: Mapping[str, tuple[Samples, Tensor]]) -> None:
        """Write the final model's logits on each part, with labels and groups."""
        kept = {
            name: {"logits": found, "labels": samples.labels, "groups": samples.groups}
            for name, (samples, found) in parts.items()
        }
        state.save(kept, self.path / LOGITS)

    def read_logits(self, part: str) -> tuple[Tensor, Tensor, Tensor | None]:
        """Read logits [N, K], labels [N] and groups [N] of a part."""
        parts = self._read_tree(LOGITS)
        if part not in parts:
            raise MissingData(f"the run in {self.path} has no {part} set; it has {', '.join(sorted(parts))}.")
        kept = parts[part] if isinstance(parts[part], dict) else {}
        outputs, labels, groups = (kept.get(key) for key in ("logits", "labels", "groups"))
        if not isinstance(outputs, Tensor) or outputs.ndim not in (1, 2) or not _whole(labels, len(outputs)):
            raise self._strange(LOGITS, part)
        if groups is not None and not _whole(groups, len(outputs)):
            raise self._strange(LOGITS, f"{part}.groups")
        return outputs, labels, groups

    def _strange(self, name: str, what: str) -> BadInput:
        return BadInput(f"{self.path / name} is not as a run writes it: {what}; {AGAIN}.")

    def _read_tree(self, name: str) -> dict[str, Any]:
        try:
            tree = state.load(self.checked(name))
        except BadCheckpoint as error:
            raise BadInput(f"{self.path / name} cannot be read ({error.__cause__}); {AGAIN}.") from error
        if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
            raise self._strange(name, "its names")
        return tree

    def write_weights(
        self, dataset: Dataset, reweighter: Reweighter, dynamics: Dynamics, predictions: Mapping[str, Tensor]
    ) -> None:
        """Write a row per training sample: row, label, group, score, weight, history and what the model predicts."""
        train = dataset.train
        nan = torch.full((len(train),), torch.nan)
        scores, weights = reweighter.scores, reweighter.weights()
        columns = {
            "row": dataset.rows["train"],
            "label": train.labels,
            "group": train.groups if train.groups is not None else train.labels,
            "score": nan if scores is None else scores,
            "weight": nan if weights is None else weights,
            **dynamics.table(),
            **predictions,
        }
        if dataset.true_labels is not None:
            columns["true_label"] = dataset.true_labels
        state.write_atomically(self.path / WEIGHTS, _to_parquet(frame_of(columns, dataset, dataset.files)))
        if paths := dynamics.paths():
            state.save(paths, self.path / sealed.PATHS)

    def write_predictions(self, dataset: Dataset, predictions: Mapping[str, Tensor]) -> None:
        """Write a row per test sample: row, label, group and what the model predicts."""
        test = dataset.test
        groups = {} if test.groups is None else {"group": test.groups}
        columns = {"row": dataset.rows["test"], "label": test.labels, **groups, **predictions}
        state.write_atomically(self.path / PREDICTIONS, _to_parquet(frame_of(columns, dataset)))

    def read_weights(self) -> pd.DataFrame:
        return self._read_frame(WEIGHTS)

    def read_predictions(self) -> pd.DataFrame | None:
        """Read the row per test sample, where the run kept it."""
        return self._read_frame(PREDICTIONS) if (self.path / PREDICTIONS).exists() else None

    def _read_frame(self, name: str) -> pd.DataFrame:
        import pandas as pd

        path = self.checked(name)
        try:
            frame = pd.read_parquet(path, page_checksum_verification=True)
        except (OSError, ValueError, TypeError, KeyError, NotImplementedError) as error:  # pyarrow's are ValueErrors
            raise BadInput(f"{path} cannot be read ({first_line(error)}); {AGAIN}.") from error
        if problem := _problem(frame, name):
            raise self._strange(name, problem)
        return frame

    def read_paths(self, name: str = "scores") -> tuple[Tensor, Tensor] | None:
        """Read rows [P] and their scores (or weights) after each epoch [epochs, P], where the method moves any."""
        kept = self._read_tree(sealed.PATHS) if (self.path / sealed.PATHS).exists() else {}
        rows, paths = kept.get("rows"), kept.get(name)
        if paths is None:
            return None
        if not _whole(rows) or not isinstance(paths, Tensor) or paths.ndim != 2 or paths.shape[1] != len(rows):
            raise self._strange(sealed.PATHS, name)
        return rows, paths.float()


def _whole(values: Any, length: int | None = None) -> TypeGuard[Tensor]:
    """Whether this is a list of whole numbers, of that length if given."""
    fits = isinstance(values, Tensor) and values.ndim == 1 and not values.is_floating_point()
    return fits and (length is None or len(values) == length)


def frame_of(tensors: Mapping[str, Tensor], dataset: Dataset, files: Sequence[str] = ()) -> pd.DataFrame:
    """Columns by name, with the names of labels and groups for their codes; files: names of image files, if any."""
    import pandas as pd

    frame = pd.DataFrame({key: t.detach().cpu().numpy() for key, t in tensors.items()})
    for key in frame.columns.intersection(list(NAMES)):  # a code of -1, not known, becomes a missing value
        names = dataset.group_names or dataset.label_names if key == "group" else dataset.label_names
        frame[key] = pd.Categorical.from_codes(frame[key].astype("int64"), pd.Index(list(names)))
    if files:
        frame.insert(1, FILE, list(files))
    return frame


def _to_parquet(frame: pd.DataFrame) -> bytes:
    return bytes(frame.to_parquet(index=False, write_page_checksum=True))


def _problem(frame: pd.DataFrame, file: str) -> str | None:
    """What is wrong with the frame read from this file, such as "it has no rows"; None where it has the form."""
    from pandas.api.types import is_integer_dtype, is_numeric_dtype

    columns = [str(name) for name in frame.columns]
    if lacking := [name for name in NEEDED.get(file, ()) if name not in columns]:
        return f"it has no column {lacking[0]!r}"
    if len(set(columns)) < len(columns):
        return "it has a column twice"
    if frame.empty:
        return "it has no rows"
    rows = frame["row"]
    if not is_integer_dtype(rows) or rows.isna().any() or rows.duplicated().any() or (rows < 0).any():
        return "its rows are not numbered once each"
    for name in columns:
        values: Any = frame[name]
        if name == FILE:
            if not all(isinstance(value, str) for value in values):
                return f"its column {name!r} holds no names of files"
            continue
        if name not in NAMES and (not is_numeric_dtype(values) or values.abs().eq(float("inf")).any()):
            return f"its column {name!r} holds no numbers, or one without end"
        if name in NAMES and (values.dtype != "category" or not all(isinstance(n, str) for n in values.cat.categories)):
            return f"its column {name!r} holds no names"
        if name in ("label", "predicted") and values.isna().any():
            return f"its column {name!r} has gaps"
    return None
