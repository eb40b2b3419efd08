"""Rank a run's training labels by how probably they are wrong."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairweight.apps._drop_rules import FLOOR
from fairweight.apps._wrong_labels import ranked_labels
from fairweight.apps.audit import finished
from fairweight.data.safe_csv import write_csv
from fairweight.errors import BadInput, NoSpace, option
from fairweight.report.suspects import Detection, detection
from fairweight.runs.folder import METRICS, SEALED, RunFolder
from fairweight.runs.manifest import FILE as MANIFEST
from fairweight.training.lock import claimed
from fairweight.training.state import write_atomically

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = (
    *("given", "suggested", "label", "group", "predicted", "probability", "true_label"),
    *("weight", "score", "ema_loss", "mean_probability_margin"),
)
SUGGESTED, SOFT = "suggested", "soft"  # ways to relabel


@dataclass(frozen=True)
class Suspects:
    """Every training label, the most suspect first."""

    ranked: pd.DataFrame
    found: Detection | None  # where the truth is known
    rule: str
    counts: list[dict[str, Any]]  # how many are wrong: all, by label, by group; empty where no row is trusted
    chances: Mapping[str, Any]  # by label: [N] chance that it is the true one, in the order of `ranked`; may be empty
    hard: int = 0
    confident: int | None = None  # how many cleanlab holds wrong, where it is installed

    @property
    def suspected(self) -> int:
        """Labels that look wrong: another is more probable, or the margin is below 0."""
        return int(self.ranked["suspected"].sum())

    def to_dict(self, top: int) -> dict[str, Any]:
        """Plain values, with the first few labels."""
        return {
            "rule": self.rule,
            "n": len(self.ranked),
            "suspected": self.suspected,
            "hard": self.hard if self.counts else None,
            "wrong": self.counts,
            "cleanlab": self.confident,
            "truth": None if self.found is None else self.found.to_dict(),
            "top": json.loads(self.ranked.head(top).to_json(orient="records")),
        }

    def text(self, top: int) -> str:
        """The first few labels, for a terminal."""
        shown = self.ranked.head(top).drop(columns=["suspected", "label"])
        table = shown.to_string(index=False, float_format=lambda v: f"{v:.3g}", na_rep="")
        return f"{self._opening()}\nRanked by {self.rule}.\n\n{table}\n\n{self._truth()}"

    def _opening(self) -> str:
        if not self.counts:
            return (
                f"{self.suspected:,} of {len(self.ranked):,} labels look wrong or are hard: the model prefers "
                f"another.{self._beside()} How many are wrong cannot be said without trusted rows: give exemplars "
                f"whose labels were checked with {option('exemplar.source')} or {option('split.column')}."
            )
        whole, *parts = self.counts
        lines = [
            f"About {whole['wrong']:,.0f} of {whole['n']:,} labels are wrong, 95 % interval {whole['low']:,.0f} to "
            f"{whole['high']:,.0f}{'' if whole['low'] > 0 else ': nothing shows that any is'}. {self.suspected:,} look "
            f"wrong: another label is more probable. {self.hard:,} more are hard: their inputs speak for another "
            f"label, and the given one still stands.{self._beside()}"
        ]
        for part in parts[:20]:
            lines.append(
                f"  {part['by']} {part['name']}: {part['wrong']:,.0f} of {part['n']:,} "
                f"({part['low']:,.0f} to {part['high']:,.0f})"
            )
        return "\n".join(lines)

    def _beside(self) -> str:
        return "" if self.confident is None else f" cleanlab's confident learning names {self.confident:,}."

    def _truth(self) -> str:
        if self.found is None:
            return "The true labels are not known, so nothing says which of these are wrong: look at them."
        at = ", ".join(f"{100 * value:.1f} % of the first {k:,}" for k, value in self.found.precision.items())
        said = f"{self.found.wrong:,} labels are known to be wrong: AUC {self.found.auc:.4f}; wrong are {at}."
        if self.found.suggested_right is None:
            return said
        return f"{said}\nThe suggested label is the true one for {100 * self.found.suggested_right:.1f} % of them."

    def relabelled(self, how: str = SUGGESTED) -> pd.DataFrame:
        """Every row with its label mended: `suggested` puts the more probable label, `soft` the chance of each."""
        if how not in (SUGGESTED, SOFT):
            raise BadInput(f"{option('relabel', how)}: choose {SUGGESTED} or {SOFT}.")
        if not self.chances:
            raise BadInput(
                f"labels are mended beside trusted rows, and this run has none: give exemplars whose labels were "
                f"checked with {option('exemplar.source')}, or say that they were with {option('trust')}."
            )
        names = list(self.chances)
        table = self.ranked[["row", "given"]].copy()
        if how == SOFT:
            for name in names:
                table[f"chance of {name}"] = self.chances[name]
        else:
            table["label"] = (
                self.ranked["suggested"].astype(object).where(self.ranked["suggested"].notna(), self.ranked["given"])
            )
        return table.sort_values("row").reset_index(drop=True)

    def kept(self) -> pd.DataFrame:
        """The rows that stay when labels that look wrong are dropped; at least half of every cell stays."""
        table: pd.DataFrame = self.ranked.loc[stays(self.ranked), ["row", "given"]]
        return table.sort_values("row").reset_index(drop=True)

    def write(self, path: str | Path) -> Path:
        """Write all labels as .csv or .parquet, by the file's name."""
        return write_table(self.ranked, path)


