"""A run's training labels, ranked by how probably they are wrong."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairweight.apps.audit import finished, ranked_of
from fairweight.errors import BadInput, NoSpace
from fairweight.report.suspects import RULE, Detection, detection
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
        import json

        rows: list[dict[str, Any]] = json.loads(self.ranked.head(top).to_json(orient="records"))
        return {
            "rule": RULE,
            "n": len(self.ranked),
            "suspected": self.suspected,
            "truth": None if self.found is None else self.found.to_dict(),
            "top": rows,
        }

    def text(self, top: int) -> str:
        """For a terminal."""
        count, total = self.suspected, len(self.ranked)
        lines = [
            f"{count:,} of {total:,} labels look wrong or are hard: over the whole of training the model preferred "
            "another.",
            f"Ranked by {RULE}.",
            "",
            self.ranked.head(top).drop(columns=["suspected"]).to_string(index=False, float_format=lambda v: f"{v:.3g}"),
        ]
        if self.found is not None:
            at = ", ".join(f"{100 * value:.1f} % of the first {k:,}" for k, value in self.found.precision.items())
            lines += [
                "",
                f"{self.found.wrong:,} labels are known to be wrong: AUC {self.found.auc:.4f}; wrong are {at}.",
            ]
            if self.found.suggested_right is not None:
                lines.append(
                    f"The suggested label is the true one for {100 * self.found.suggested_right:.1f} % of them."
                )
        else:
            lines += ["", "The true labels are not known, so nothing says how many of these are wrong: look at them."]
        return "\n".join(lines)

    def write(self, path: str | Path) -> Path:
        """As .csv or .parquet, by the name."""
        where = Path(path)
        content = io.BytesIO()
        if where.suffix == ".parquet":
            self.ranked.to_parquet(content, index=False)
        elif where.suffix == ".csv":
            self.ranked.to_csv(content, index=False)
        else:
            raise BadInput(f"--out {where}: name a file that ends in .csv or .parquet.")
        try:
            write_atomically(where, content.getvalue())
        except OSError as error:
            raise NoSpace(f"{where} cannot be written ({error.strerror}); choose another file with --out.") from error
        return where


def suspects_of(run: str | Path) -> Suspects:
    """Of a finished run."""
    folder = finished(run)
    weights = folder.read_weights()
    ranked = ranked_of(folder, weights)
    shown = [name for name in _SHOWN if name in weights and weights[name].notna().any()]
    if folder.read("metrics.json")["by"] == "label" and "group" in shown:
        shown.remove("group")
    table = ranked.join(weights[["row", *shown]])
    order = ["rank", "row", "suspicion", "suspected", *shown]
    return Suspects(table[order].sort_values("rank").reset_index(drop=True), detection(weights, ranked))
