"""Rank a run's training labels by how probably they are wrong, by the rule that fits what the run has: docs/audit.md.

Exemplars are trusted where they were given for the purpose, by a file or a column of the user's, or where labels of
train were made wrong on purpose and theirs were not. Those drawn from train carry its wrong labels. Without trust the
margin ranks. Opinions are held out where the run keeps such ones (runs/held_out.py), else the finished model's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairweight.apps._drop_rules import FLOOR
from fairweight.errors import BadInput, MissingData, option
from fairweight.metrics.label_noise import LabelNoise, label_noise
from fairweight.report.suspects import HELD_OUT, RULE, Detection, detection, margin_of, places, suspicion
from fairweight.runs.folder import FILE, METRICS, PREPROCESSING, RUN, RunFolder
from fairweight.runs.held_out import PARTS as HELD_OUT_PARTS
from fairweight.runs.held_out import opinion_of, trusts_exemplars
from fairweight.runs.run_place import finished

Array = np.ndarray[Any, Any]

CLEAR = 0.95  # share of trusted rows that the model has right, from which classes hardly overlap
POOR = 0.8  # share of trusted pictures below which the finished model cannot count: benchmarks/arena_images.py
CHANCE = "the chance that a label is wrong (estimated per label and group with trusted exemplars, by probabilities of"
POSTERIOR = f"{CHANCE} models that were not trained on the row)"
FINISHED = f"{CHANCE} the finished model)"
BOTH = f"the mean of two ranks: by {FINISHED}, and by the average probability margin over training"
LEARNED = "the average probability margin over training, as the model errs on trusted pictures or repeats its labels"
_SHOWN = (
    *("file", "given", "suggested", "label", "group", "predicted", "probability", "true_label"),
    *("weight", "score", "ema_loss", "mean_probability_margin"),
)
SUGGESTED, SOFT = "suggested", "soft"  # ways to relabel


@dataclass(frozen=True)
class Suspects:
    """Suspicion of every training label, in the order of weights.parquet."""

    weights: pd.DataFrame
    table: pd.DataFrame  # code, rank, suspicion, suspected; with trusted rows also hard, posterior and true_code
    rule: str
    noise: LabelNoise | None  # None: no trusted rows
    label_names: tuple[str, ...]
    group_names: tuple[str, ...]  # empty: the label stands for the group
    chances: Array | None  # [N, K] held out, where there are such

    def counts(self) -> list[dict[str, Any]]:
        """How many labels are wrong, with an interval: in all, by given label and by group; empty without trust."""
        if self.noise is None:
            return []
        there = {"label": (self.label_names, self.noise.labels), "group": (self.group_names, self.noise.groups)}
        found = [("all", "", self.noise.count())] + [
            (by, name, self.noise.count(**{by: k}))
            for by, (names, codes) in there.items()
            for k, name in enumerate(names)
            if (codes == k).any()
        ]
        return [{"by": by, "name": n, "n": e.n, "wrong": e.value, "low": e.low, "high": e.high} for by, n, e in found]

    def confident(self) -> int | None:
        """How many labels cleanlab's confident learning holds wrong, by the held-out opinion; None without it."""
        try:
            from cleanlab.count import num_label_issues
        except ImportError:
            return None
        return None if self.chances is None else int(num_label_issues(self.table["code"].to_numpy(), self.chances))

    @cached_property
    def _labels(self) -> pd.DataFrame:
        """The weights with the label as it was given and, where another is more probable, that one."""
        frame = self.weights.assign(given=self.weights["label"])
        if self.noise is not None:  # empty where the label stands
            suggested = pd.Series(self.label_names, dtype="object").take(self.noise.suggested).set_axis(frame.index)
            frame["suggested"] = suggested.where(self.table["suspected"])
        return frame

    @cached_property
    def found(self) -> Detection | None:
        """How well the ranking finds wrong labels, where the truth is known."""
        return detection(self._labels, self.table)

    @cached_property
    def ranked(self) -> pd.DataFrame:
        frame = self._labels
        shown = [name for name in _SHOWN if name in frame and (name == "suggested" or frame[name].notna().any())]
        shown = [name for name in shown if self.group_names or name != "group"]
        table = self.table.join(frame[["row", *shown]])
        if "group" in shown:
            table["cell"] = table["given"].astype(str) + ", " + table["group"].astype(object).fillna("?").astype(str)
        order = ["rank", "row", "suspicion", "posterior", "suspected", *shown, "cell"]
        return table[[name for name in order if name in table]].sort_values("rank").reset_index(drop=True)

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
            "hard": int(self.table["hard"].sum()) if "hard" in self.table else None,
            "wrong": self.counts(),
            "cleanlab": self.confident(),
            "truth": None if self.found is None else self.found.to_dict(),
            "top": json.loads(self.ranked.head(top).to_json(orient="records")),
        }

    def text(self, top: int, width: int = 200) -> str:
        """The first few labels, for a terminal: with the columns for which there is room."""
        shown = self.ranked.head(top).drop(columns=["suspected", "label"])
        for n in range(len(shown.columns), 1, -1):
            table = shown.iloc[:, :n].to_string(index=False, float_format=lambda v: f"{v:.3g}", na_rep="")
            if len(table.split("\n")[0]) <= width:
                break
        return f"{self._opening()}\nRanked by {self.rule}.\n\n{table}\n\n{self._truth()}"

    def _opening(self) -> str:
        confident, counts = self.confident(), self.counts()
        beside = "" if confident is None else f" cleanlab's confident learning names {confident:,}."
        if not counts:
            opening = f"{self.suspected:,} of {len(self.ranked):,} labels look wrong or are hard: the model prefers"
            return f"{opening} another.{beside} How many are wrong cannot be said{self._reason()}."
        total, *parts = counts
        first = (
            f"About {total['wrong']:,.0f} of {total['n']:,} labels are wrong, 95 % interval {total['low']:,.0f} to "
            f"{total['high']:,.0f}{'' if total['low'] > 0 else ': nothing shows that any is'}. {self.suspected:,} look "
            f"wrong: another label is more probable. {self.table['hard'].sum():,} more are hard: the inputs suggest "
            f"another label, but the given one is more probable.{beside}"
        )
        line = "  {by} {name}: {wrong:,.0f} of {n:,} ({low:,.0f} to {high:,.0f})"
        return "\n".join([first, *(line.format(**part) for part in parts[:20])])

    def _reason(self) -> str:
        if self.rule == LEARNED:
            return ": the model errs on trusted pictures, or repeats its training labels; train a better one"
        given = f"{option('exemplar.source')} or {option('split.column')}, or say that they were with {option('trust')}"
        return f" without trusted rows: give exemplars whose labels were checked with {given}"

    def _truth(self) -> str:
        if self.found is None:
            return "The true labels are not known, so nothing says which of these are wrong: look at them."
        at = ", ".join(f"{100 * value:.1f} % of the first {k:,}" for k, value in self.found.precision.items())
        text = f"{self.found.wrong:,} labels are known to be wrong: AUC {self.found.auc:.4f}; wrong are {at}."
        right = self.found.suggested_right
        end = "" if right is None else f"\nThe suggested label is the true one for {100 * right:.1f} % of them."
        return text + end

    def relabelled(self, how: str = SUGGESTED) -> pd.DataFrame:
        """Every row with its label mended: `suggested` puts the more probable label, `soft` the chance of each."""
        if how not in (SUGGESTED, SOFT):
            raise BadInput(f"{option('relabel', how)}: choose {SUGGESTED} or {SOFT}.")
        if self.noise is None:
            raise BadInput(f"labels cannot be mended{self._reason()}.")
        table = self.ranked[[*_naming(self.ranked), "given"]]
        if how == SOFT:
            chances = self.noise.posterior[self.table["rank"].to_numpy().argsort()]
            table = table.assign(**{f"chance of {name}": chances[:, k] for k, name in enumerate(self.label_names)})
        else:
            suggested = self.ranked["suggested"].astype(object)
            table = table.assign(label=suggested.where(suggested.notna(), table["given"]))
        return table.sort_values("row").reset_index(drop=True)


