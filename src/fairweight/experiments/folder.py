"""A run's folder: what determines it, its log, its numbers, a row per training sample, and the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from fairweight.data import Dataset
from fairweight.dynamics import Dynamics
from fairweight.engine import state
from fairweight.engine.checkpoint import FILE as CHECKPOINT
from fairweight.errors import BadInput, MissingData
from fairweight.metagradient.passes import unwrap
from fairweight.reweight import Reweighter

if TYPE_CHECKING:
    import pandas as pd

RUN, METRICS, WEIGHTS, MODEL, PATHS = (
    "run.json",
    "metrics.json",
    "weights.parquet",
    "model.safetensors",
    "paths.safetensors",
)


class RunFolder:
    """Reads and writes the files of one run; each appears whole or not at all."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def finished(self) -> bool:
        """Whether the run came to its end: its numbers are written last."""
        return (self.path / METRICS).is_file()

    def make(self) -> None:
        """Create the folder, or say in a sentence why not."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(
                f"{self.path} cannot be made ({error.strerror}); choose another folder with --out."
            ) from error

    def read(self, name: str) -> dict[str, Any]:
        """A JSON file of the folder."""
        path = self.path / name
        try:
            values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise MissingData(f"{path} is not there; {self.path} is no finished run, give the folder of one.") from None
        except (OSError, ValueError) as error:
            raise BadInput(f"{path} cannot be read ({error}); run the training again.") from error
        return values

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

    def write_weights(self, dataset: Dataset, reweighter: Reweighter, dynamics: Dynamics) -> None:
        """A row per training sample: row, label, group, score, weight and what happened to it."""
        import io

        import pandas as pd

        columns = {key: t.detach().cpu().numpy() for key, t in weight_columns(dataset, reweighter, dynamics).items()}
        frame = pd.DataFrame(columns)
        for key, names in {
            "label": dataset.label_names,
            "group": dataset.group_names or dataset.label_names,
            "true_label": dataset.label_names,
        }.items():
            if key in columns:  # a code of -1, a group that is not known, becomes a missing value
                frame[key] = pd.Categorical.from_codes(columns[key].astype("int64"), pd.Index(list(names)))
        out = io.BytesIO()
        frame.to_parquet(out, index=False)
        state.write_atomically(self.path / WEIGHTS, out.getvalue())
        if dynamics.score_path and dynamics.path_rows is not None:
            paths = {"rows": dynamics.path_rows, "scores": torch.stack(dynamics.score_path)}
            state.save(paths, self.path / PATHS)

    def read_weights(self) -> pd.DataFrame:
        """The row per training sample."""
        import pandas as pd

        path = self.path / WEIGHTS
        if not path.is_file():
            raise MissingData(f"{path} is not there; give the folder of a finished run.")
        return pd.read_parquet(path)

    def read_paths(self) -> tuple[Tensor, Tensor] | None:
        """Rows [P] and their scores after each epoch [epochs, P], where the method keeps scores."""
        path = self.path / PATHS
        if not path.is_file():
            return None
        kept = state.load(path)
        return kept["rows"], kept["scores"].float()

    def drop_checkpoint(self) -> None:
        """A finished run needs none."""
        (self.path / CHECKPOINT).unlink(missing_ok=True)


def weight_columns(dataset: Dataset, reweighter: Reweighter, dynamics: Dynamics) -> dict[str, Tensor]:
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
    }
    if dataset.true_labels is not None:
        columns["true_label"] = dataset.true_labels
    return columns
