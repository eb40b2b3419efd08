"""Read and write what is in a run's folder: what determines it, its numbers, a row per sample, and the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import Tensor, nn

from fairweight.data import Dataset, Preprocessing, preprocessing_from
from fairweight.errors import BadCheckpoint, BadInput, MissingData
from fairweight.metagradient.model import unwrap
from fairweight.methods import Reweighter
from fairweight.runs import frames
from fairweight.runs.manifest import AGAIN
from fairweight.runs.manifest import VERSION as MANIFEST_VERSION
from fairweight.runs.sealed import (
    LOGITS,
    METRICS,
    MODEL,
    PATHS,
    PREDICTIONS,
    PREPROCESSING,
    READ,
    RUN,
    SEALED,
    WEIGHTS,
    SealedFolder,
)  # fmt: skip
from fairweight.runs.spec import Spec
from fairweight.training import state
from fairweight.training.checkpoint import FILE as CHECKPOINT
from fairweight.training.history import Dynamics
from fairweight.training.log import FILE as LOG
from fairweight.types import Samples

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "LOG",
    "LOGITS",
    "METRICS",
    "MODEL",
    "PREDICTIONS",
    "PREPROCESSING",
    "READ",
    "RUN",
    "SEALED",
    "WEIGHTS",
    "RunFolder",
]


class RunFolder(SealedFolder):
    """The folder of one run."""

    def holds(self, spec: Spec, dataset: Dataset | None = None) -> bool:
        """True if the run that stands here, finished or not, is the Spec's, and of the same data if given."""
        if not self.started:
            return False
        found = self.read(RUN)
        if found.get("fingerprint") != spec.fingerprint:
            return False
        return dataset is None or found.get("data", {}).get("fingerprint") == dataset.fingerprint

    def read_spec(self) -> Spec:
        return Spec.from_dict(self.read(RUN)["spec"])

    def write_run(self, spec: Spec, dataset: Dataset, about: Mapping[str, Any]) -> None:
        """Write what determines the run, the data that was found, and where it is trained."""
        data = {**dataset.spec, "fingerprint": dataset.fingerprint, "notes": list(dataset.notes)}
        told = {"spec": spec.to_dict(), "fingerprint": spec.fingerprint, "data": data, **about}
        self.write(RUN, {**told, "manifest": MANIFEST_VERSION})

    def write_model(self, model: nn.Module) -> None:
        from safetensors.torch import save

        kept = {key: t.detach().to("cpu", copy=True).contiguous() for key, t in unwrap(model).state_dict().items()}
        state.write_atomically(self.path / MODEL, save(kept))

    def read_tensors(self) -> dict[str, Tensor]:
        """Read the saved parameters by name."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        path = self.checked(MODEL)
        try:
            return load_file(path)
        except (OSError, RuntimeError, TypeError, ValueError, SafetensorError) as error:
            raise BadInput(f"{path} cannot be read ({error}); {AGAIN}.") from error

    def read_model(self, model: nn.Module) -> None:
        """Put the saved parameters into a model of the same make."""
        tensors = self.read_tensors()
        try:
            model.load_state_dict(tensors)
        except (RuntimeError, TypeError, ValueError) as error:
            what = str(error).strip().split("\n")[0]
            raise BadInput(f"{self.path / MODEL} does not fit the run ({what}); run the training again.") from error

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
        found, labels, groups = (kept.get(key) for key in ("logits", "labels", "groups"))
        if not isinstance(found, Tensor) or found.ndim not in (1, 2) or not _whole(labels, len(found)):
            raise BadInput(f"{self.path / LOGITS} is not as a run writes it: {part}; {AGAIN}.")
        if groups is not None and not _whole(groups, len(found)):
            raise BadInput(f"{self.path / LOGITS} is not as a run writes it: {part}.groups; {AGAIN}.")
        assert isinstance(labels, Tensor)
        return found, labels, groups

    def _read_tree(self, name: str) -> dict[str, Any]:
        try:
            tree = state.load(self.checked(name))
        except BadCheckpoint as error:
            raise BadInput(f"{self.path / name} cannot be read ({error.__cause__}); {AGAIN}.") from error
        if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
            raise BadInput(f"{self.path / name} is not as a run writes it; {AGAIN}.")
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
        state.write_atomically(self.path / name, frames.to_parquet(tensors, dataset))

    def read_weights(self) -> pd.DataFrame:
        found = self._read_frame(WEIGHTS)
        if found is None:
            raise MissingData(f"{self.path / WEIGHTS} is not there; give the folder of a finished run.")
        return found

    def read_predictions(self) -> pd.DataFrame | None:
        """Read the row per test sample, where the run kept it."""
        return self._read_frame(PREDICTIONS)

    def _read_frame(self, name: str) -> pd.DataFrame | None:
        return frames.read(self.checked(name), AGAIN) if (self.path / name).exists() else None

    def read_paths(self, name: str = "scores") -> tuple[Tensor, Tensor] | None:
        """Read rows [P] and their scores (or weights) after each epoch [epochs, P], where the method moves any."""
        if not (self.path / PATHS).exists():
            return None
        kept = self._read_tree(PATHS)
        rows, found = kept.get("rows"), kept.get(name)
        if found is None:
            return None
        if not _whole(rows) or not isinstance(found, Tensor) or found.ndim != 2 or found.shape[1] != len(rows):
            raise BadInput(f"{self.path / PATHS} is not as a run writes it: {name}; {AGAIN}.")
        return rows, found.float()

    def drop_checkpoint(self) -> None:
        """Delete the checkpoint: a finished run needs none."""
        (self.path / CHECKPOINT).unlink(missing_ok=True)


def _whole(values: Any, length: int | None = None) -> TypeGuard[Tensor]:
    """Whether this is a list of whole numbers, of that length if given."""
    fits = isinstance(values, Tensor) and values.ndim == 1 and not values.is_floating_point()
    return fits and (length is None or len(values) == length)