def _naming(table: pd.DataFrame) -> list[str]:
    """The columns that say which sample a row is: its row in the source and, of an image, its file."""
    return [name for name in ("row", FILE) if name in table]


def kept(ranked: pd.DataFrame) -> pd.DataFrame:
    """The rows that stay when suspected ones are dropped, in the order of the source."""
    found: pd.DataFrame = ranked.loc[stays(ranked), [*_naming(ranked), "given"]].sort_values("row")
    return found


def stays(ranked: pd.DataFrame, floor: int = FLOOR) -> Any:
    """True where a row stays when suspected ones are dropped: the most suspect go, at most half of any cell."""  # [N]
    cells = [ranked[name].astype(str) for name in ("given", "group") if name in ranked]
    order = ranked["rank"].where(ranked["suspected"], len(ranked) + ranked["rank"]).groupby(cells)
    sizes, turn = order.transform("size").to_numpy(), order.rank().to_numpy()
    most = (sizes - floor).clip(0, sizes // 2)
    return ~(ranked["suspected"].to_numpy() & (turn <= most))


def suspects_of(run: str | Path, *, trust: bool | None = None) -> Suspects:
    """The labels of a finished run, ranked; trust: whether its exemplars are right, None decides by how they came."""
    folder = finished(run)
    return ranked_labels(folder, folder.read_weights(), trust=trust)


def ranked_labels(folder: RunFolder, weights: pd.DataFrame, *, trust: bool | None = None) -> Suspects:
    """Rank a finished run's labels; trust: whether its exemplars' labels are right, None decides by how they came."""
    metrics = folder.read(METRICS)
    names, grouped = tuple(str(name) for name in metrics["labels"]), metrics["by"] != "label"
    groups = tuple(str(name) for name in weights["group"].cat.categories) if grouped else ()
    trust = trusts_exemplars(folder.read(RUN).get("data", {})) if trust is None else trust
    codes = weights["label"].astype(str).map({name: k for k, name in enumerate(names)}).to_numpy()
    if codes.dtype.kind != "i":
        raise BadInput(
            f"{folder.path} names other labels in {METRICS} than beside its weights; run the training again."
        )
    held_out = _opinion(folder, len(weights), HELD_OUT_PARTS, grouped)
    chances = None if held_out is None else np.exp(held_out["logits"])
    opinion = (held_out or _opinion(folder, len(weights), ("train", "exemplar"), grouped)) if trust else None
    if opinion is None:
        margins, given = None, np.eye(len(names), dtype=bool)[codes]
        if chances is not None:
            margins = chances[given] - np.where(given, -1, chances).max(axis=1)
        rule = RULE if margins is None else HELD_OUT
        return Suspects(weights, suspicion(weights, margins).assign(code=codes), rule, None, names, groups, chances)
    noise, margin = label_noise(**{**opinion, "labels": codes}), margin_of(weights)
    right = float(np.mean(opinion["trusted_logits"].argmax(axis=1) == opinion["trusted_labels"]))
    repeats = float(np.mean(opinion["logits"].argmax(axis=1) == codes)) - right
    beyond = 2 * np.sqrt(right * (1 - right) / len(opinion["trusted_labels"]))  # chance among exemplars
    pictures = held_out is None and folder.read(PREPROCESSING)["kind"] != "table"
    if pictures and right < CLEAR and margin is not None and (right < POOR or repeats > beyond):
        return Suspects(weights, suspicion(weights).assign(code=codes), LEARNED, None, names, groups, chances)
    rule, measure = FINISHED if held_out is None else POSTERIOR, pd.Series(noise.wrong).rank()
    if held_out is None and right >= CLEAR and margin is not None:
        rule, measure = BOTH, measure + (-margin).reset_index(drop=True).rank(na_option="top")
    columns = {
        "rank": places(measure, noise.wrong),
        "suspicion": (measure / measure.max()).to_numpy() if rule == BOTH else noise.wrong,
        "suspected": noise.looks_wrong,
        "hard": noise.is_hard,
        "posterior": noise.wrong,
        "true_code": noise.suggested,
        "code": codes,
    }
    return Suspects(weights, pd.DataFrame(columns, index=weights.index), rule, noise, names, groups, chances)


def _opinion(folder: RunFolder, n: int, parts: tuple[str, str], grouped: bool) -> dict[str, Any] | None:
    """What the run keeps of train and of exemplars under these names, for label_noise; None: nothing of these rows."""
    try:
        train, trusted = (folder.read_logits(part) for part in parts)
    except MissingData:
        return None
    return opinion_of(train, trusted, grouped) if len(train[1]) == n else None
