"""Which of a run's training labels are probably wrong, by the rule that fits what the run has.

| what there is | labels are ranked by |
|---|---|
| trusted exemplars, and classes that overlap | the posterior that the label is wrong: metrics/label_noise.py |
| trusted exemplars, and a model that is right on 95 % of them | the mean of the ranks by posterior and by margin |
| no trusted exemplars | the margin over training: report/suspects.py |

Exemplars are trusted where they were given for the purpose, by a file or a column of the user's, or where labels of
train were made wrong on purpose and theirs were not. Those drawn from train carry its wrong labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairweight.errors import MissingData
from fairweight.metrics.intervals import Estimate
from fairweight.metrics.label_noise import LabelNoise, label_noise
from fairweight.report.suspects import RULE, margin_of, suspicion
from fairweight.runs.folder import METRICS, RUN, RunFolder

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    Array = np.ndarray[Any, Any]

CLEAR = 0.95  # share of trusted rows that the model has right, from which classes hardly overlap
POSTERIOR = "the posterior that the label is wrong: flip rates per label and group, estimated beside trusted exemplars"
BOTH = f"the mean of two ranks: by {POSTERIOR}; and by the average probability margin over training"
DRAWN = "Exemplar set:"  # how the data says that exemplars were drawn, and not given


@dataclass(frozen=True)
class Ranked:
    """Suspicion of every training label, in the order of weights.parquet."""

    table: pd.DataFrame  # rank, suspicion, suspected; with trusted rows also hard, posterior and stands
    rule: str
    noise: LabelNoise | None  # None: no trusted rows
    label_names: tuple[str, ...]
    group_names: tuple[str, ...]  # empty: the label stands for the group

    def counts(self) -> list[dict[str, Any]]:
        """How many labels are wrong, with an interval: in all, by given label and by group; empty without trust."""
        if self.noise is None:
            return []
        found = [_row("all", "", self.noise.count())]
        labels, groups = self.noise.labels, self.noise.groups
        found += [
            _row("label", name, self.noise.count(label=k))
            for k, name in enumerate(self.label_names)
            if (labels == k).any()
        ]
        found += [
            _row("group", name, self.noise.count(group=k))
            for k, name in enumerate(self.group_names)
            if (groups == k).any()
        ]
        return found


def _row(by: str, name: str, found: Estimate) -> dict[str, Any]:
    return {"by": by, "name": name, "n": found.n, "wrong": found.value, "low": found.low, "high": found.high}


def trusts_exemplars(folder: RunFolder) -> bool:
    """True if the run's exemplars were given for the purpose, or are known to be right."""
    data = folder.read(RUN).get("data", {})
    options = data.get("options", {})
    if data.get("corruptions"):
        return "exemplar" not in options.get("corrupt_parts", ())
    if (options.get("exemplar") or {}).get("source", "train") not in ("train", "validation"):
        return True
    return not any(str(note).startswith(DRAWN) for note in data.get("notes", ()))


def ranked_labels(folder: RunFolder, weights: pd.DataFrame, *, trust: bool | None = None) -> Ranked:
    """Rank a finished run's labels; trust: whether its exemplars' labels are right, None decides by how they came."""
    metrics = folder.read(METRICS)
    names = tuple(str(name) for name in metrics["labels"])
    grouped = metrics["by"] != "label"
    groups = tuple(str(name) for name in weights["group"].cat.categories) if grouped else ()
    if trust is None:
        trust = trusts_exemplars(folder)
    found = _noise(folder, weights, grouped) if trust else None
    if found is None:
        return Ranked(suspicion(weights), RULE, None, names, groups)
    noise, right = found
    margin = margin_of(weights)
    both = right >= CLEAR and margin is not None
    table = _table(weights, noise, -margin.to_numpy(dtype=float) if both and margin is not None else None)
    return Ranked(table, BOTH if both else POSTERIOR, noise, names, groups)


def _noise(folder: RunFolder, weights: pd.DataFrame, grouped: bool) -> tuple[LabelNoise, float] | None:
    """The estimate, and the share of trusted rows that the model has right; None where logits were not kept."""
    import numpy as np

    try:
        trusted, ty, tg = folder.read_logits("exemplar")
        logits, y, g = folder.read_logits("train")
    except MissingData:
        return None
    if len(y) != len(weights) or len(ty) < logits.reshape(len(logits), -1).shape[1]:
        return None
    groups = trusted_groups = None
    if grouped and g is not None and tg is not None:
        groups, trusted_groups = g.cpu().numpy().copy(), tg.cpu().numpy()
        groups[groups < 0] = max(int(groups.max()), int(trusted_groups.max())) + 1  # not known: a group of its own
    found = label_noise(
        logits.cpu().numpy(), y.cpu().numpy(), trusted.cpu().numpy(), ty.cpu().numpy(),
        groups=groups, trusted_groups=trusted_groups,
    )  # fmt: skip
    flat = trusted.reshape(len(trusted), -1)
    said = (flat[:, 0] > 0).long() if flat.shape[1] == 1 else flat.argmax(dim=1)
    return found, float(np.mean((said == ty).cpu().numpy()))


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