def stays(ranked: pd.DataFrame, floor: int = FLOOR) -> Any:
    """True where a row stays when suspected ones are dropped: the most suspect go, at most half of any cell."""  # [N]
    import numpy as np

    cells = ranked[["given"]].assign(group=ranked["group"].astype(str) if "group" in ranked else "").astype(str)
    sizes = cells.groupby(["given", "group"])["given"].transform("size").to_numpy()
    order = ranked["rank"].where(ranked["suspected"], len(ranked) + ranked["rank"])
    turn = order.groupby([cells["given"], cells["group"]]).rank().to_numpy()
    most = np.minimum(sizes // 2, (sizes - floor).clip(min=0))
    return ~(ranked["suspected"].to_numpy() & (turn <= most))


def check_name(path: str | Path) -> Path:
    """The file's path, refused where its name says no format that is written."""
    where = Path(path)
    if where.suffix not in (".csv", ".parquet"):
        raise BadInput(f"{option('out', where)}: name a file that ends in .csv or .parquet.")
    return where


def write_table(table: pd.DataFrame, path: str | Path) -> Path:
    """Write a table as .csv or .parquet, by the file's name."""
    where, content = check_name(path), io.BytesIO()
    if where.suffix == ".parquet":
        table.to_parquet(content, index=False, write_page_checksum=True)
    else:
        write_csv(table, content)
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


def suspects_of(run: str | Path, *, trust: bool | None = None) -> Suspects:
    """The labels of a finished run, ranked; trust: whether its exemplars are right, None decides by how they came."""
    import pandas as pd

    folder = finished(run)
    weights = folder.read_weights()
    ranked = ranked_labels(folder, weights, trust=trust)
    noise, table = ranked.noise, ranked.table.copy()
    weights = weights.assign(given=weights["label"])
    if noise is not None:  # empty where the label stands
        names = pd.Series(ranked.label_names, dtype="object")
        said = names.take(noise.suggested).set_axis(weights.index)
        weights["suggested"] = said.where(table["suspected"])
    shown = [name for name in _SHOWN if name in weights and (name == "suggested" or weights[name].notna().any())]
    if folder.read(METRICS)["by"] == "label" and "group" in shown:
        shown.remove("group")
    measures = [name for name in ("posterior",) if name in table]
    table = table.join(weights[["row", *shown]])
    if "group" in shown:
        table["cell"] = table["given"].astype(str) + ", " + table["group"].astype(object).fillna("?").astype(str)
    order = ["rank", "row", "suspicion", *measures, "suspected", *shown, *(["cell"] if "group" in shown else [])]
    hard = int(ranked.table["hard"].sum()) if noise is not None else 0
    places = table["rank"].to_numpy().argsort()
    chances = {} if noise is None else {name: noise.posterior[places, k] for k, name in enumerate(ranked.label_names)}
    result = table[order].iloc[places].reset_index(drop=True)
    truth = detection(weights, ranked.table)
    return Suspects(result, truth, ranked.rule, ranked.counts(), chances, hard, ranked.confident())
