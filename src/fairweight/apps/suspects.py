"""Rank a run's training labels by how probably they are wrong."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairweight.apps._csv import write_csv
from fairweight.apps.audit import finished, ranked_of
from fairweight.errors import BadInput, NoSpace, option
from fairweight.report.suspects import RULE, Detection, detection
from fairweight.runs.folder import METRICS, SEALED, RunFolder
from fairweight.runs.manifest import FILE as MANIFEST
from fairweight.training.lock import claimed
from fairweight.training.state import write_atomically

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = (
    *("label", "group", "suggested", "predicted", "probability", "true_label"),
    *("score", "ema_loss", "mean_probability_margin"),
)


@dataclass(frozen=True)
class Suspects:
    """Every training label, the most suspect first."""

    ranked: pd.DataFrame
    found: Detection | None  # where the truth is known

    @property
    def suspected(self) -> int:
        """Labels whose average margin is below 0."""
        return int(self.ranked["suspected"].sum())

    def to_dict(self, top: int) -> dict[str, Any]:
        """Plain values, with the first few labels."""
        return {
            "rule": RULE,
            "n": len(self.ranked),
            "suspected": self.suspected,
            "truth": None if self.found is None else self.found.to_dict(),
            "top": json.loads(self.ranked.head(top).to_json(orient="records")),
        }

    def text(self, top: int) -> str:
        """The first few labels, for a terminal."""
        shown = self.ranked.head(top).drop(columns=["suspected"])
        return (
            f"{self.suspected:,} of {len(self.ranked):,} labels look wrong or are hard: over the whole of training the "
            f"model preferred another.\nRanked by {RULE}.\n\n"
            f"{shown.to_string(index=False, float_format=lambda v: f'{v:.3g}')}\n\n{self._truth()}"
        )

    def _truth(self) -> str:
        if self.found is None:
            return "The true labels are not known, so nothing says how many of these are wrong: look at them."
        at = ", ".join(f"{100 * value:.1f} % of the first {k:,}" for k, value in self.found.precision.items())
        said = f"{self.found.wrong:,} labels are known to be wrong: AUC {self.found.auc:.4f}; wrong are {at}."
        if self.found.suggested_right is None:
            return said
        return f"{said}\nThe suggested label is the true one for {100 * self.found.suggested_right:.1f} % of them."

    def write(self, path: str | Path) -> Path:
        """Write all labels as .csv or .parquet, by the file's name."""
        where, content = Path(path), io.BytesIO()
        if where.suffix == ".parquet":
            self.ranked.to_parquet(content, index=False, write_page_checksum=True)
        elif where.suffix == ".csv":
            write_csv(self.ranked, content)
        else:
            raise BadInput(f"{option('out', where)}: name a file that ends in .csv or .parquet.")
        try:
            if where.name in SEALED and (where.parent / MANIFEST).is_file():
                with claimed(where.parent):
                    RunFolder(where.parent).put({where.name: content.getvalue()})
            else:
                write_atomically(where, content.getvalue())
        except OSError as error:
            raise NoSpace(
                f"{where} cannot be written ({error.strerror}); choose another file with {option('out')}."
            ) from error
        return where


def suspects_of(run: str | Path) -> Suspects:
    """The labels of a finished run, ranked."""
    folder = finished(run)
    weights = folder.read_weights()
    ranked = ranked_of(folder, weights)
    shown = [name for name in _SHOWN if name in weights and weights[name].notna().any()]
    if folder.read(METRICS)["by"] == "label" and "group" in shown:
        shown.remove("group")
    table = ranked.join(weights[["row", *shown]])
    order = ["rank", "row", "suspicion", "suspected", *shown]
    return Suspects(table[order].sort_values("rank").reset_index(drop=True), detection(weights, ranked))
