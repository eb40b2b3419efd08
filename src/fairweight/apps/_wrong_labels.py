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

from fairweight.errors import MissingData
from fairweight.metrics.intervals import Estimate
from fairweight.metrics.label_noise import LabelNoise, label_noise
from fairweight.report.suspects import HELD_OUT, RULE, margin_of, suspicion
from fairweight.runs.folder import METRICS, RUN, RunFolder
from fairweight.runs.held_out import PARTS as HELD_OUT_PARTS
from fairweight.runs.held_out import trusts_exemplars

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    Array = np.ndarray[Any, Any]

CLEAR = 0.95  # share of trusted rows that the model has right, from which classes hardly overlap
RATES = "the posterior that the label is wrong: flip rates per label and group, estimated beside trusted exemplars"
POSTERIOR = f"{RATES} from opinions of models that were not trained on the row"
FINISHED = f"{RATES} from the finished model's opinion"
BOTH = f"the mean of two ranks: by {FINISHED}; and by the average probability margin over training"


@dataclass(frozen=True)
class Opinion:
    """What a model says of each training row and each exemplar, whose labels and groups stand beside."""

    train: Array  # [N, K] logits, or logs of chances
    exemplar: Array  # [M, K]
    train_groups: Array | None  # [N]
    labels: Array  # [M] of the exemplars
    groups: Array | None  # [M]


@dataclass(frozen=True)
class Ranked:
    """Suspicion of every training label, in the order of weights.parquet."""

    table: pd.DataFrame  # rank, suspicion, suspected; with trusted rows also hard, posterior and true_code
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
        return [_row("all", "", self.noise.count())] + [
            _row(by, name, self.noise.count(**{by: k}))
            for by, (names, codes) in there.items()
            for k, name in enumerate(names)
            if (codes == k).any()
        ]

    def confident(self) -> int | None:
        """How many labels cleanlab's confident learning holds wrong, by the held-out opinion; None without it."""
        if self.chances is None:
            return None
        try:
            from cleanlab.count import num_label_issues
        except ImportError:
            return None
        return int(num_label_issues(self.table["code"].to_numpy(), self.chances))


def _row(by: str, name: str, found: Estimate) -> dict[str, Any]:
    return {"by": by, "name": name, "n": found.n, "wrong": found.value, "low": found.low, "high": found.high}


def ranked_labels(folder: RunFolder, weights: pd.DataFrame, *, trust: bool | None = None) -> Ranked:
    """Rank a finished run's labels; trust: whether its exemplars' labels are right, None decides by how they came."""
    import numpy as np

    metrics = folder.read(METRICS)
    names = tuple(str(name) for name in metrics["labels"])
    grouped = metrics["by"] != "label"
    groups = tuple(str(name) for name in weights["group"].cat.categories) if grouped else ()
    if trust is None:
        trust = trusts_exemplars(folder.read(RUN).get("data", {}))
    codes = weights["label"].astype(str).map({name: k for k, name in enumerate(names)}).to_numpy()
    held_out = _opinion(folder, len(weights), *HELD_OUT_PARTS)
    chances = None if held_out is None else np.exp(held_out.train)
    opinion = (held_out or _opinion(folder, len(weights), "train", "exemplar")) if trust else None
    if opinion is None:
        ranked = suspicion(weights) if chances is None else suspicion(weights, _margins(chances, codes))
        return Ranked(ranked.assign(code=codes), RULE if chances is None else HELD_OUT, None, names, groups, chances)
    noise = _noise(opinion, codes, grouped)
    margin = margin_of(weights)
    right = float(np.mean(opinion.exemplar.argmax(axis=1) == opinion.labels))
    both = held_out is None and right >= CLEAR and margin is not None
    table = _table(weights, noise, -margin.to_numpy(dtype=float) if both and margin is not None else None)
    rule = BOTH if both else FINISHED if held_out is None else POSTERIOR
    return Ranked(table.assign(code=codes), rule, noise, names, groups, chances)


def _opinion(folder: RunFolder, n: int, train: str, exemplar: str) -> Opinion | None:
    """What the run keeps of these two names; None where it keeps nothing, or of other rows."""
    import numpy as np

    try:
        (trusted, ty, tg), (logits, y, g) = folder.read_logits(exemplar), folder.read_logits(train)
    except MissingData:
        return None
    both = [part.reshape(len(part), -1).double().cpu().numpy() for part in (logits, trusted)]
    # One logit is that of the positive label.
    said, beside = (np.concatenate([0 * part, part], axis=1) if part.shape[1] == 1 else part for part in both)
    if len(y) != n or len(ty) < said.shape[1]:
        return None
    groups = [None if part is None else part.cpu().numpy() for part in (g, tg)]
    return Opinion(said, beside, groups[0], ty.cpu().numpy(), groups[1])


def _noise(opinion: Opinion, labels: Array, grouped: bool) -> LabelNoise:
    groups, trusted = (opinion.train_groups, opinion.groups) if grouped else (None, None)
    if groups is not None and trusted is not None:
        last = max(int(groups.max()), int(trusted.max())) + 1  # not known: a group of its own
        groups, trusted = ((codes + (codes < 0) * (last - codes)) for codes in (groups, trusted))
    return label_noise(
        opinion.train, labels, opinion.exemplar, opinion.labels, groups=groups, trusted_groups=trusted
    )  # fmt: skip


def _margins(chances: Array, labels: Array) -> Array:
    """Probability of the given label minus that of the best other one."""  # [N]
    import numpy as np

    rows, others = np.arange(len(labels)), chances.copy()
    others[rows, labels] = -1.0
    found: Array = chances[rows, labels] - others.max(axis=1)
    return found


def _table(weights: pd.DataFrame, noise: LabelNoise, also: Array | None) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    wrong = noise.wrong
    ranks = pd.Series(wrong).rank()
    if also is not None:
        ranks = ranks + pd.Series(also).rank(na_option="top")
    order = np.lexsort((np.arange(len(wrong)), -wrong, -ranks.to_numpy()))
    place = np.empty(len(wrong), dtype=np.int64)
    place[order] = np.arange(1, len(wrong) + 1)
    return pd.DataFrame(
        {
            "rank": place,
            "suspicion": wrong if also is None else (ranks / ranks.max()).to_numpy(),
            "suspected": noise.looks_wrong,
            "hard": noise.is_hard,
            "posterior": wrong,
            "true_code": noise.suggested,
        },
        index=weights.index,
    )
