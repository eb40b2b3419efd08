"""Learn a weight for every row of a table and stop: any trainer that takes sample weights can use them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairweight.apps.candidates import Tell
from fairweight.apps.deliver import Search, search
from fairweight.apps.judge import NOTHING
from fairweight.apps.train import Prepared
from fairweight.errors import BadInput
from fairweight.runs.folder import frame_of
from fairweight.runs.run_place import check_file, check_place
from fairweight.runs.spec_data import files_named
from fairweight.runs.table_file import check_table_file, write_table


@dataclass(frozen=True)
class Weights:
    """A weight for every row that is not for test, and how they were chosen."""

    search: Search
    path: Path

    def to_dict(self) -> dict[str, Any]:
        return {"path": str(self.path), "rows": len(self.search.fitted.weights), **self.search.to_dict()}

    def text(self) -> str:
        if self.search.kept_plain:
            why = "No weights beat plain training" if self.search.why == NOTHING else self.search.why
            return f"{why}, so every row counts 1: {self.path}"
        rows = len(self.search.fitted.weights)
        message = f"Weights of {self.search.chosen.title}, mean 1, for {rows:,} rows: {self.path}"
        if self.search.chosen.shift is not None:
            message += "\nIts bias per class is no weight: `fairweight train` gives the model that has it."
        return message


def weights(prepared: Prepared, out: str | Path, *, device: str = "cpu", tell: Tell | None = None) -> Weights:
    """Search as `train` does and write row, label, group and weight as parquet, or as CSV by the file's name."""
    if prepared.request is None:
        raise BadInput("weights are learned for tables here; train an image model, whose folder holds its weights.")
    check_table_file(Path(out), "weights.parquet")  # before minutes of training
    check_file(Path(out), *files_named(prepared.spec))
    check_place(Path(out).absolute().parent)
    goal, seed = prepared.goal, prepared.spec.seed
    found = search(prepared.dataset, prepared.request, goal, seed=seed, device=device, tell=tell)
    whole = found.dataset
    train = whole.train
    columns = {"row": whole.rows["train"], "label": train.labels}
    columns |= {"group": train.labels if train.groups is None else train.groups}
    columns |= {"weight": found.fitted.weights.double()}
    write_table(frame_of(columns, whole), Path(out), "weights.parquet")
    return Weights(found, Path(out))
