"""Read and write a run's folder: what determines it, its log, its numbers, a row per sample, and the model."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import Tensor, nn

from fairweight.data import Dataset, Preprocessing, preprocessing_from
from fairweight.errors import BadCheckpoint, BadInput, Damaged, FolderRefused, MissingData, option
from fairweight.metagradient.model import unwrap
from fairweight.methods import Reweighter
from fairweight.runs import frames, schema
from fairweight.runs.manifest import AGAIN, Manifest, leads_out
from fairweight.runs.manifest import FILE as MANIFEST
from fairweight.runs.manifest import VERSION as MANIFEST_VERSION
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
SUSPECTS = "suspects.csv"
# In the order in which they are deleted: what says that the run is finished first, what says that it is one last.
FILES = (
    *(MANIFEST, METRICS, WEIGHTS, MODEL, PATHS, LOGITS, PREDICTIONS, PREPROCESSING, CHECKPOINT, LOG, *AUDIT, SUSPECTS),
    RUN,
)
SEALED = tuple(name for name in FILES if name not in (MANIFEST, CHECKPOINT))  # what a manifest holds
READ = tuple(name for name in SEALED if name not in (*AUDIT, SUSPECTS))  # what readers rely on
MOST_JSON = 2**28  # bytes: a larger file was not written by a run


class RunFolder:
    """Reads and writes the files of one run; each appears whole or not at all, and is verified when it is read."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._whole: dict[str, tuple[int, int, int]] = {}  # by file: what it looked like when it was verified

    @property
    def beside(self) -> Path:
        """The folder that it lies in, with the runs beside it."""
        # "." and ".." have it in no name
        return self.path.resolve().parent if self.path.name in ("", "..") else self.path.parent

    @property
    def finished(self) -> bool:
        """True if the run came to its end: its manifest is written last; of runs from before, its numbers."""
        if not (self.path / METRICS).is_file():
            return False
        return (self.path / MANIFEST).is_file() or not self._promised()

    @property
    def started(self) -> bool:
        return (self.path / RUN).is_file()

    @property
    def resumable(self) -> bool:
        """True if there is a checkpoint or a finished run."""
        return self.finished or (self.path / CHECKPOINT).is_file()

    @property
    def verified(self) -> bool:
        """True if there is a manifest, so that every file is checked when it is read; runs from before have none."""
        return (self.path / MANIFEST).is_file()

    def _promised(self) -> bool:
        """Whether run.json says that a manifest belongs to the run."""
        try:
            about = json.loads((self.path / RUN).read_bytes()) if self.started else None
        except (OSError, ValueError, RecursionError):
            return False
        return isinstance(about, dict) and bool(about.get("manifest"))

    def clear(self) -> None:
        """Delete what a run writes, and nothing else."""
        for name in FILES:
            (self.path / name).unlink(missing_ok=True)

    def tidy(self, *names: str) -> None:
        """Delete what killed writers left half-written of the run's files, and of these."""
        if self.path.is_dir():
            for name in (*FILES, *names):
                state.clear(self.path / name)

    def seal(self, *names: str) -> None:
        """Write the manifest of all files of the run, and of these: from now on they are verified."""
        Manifest.of(self.path, [*SEALED, *names]).write(self.path)

    def put(self, files: Mapping[str, bytes]) -> None:
        """Add files to a finished run, or replace them; whenever this is killed, the run is whole."""
        sealed = Manifest.read(self.path)
        if sealed is not None:
            sealed.while_replaced(files).write(self.path)
        for name, content in files.items():
            state.write_atomically(self.path / name, content)
        if sealed is not None:
            sealed.with_(self.path, files).write(self.path)

    def copy(self, other: RunFolder, names: Iterable[str]) -> None:
        """Take these files of another run as they are, and delete those that it lacks."""
        for name in names:
            if (other.path / name).is_file():
                state.write_atomically(self.path / name, other.checked(name).read_bytes())
            else:
                (self.path / name).unlink(missing_ok=True)

    def checked(self, name: str) -> Path:
        """Where a file of the run is, once it has been seen to be a regular file and as the manifest has it."""
        path = self.path / name
        try:
            about = path.stat()
            if not path.is_file():
                raise Damaged(f"{path} is no regular file; {AGAIN}.")
            if leads_out(path):
                raise Damaged(f"{path} is a link that leads out of the run's folder; put the file itself there.")
            looks = (about.st_mtime_ns, about.st_size, about.st_ino)
            if self._whole.get(name) != looks:
                self._verify(path)
                self._whole[name] = looks
        except FileNotFoundError:
            raise MissingData(f"{path} is not there; {self.path} is no finished run, give the folder of one.") from None
        except OSError as error:
            raise BadInput(f"{path} cannot be read ({error.strerror}); {AGAIN}.") from error
        return path

    def _verify(self, path: Path) -> None:
        manifest = Manifest.read(self.path)
        if manifest is None:
            if path.name in SEALED and path.name != RUN and (self.path / METRICS).is_file() and self._promised():
                raise Damaged(
                    f"{self.path / MANIFEST} is not there, so the run has not come to its end or was changed; "
                    "start the same training again."
                )
        elif (path.name in manifest.files or path.name in SEALED) and (found := manifest.problem(path)):
            raise Damaged(f"{path} cannot be relied on ({found}: changed or damaged since); {AGAIN}.")

    def verify_all(self) -> None:
        """Refuse a finished run of which any file is not as it was written; end what a kill left between two."""
        manifest = Manifest.read(self.path)
        if manifest is not None:
            for name in {**manifest.files, **dict.fromkeys(name for name in READ if (self.path / name).exists())}:
                self.checked(name)
        if manifest is not None and manifest.unsettled:
            manifest.with_(self.path, manifest.unsettled).write(self.path)

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
        path = self.checked(name)
        try:
            if path.stat().st_size > MOST_JSON:
                raise ValueError("it is far too large")
            values = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise BadInput(f"{path} cannot be read ({error}); {AGAIN}.") from error
        found = schema.problem_of(name, values)
        if found is not None:
            raise BadInput(f"{path} is not as a run writes it: {found}; {AGAIN}.")
        return dict(values)

    def read_spec(self) -> Spec:
        return Spec.from_dict(self.read(RUN)["spec"])

    def write(self, name: str, values: dict[str, Any]) -> None:
        self.put({name: (json.dumps(values, indent=2) + "\n").encode()})

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
        import pandas as pd

        columns = {key: t.detach().cpu().numpy() for key, t in tensors.items()}
        frame = pd.DataFrame(columns)
        named = dict.fromkeys(("label", "true_label", "predicted", "suggested"), dataset.label_names)
        for key, names in {**named, "group": dataset.group_names or dataset.label_names}.items():
            if key in columns:  # a code of -1, a group that is not known, becomes a missing value
                frame[key] = pd.Categorical.from_codes(columns[key].astype("int64"), pd.Index(list(names)))
        out = io.BytesIO()
        frame.to_parquet(out, index=False, write_page_checksum=True)
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

        if not (self.path / name).exists():
            return None
        path = self.checked(name)
        try:
            frame = pd.read_parquet(path, page_checksum_verification=True)
        except (
            OSError,
            ValueError,
            TypeError,
            KeyError,
            NotImplementedError,
        ) as error:  # pyarrow's own are ValueErrors
            what = str(error).strip().split("\n")[0]
            raise BadInput(f"{path} cannot be read ({what}); {AGAIN}.") from error
        if found := frames.problem(frame, name):
            raise BadInput(f"{path} is not as a run writes it: {found}; {AGAIN}.")
        return frame

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


def read_planned(path: Path, sha256: str, what: str) -> bytes:
    """Read a file that a Spec names; refuse one that has changed since."""
    try:
        if path.exists() and not path.is_file():
            raise BadInput(f"{path}, which {what}, is no regular file; plan the run again.")
        content = path.read_bytes()
    except OSError as error:
        raise MissingData(f"{path}, which {what}, cannot be read ({error.strerror}).") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise BadInput(f"{path} has changed since the run was planned; plan it again.")
    return content
