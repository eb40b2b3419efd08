"""Learn a weight for every row of a table and stop: any trainer that takes sample weights can use them."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from fairweight.apps.deliver import Search, search
from fairweight.apps.train import Prepared
from fairweight.data.safe_csv import write_csv
from fairweight.errors import BadInput, NoSpace, option
from fairweight.training import state

if TYPE_CHECKING:
    from fairweight.apps.candidates import Tell


@dataclass(frozen=True)
class Weights:
    """A weight for every row that is not for test, and how they were chosen."""

    search: Search
    path: Path

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"path": str(self.path), "rows": len(self.search.fitted.weights), **self.search.to_dict()}

    def text(self) -> str:
        """What was written, for people."""
        if self.search.kept_plain:
            return f"No weights beat plain training, so every row counts 1: {self.path}"
        return (
            f"Weights of {self.search.chosen.title}, mean 1, for {len(self.search.fitted.weights):,} rows: {self.path}"
        )


def weights(prepared: Prepared, out: str | Path, *, device: str = "cpu", tell: Tell | None = None) -> Weights:
    """Search as `train` does and write row, label, group and weight as parquet, or as CSV by the file's name."""
    path = Path(out)
    if prepared.asked is None:
        raise BadInput("weights are learned for tables here; train an image model, whose folder holds its weights.")
    if path.is_dir():
        raise BadInput(f"{option('out', path)} is a folder; name a file, such as {path / 'weights.parquet'}.")
    found = search(prepared.dataset, prepared.asked, seed=prepared.spec.seed, device=device, tell=tell)
    whole = found.dataset
    label_names, group_names = pd.Index(list(whole.label_names)), pd.Index(list(whole.group_names or whole.label_names))
    groups = whole.train.labels if whole.train.groups is None else whole.train.groups
    frame = pd.DataFrame(
        {
            "row": whole.rows["train"].numpy(),
            "label": pd.Categorical.from_codes(whole.train.labels.numpy(), label_names),
            "group": pd.Categorical.from_codes(groups.numpy(), group_names),
            "weight": found.fitted.weights.double().numpy(),
        }
    )
    content = io.BytesIO()
    if path.suffix.lower() == ".csv":
        write_csv(frame, content)
    else:
        frame.to_parquet(content, index=False, write_page_checksum=True)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        state.write_atomically(path, content.getvalue())
    except OSError as error:
        raise NoSpace(f"{path} cannot be written ({error.strerror}); choose another {option('out')}.") from error
    return Weights(found, path)
