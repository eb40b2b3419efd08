"""A run's folder: what determines it, its log, its numbers, a row per training sample, and the model."""

from __future__ import annotations

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
from fairweight.runs.final_predictions import Opinions
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
        """The folder that it lies in, with the runs beside it; "." and ".." have it in no name."""
        return self.path.resolve().parent if self.path.name in ("", "..") else self.path.parent

    @property
    def finished(self) -> bool:
        """Whether the run came to its end: its numbers are written last."""
        return (self.path / METRICS).is_file()

    @property
    def started(self) -> bool:
        """Whether a run was begun here."""
        return (self.path / RUN).is_file()

    @property
    def resumable(self) -> bool:
        """Whether there is anything to take up: a checkpoint, or a finished run."""
        return self.finished or (self.path / CHECKPOINT).is_file()

    def clear(self) -> None:
        """Delete what a run writes, and nothing else."""
        for name in FILES:
            (self.path / name).unlink(missing_ok=True)

    def holds(self, spec: Spec, dataset: Dataset | None = None) -> bool:
        """Whether the run that stands here, finished or not, is the Spec's, and of the same rows where they are given.

        A Spec names its file; only the data knows whether what is in the file has changed.
        """
        if not self.started:
            return False
        found = self.read(RUN)
        if found.get("fingerprint") != spec.fingerprint:
            return False
        return dataset is None or found.get("data", {}).get("fingerprint") == dataset.fingerprint

    def make(self) -> None:
        """Create the folder, or say in a sentence why not; one that is there must take files."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FolderRefused(
                f"{self.path} cannot be made ({error.strerror}); choose another folder with {option('out')}."
            ) from error
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise FolderRefused(f"{self.path} cannot be written to; choose another folder with {option('out')}.")

    def read(self, name: str) -> dict[str, Any]:
        """A JSON file of the folder."""
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
        """What determines the run."""
        values = self.read(RUN).get("spec")
        if not isinstance(values, dict) or "source" not in values:
            raise BadInput(f"{self.path / RUN} is not as a run writes it; train that run again.")
        return Spec.from_dict(values)

    def write(self, name: str, values: dict[str, Any]) -> None:
        """A JSON file of the folder."""
        state.write_atomically(self.path / name, (json.dumps(values, indent=2) + "\n").encode())

    def write_model(self, model: nn.Module) -> None:
        """The model's parameters and buffers."""
        from safetensors.torch import save

        kept = {key: t.detach().to("cpu", copy=True).contiguous() for key, t in unwrap(model).state_dict().items()}
        state.write_atomically(self.path / MODEL, save(kept))

    def read_model(self, model: nn.Module) -> None:
        """Put the saved parameters into a model of the same make."""
        from safetensors.torch import load_file

        model.load_state_dict(load_file(self.path / MODEL))

    def read_preprocessing(self) -> Preprocessing:
        """The way from new rows to inputs, as it was fixed on this run's train rows."""
        return preprocessing_from(self.read(PREPROCESSING))

    def write_logits(self, parts: Mapping[str, tuple[Samples, Tensor]]) -> None:
        """The final model's logits on each part, with labels and groups: what a moved threshold is computed from."""
        kept = {
            name: {"logits": found, "labels": samples.labels, "groups": samples.groups}
            for name, (samples, found) in parts.items()
        }
        state.save(kept, self.path / LOGITS)

    def read_logits(self, part: str) -> tuple[Tensor, Tensor, Tensor | None]:
        """Logits [N, K], labels [N] and groups [N] of a part."""
        path = self.path / LOGITS
        if not path.is_file():
            raise MissingData(f"{path} is not there; delete {self.path} and run the training again.")
        parts = state.load(path)
        if part not in parts:
            raise MissingData(f"the run in {self.path} has no {part} set; it has {', '.join(sorted(parts))}.")
        kept = parts[part]
        return kept["logits"], kept["labels"], kept["groups"]

    def write_weights(
        self, dataset: Dataset, reweighter: Reweighter, dynamics: Dynamics, said: Opinions | None = None
    ) -> None:
        """A row per training sample: row, label, group, score, weight, what happened to it, what the model says."""
        self._write_frame(WEIGHTS, weight_columns(dataset, reweighter, dynamics, said), dataset)
        if paths := dynamics.paths():
            state.save(paths, self.path / PATHS)

    def write_predictions(self, dataset: Dataset, said: Opinions) -> None:
        """A row per test sample: row, label, group and what the model says."""
        test = dataset.test
        groups = {} if test.groups is None else {"group": test.groups}
        columns = {"row": dataset.rows["test"], "label": test.labels, **groups, **_said(said)}
        self._write_frame(PREDICTIONS, columns, dataset)

    def _write_frame(self, name: str, tensors: dict[str, Tensor], dataset: Dataset) -> None:
        import io

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
        """The row per training sample."""
        found = self._read_frame(WEIGHTS)
        if found is None:
            raise MissingData(f"{self.path / WEIGHTS} is not there; give the folder of a finished run.")
        return found

    def read_predictions(self) -> pd.DataFrame | None:
        """The row per test sample, where the run kept it."""
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
        """Rows [P] and their scores (or weights) after each epoch [epochs, P], where the method has any that move."""
        path = self.path / PATHS
        if not path.is_file():
            return None
        kept = state.load(path)
        return (kept["rows"], kept[name].float()) if name in kept else None

    def drop_checkpoint(self) -> None:
        """A finished run needs none."""
        (self.path / CHECKPOINT).unlink(missing_ok=True)


def weight_columns(
    dataset: Dataset, reweighter: Reweighter, dynamics: Dynamics, said: Opinions | None = None
) -> dict[str, Tensor]:
    """The columns of weights.parquet."""  # [N] each
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
        **({} if said is None else _said(said)),
    }
    if dataset.true_labels is not None:
        columns["true_label"] = dataset.true_labels
    return columns


def _said(said: Opinions) -> dict[str, Tensor]:
    return {"predicted": said.predicted, "probability": said.probability, "suggested": said.suggested}
