"""Which of a run's training labels are probably wrong, by the rule that fits what the run has.

| what there is | labels are ranked by |
|---|---|
| trusted exemplars | the posterior that the label is wrong: metrics/label_noise.py |
| no trusted exemplars | the margin: the label's probability minus the best other label's |

The opinion behind both is held out where the run keeps such a one (runs/held_out.py: tables with trusted exemplars).
Elsewhere it is the run's own: its finished model's beside trusted exemplars, its average over training without them.
Where that finished model is right on 95 % of the trusted rows, the mean of the ranks by posterior and by the average
margin over training decides.

Exemplars are trusted where they were given for the purpose, by a file or a column of the user's, or where labels of
train were made wrong on purpose and theirs were not. Those drawn from train carry its wrong labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairweight.errors import MissingData
from fairweight.metrics.label_noise import LabelNoise, label_noise
from fairweight.report.suspects import HELD_OUT, RULE, margin_of, places, suspicion
from fairweight.runs.folder import METRICS, RUN, RunFolder
from fairweight.runs.held_out import PARTS as HELD_OUT_PARTS
from fairweight.runs.held_out import trusts_exemplars

if TYPE_CHECKING:
    import pandas as pd

Array = np.ndarray[Any, Any]

CLEAR = 0.95  # share of trusted rows that the model has right, from which classes hardly overlap
RATES = "the posterior that the label is wrong: flip rates per label and group, estimated beside trusted exemplars"
POSTERIOR = f"{RATES} from opinions of models that were not trained on the row"
FINISHED = f"{RATES} from the finished model's opinion"
BOTH = f"the mean of two ranks: by {FINISHED}; and by the average probability margin over training"


@dataclass(frozen=True)
class Ranked:
    """Suspicion of every training label, in the order of weights.parquet."""

    table: pd.DataFrame  # code, rank, suspicion, suspected; with trusted rows also hard, posterior and true_code
    rule: str
    noise: LabelNoise | None  # None: no trusted rows
    label_names: tuple[str, ...]
    group_names: tuple[str, ...]  # empty: the label stands for the group
    chances: Array | None = None  # [N, K] held out, where there are such

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


def ranked_labels(folder: RunFolder, weights: pd.DataFrame, *, trust: bool | None = None) -> Ranked:
    """Rank a finished run's labels; trust: whether its exemplars' labels are right, None decides by how they came."""
    import pandas as pd

    metrics = folder.read(METRICS)
    names, grouped = tuple(str(name) for name in metrics["labels"]), metrics["by"] != "label"
    groups = tuple(str(name) for name in weights["group"].cat.categories) if grouped else ()
    trust = trusts_exemplars(folder.read(RUN).get("data", {})) if trust is None else trust
    codes = weights["label"].astype(str).map({name: k for k, name in enumerate(names)}).to_numpy()
    held_out = _opinion(folder, len(weights), HELD_OUT_PARTS, grouped)
    chances = None if held_out is None else np.exp(held_out["logits"])
    opinion = (held_out or _opinion(folder, len(weights), ("train", "exemplar"), grouped)) if trust else None
    if opinion is None:
        others = None if chances is None else chances - 2 * np.eye(len(names))[codes]  # the given label aside
        margins = None if chances is None or others is None else chances[np.arange(len(codes)), codes] - others.max(1)
        rule = RULE if margins is None else HELD_OUT
        return Ranked(suspicion(weights, margins).assign(code=codes), rule, None, names, groups, chances)
    noise, margin = label_noise(labels=codes, **opinion), margin_of(weights)
    right = float(np.mean(opinion["trusted_logits"].argmax(axis=1) == opinion["trusted_labels"]))
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
    return Ranked(pd.DataFrame(columns, index=weights.index), rule, noise, names, groups, chances)


def _opinion(folder: RunFolder, n: int, parts: tuple[str, str], grouped: bool) -> dict[str, Any] | None:
    """What the run keeps of train and of exemplars under these names, for label_noise; None: nothing of these rows."""
    try:
        (logits, y, g), (trusted, ty, tg) = (folder.read_logits(part) for part in parts)
    except MissingData:
        return None
    said, beside = (part.reshape(len(part), -1).double().cpu().numpy() for part in (logits, trusted))
    if said.shape[1] == 1:  # one logit is that of the positive label
        said, beside = (np.concatenate([0 * part, part], axis=1) for part in (said, beside))
    if len(y) != n or len(ty) < said.shape[1]:
        return None
    found = {"logits": said, "trusted_logits": beside, "trusted_labels": ty.cpu().numpy()}
    if grouped and g is not None and tg is not None:
        last = max(int(g.max()), int(tg.max())) + 1  # not known: a group of its own
        found |= {
            name: codes.where(codes >= 0, last).cpu().numpy() for name, codes in (("groups", g), ("trusted_groups", tg))
        }
    return found
