"""Read and write a run's folder: what determines it, its log, its numbers, a row per sample, and the model."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from fairweight.data import Dataset, Preprocessing, preprocessing_from
from fairweight.errors import BadInput, FolderRefused, MissingData, option
from fairweight.metagradient.passes import unwrap
from fairweight.methods import Reweighter
from fairweight.runs.spec import Spec
from fairweight.training import state
from fairweight.training.checkpoint import FILE as CHECKPOINT
from fairweight.training.history import Dynamics
from fairweight.training.log import FILE as LOG
from fairweight.types import Samples

if TYPE_CHECKING:
    import pandas as pd

RUN, METRICS, WEIGHTS, MODEL, PATHS, LOGITS, PREDICTIONS, PREPROCESSING = (
    "run.json",
    "metrics.json",
    "weights.parquet",
    "model.safetensors",
    "paths.safetensors",
    "logits.safetensors",
    "predictions.parquet",
    "preprocessing.json",
)
AUDIT = ("report.html", "MODEL_CARD.md")
FILES = (RUN, METRICS, WEIGHTS, MODEL, PATHS, LOGITS, PREDICTIONS, PREPROCESSING, CHECKPOINT, LOG, *AUDIT)


class RunFolder:
    """Reads and writes the files of one run; each appears whole or not at all."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def beside(self) -> Path:
        """The folder that it lies in, with the runs beside it."""
        # "." and ".." have it in no name
        return self.path.resolve().parent if self.path.name in ("", "..") else self.path.parent

    @property
    def finished(self) -> bool:
        """True if the run came to its end: its numbers are written last."""
        return (self.path / METRICS).is_file()

    @property
    def started(self) -> bool:
        return (self.path / RUN).is_file()

    @property
    def resumable(self) -> bool:
        """True if there is a checkpoint or a finished run."""
        return self.finished or (self.path / CHECKPOINT).is_file()

    def clear(self) -> None:
        """Delete what a run writes, and nothing else."""
        for name in FILES:
            (self.path / name).unlink(missing_ok=True)

    def holds(self, spec: Spec, dataset: Dataset | None = None) -> bool:
        """True if the run that stands here, finished or not, is the Spec's, and of the same data if given."""
        if not self.started:
            return False
        found = self.read(RUN)
        if found.get("fingerprint") != spec.fingerprint:
            return False
        return dataset is None or found.get("data", {}).get("fingerprint") == dataset.fingerprint

    def make(self) -> None:
        """Create the folder, or refuse one that takes no files."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FolderRefused(
                f"{self.path} cannot be made ({error.strerror}); choose another folder with {option('out')}."
            ) from error
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise FolderRefused(f"{self.path} cannot be written to; choose another folder with {option('out')}.")

    def read(self, name: str) -> dict[str, Any]:
        path = self.path / name
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise MissingData(f"{path} is not there; {self.path} is no finished run, give the folder of one.") from None
        except (OSError, ValueError) as error:
            raise BadInput(f"{path} cannot be read ({error}); run the training again.") from error
        if not isinstance(values, dict):
            raise BadInput(f"{path} is not as a run writes it; run the training again.")
        return values

    def read_spec(self) -> Spec:
        values = self.read(RUN).get("spec")
        if not isinstance(values, dict) or "source" not in values:
            raise BadInput(f"{self.path / RUN} is not as a run writes it; train that run again.")
        return Spec.from_dict(values)

    def write(self, name: str, values: dict[str, Any]) -> None:
        state.write_atomically(self.path / name, (json.dumps(values, indent=2) + "\n").encode())

    def write_run(self, spec: Spec, dataset: Dataset, about: Mapping[str, Any]) -> None:
        """Write what determines the run, the data that was found, and where it is trained."""
        data = {**dataset.spec, "fingerprint": dataset.fingerprint, "notes": list(dataset.notes)}
        self.write(RUN, {"spec": spec.to_dict(), "fingerprint": spec.fingerprint, "data": data, **about})

    def write_model(self, model: nn.Module) -> None:
        from safetensors.torch import save

        kept = {key: t.detach().to("cpu", copy=True).contiguous() for key, t in unwrap(model).state_dict().items()}
        state.write_atomically(self.path / MODEL, save(kept))

    def read_model(self, model: nn.Module) -> None:
        """Put the saved parameters into a model of the same make."""
        from safetensors.torch import load_file

        model.load_state_dict(load_file(self.path / MODEL))

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
        path = self.path / LOGITS
        if not path.is_file():
            raise MissingData(f"{path} is not there; delete {self.path} and run the training again.")
        parts = state.load(path)
        if part not in parts:
            raise MissingData(f"the run in {self.path} has no {part} set; it has {', '.join(sorted(parts))}.")
        kept = parts[part]
        return kept["logits"], kept["labels"], kept["groups"]

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
        self._write_frame(WEIGHTS, columns, dataset)
        if paths := dynamics.paths():
            state.save(paths, self.path / PATHS)

    def write_predictions(self, dataset: Dataset, predictions: Mapping[str, Tensor]) -> None:
        """Write a row per test sample: row, label, group and what the model predicts."""
        test = dataset.test
        groups = {} if test.groups is None else {"group": test.groups}
        columns = {"row": dataset.rows["test"], "label": test.labels, **groups, **predictions}
        self._write_frame(PREDICTIONS, columns, dataset)

    def _write_frame(self, name: str, tensors: dict[str, Tensor], dataset: Dataset) -> None:
        import pandas as pd

        columns = {key: t.detach().cpu().numpy() for key, t in tensors.items()}
        frame = pd.DataFrame(columns)
        named = dict.fromkeys(("label", "true_label", "predicted", "suggested"), dataset.label_names)
        for key, names in {**named, "group": dataset.group_names or dataset.label_names}.items():
            if key in columns:  # a code of -1, a group that is not known, becomes a missing value
                frame[key] = pd.Categorical.from_codes(columns[key].astype("int64"), pd.Index(list(names)))
        out = io.BytesIO()
        frame.to_parquet(out, index=False)
        state.write_atomically(self.path / name, out.getvalue())

    def read_weights(self) -> pd.DataFrame:
        found = self._read_frame(WEIGHTS)
        if found is None:
            raise MissingData(f"{self.path / WEIGHTS} is not there; give the folder of a finished run.")
        return found

    def read_predictions(self) -> pd.DataFrame | None:
        """Read the row per test sample, where the run kept it."""
        return self._read_frame(PREDICTIONS)

    def _read_frame(self, name: str) -> pd.DataFrame | None:
        import pandas as pd

        path = self.path / name
        if not path.is_file():
            return None
        try:
            return pd.read_parquet(path)
        except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
            raise BadInput(f"{path} cannot be read ({error}); run the training again.") from error

    def read_paths(self, name: str = "scores") -> tuple[Tensor, Tensor] | None:
        """Read rows [P] and their scores (or weights) after each epoch [epochs, P], where the method moves any."""
        path = self.path / PATHS
        if not path.is_file():
            return None
        kept = state.load(path)
        return (kept["rows"], kept[name].float()) if name in kept else None

    def drop_checkpoint(self) -> None:
        """Delete the checkpoint: a finished run needs none."""
        (self.path / CHECKPOINT).unlink(missing_ok=True)


def read_planned(path: Path, sha256: str, what: str) -> bytes:
    """Read a file that a Spec names; refuse one that has changed since."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise MissingData(f"{path}, which {what}, cannot be read ({error.strerror}).") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise BadInput(f"{path} has changed since the run was planned; plan it again.")
    return content
