"""Which of a run's training labels are probably wrong, by the rule that fits what the run has.

| what there is | labels are ranked by |
|---|---|
| trusted exemplars | the posterior that the label is wrong: metrics/label_noise.py |
| no trusted exemplars | the margin: the label's probability minus the best other label's |

The opinion behind both is held out where the data is a table and can be read again: that of a random forest's trees
that did not draw the row, and of a logistic regression that was fitted on other rows, in the geometric mean. Elsewhere
it is the run's own: its finished model's beside trusted exemplars, its average over training without them.
Where that finished model is right on 95 % of the trusted rows, the mean of the ranks by posterior and by the average
margin over training decides.

Exemplars are trusted where they were given for the purpose, by a file or a column of the user's, or where labels of
train were made wrong on purpose and theirs were not. Those drawn from train carry its wrong labels.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairweight.errors import FairweightError, MissingData
from fairweight.metrics.intervals import Estimate
from fairweight.metrics.label_noise import LabelNoise, label_noise
from fairweight.report.suspects import HELD_OUT, RULE, margin_of, suspicion
from fairweight.runs.folder import METRICS, RUN, RunFolder
from fairweight.runs.spec_data import dataset_for

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    Array = np.ndarray[Any, Any]

CLEAR = 0.95  # share of trusted rows that the model has right, from which classes hardly overlap
RATES = "the posterior that the label is wrong: flip rates per label and group, estimated beside trusted exemplars"
POSTERIOR = f"{RATES} from opinions of models that were not trained on the row"
FINISHED = f"{RATES} from the finished model's opinion"
BOTH = f"the mean of two ranks: by {FINISHED}; and by the average probability margin over training"
DRAWN = "Exemplar set:"  # how the data says that exemplars were drawn, and not given
FOLDS = 3
TREES, LEAF = 100, 10  # of the forest; rows in a leaf
MANY, FEWER = 20_000, 50  # rows from which fewer trees are enough
FITTED = 8_000  # rows that a tree or a regression is fitted on, at most
WIDEST = 600  # inputs that the regression is quick with


def held_out_chances(inputs: Array, labels: Array, classes: int, seed: int = 0) -> Array:
    """Chances of every label for each row, by models that were not trained on the row."""  # [N, K]
    import numpy as np
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    x, y = np.ascontiguousarray(inputs.reshape(len(inputs), -1), dtype=np.float32), np.asarray(labels)
    n, random = len(y), np.random.default_rng(seed)
    if len(np.unique(y)) < 2:
        alone: Array = np.eye(classes)[y]
        return alone
    total = np.zeros((n, classes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a row that every tree drew, a regression that stopped early: both are fine
        forest = RandomForestClassifier(
            TREES if n <= MANY else FEWER, min_samples_leaf=min(LEAF, max(1, n // 50)),
            max_samples=min(n, FITTED), oob_score=True, random_state=seed,
        ).fit(x, y)  # fmt: skip
        found = np.full((n, classes), 0.0)
        found[:, forest.classes_] = np.nan_to_num(forest.oob_decision_function_, nan=1 / len(forest.classes_))
        total += np.log(np.maximum(found, 0.003))  # no tree of so few is surer than that
        if x.shape[1] > WIDEST:
            return _normalised(total)
        fold = random.permutation(n) % FOLDS
        for part in range(FOLDS):
            rest = random.permutation(np.flatnonzero(fold != part))[:FITTED]
            fitted = LogisticRegression(C=0.1, max_iter=200).fit(x[rest], y[rest])
            found = np.zeros(((fold == part).sum(), classes))
            found[:, fitted.classes_] = fitted.predict_proba(x[fold == part])
            total[fold == part] += np.log(np.maximum(found, 1e-6))
    return _normalised(total / 2)


def _normalised(logs: Array) -> Array:
    import numpy as np

    chances: Array = np.exp(logs - logs.max(axis=1, keepdims=True))
    found: Array = chances / chances.sum(axis=1, keepdims=True)
    return found


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


def trusts_exemplars(folder: RunFolder) -> bool:
    """True if the run's exemplars were given for the purpose, or are known to be right."""
    data = folder.read(RUN).get("data", {})
    options = data.get("options", {})
    if data.get("corruptions"):
        return "exemplar" not in options.get("corrupt_parts", ())
    if (options.get("exemplar") or {}).get("source", "train") not in ("train", "validation"):
        return True
    return not any(str(note).startswith(DRAWN) for note in data.get("notes", ()))


def ranked_labels(
    folder: RunFolder, weights: pd.DataFrame, *, trust: bool | None = None, data_dir: str | Path | None = None
) -> Ranked:
    """Rank a finished run's labels; trust: whether its exemplars' labels are right, None decides by how they came."""
    import numpy as np

    metrics = folder.read(METRICS)
    names = tuple(str(name) for name in metrics["labels"])
    grouped = metrics["by"] != "label"
    groups = tuple(str(name) for name in weights["group"].cat.categories) if grouped else ()
    if trust is None:
        trust = trusts_exemplars(folder)
    codes = weights["label"].astype(str).map({name: k for k, name in enumerate(names)}).to_numpy()
    dataset = _table_again(folder, weights, data_dir)
    held_out = None if dataset is None else _held_out(dataset, with_exemplars=trust)
    chances = None if held_out is None else np.exp(held_out.train)
    opinion = (held_out or _finished(folder, len(weights))) if trust else None
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


def _table_again(folder: RunFolder, weights: pd.DataFrame, data_dir: str | Path | None) -> Any:
    """The run's data, if it is a table and still what the run was trained on; None elsewhere."""
    from fairweight.runs.cross_fit import all_rows
    from fairweight.types import Batch

    try:
        dataset = dataset_for(folder.read_spec(), data_dir, beside=folder.beside)
        if dataset.kind != "table" or not isinstance(dataset.train, Batch):
            return None
        wanted, given = weights["row"].tolist(), weights["label"].astype(str).tolist()
        found = dataset if dataset.rows["train"].tolist() == wanted else all_rows(dataset)
        labels = [found.label_names[k] for k in found.train.labels.tolist()]
        return found if found.rows["train"].tolist() == wanted and labels == given else None
    except (FairweightError, OSError):
        return None  # a file that is gone or has changed: the run's own opinion is left


def _held_out(dataset: Any, *, with_exemplars: bool) -> Opinion:
    """Opinions of models that were not trained on the row; exemplars that are trusted are trained on, too."""
    import numpy as np

    train, exemplar = dataset.train, dataset.exemplar
    options = dataset.spec.get("options", {}).get("exemplar") or {}
    apart = with_exemplars and exemplar is not train and not options.get("inside", False)
    parts = [train, exemplar] if apart else [train]
    inputs = np.concatenate([part.inputs.flatten(1).numpy() for part in parts])
    labels = np.concatenate([part.labels.numpy() for part in parts])
    said = np.log(held_out_chances(inputs, labels, len(dataset.label_names)))
    if apart or exemplar is train:
        beside = said[len(train) :] if apart else said
    else:  # exemplars that are training rows as well have their row's opinion
        place = {row: k for k, row in enumerate(dataset.rows["train"].tolist())}
        known = [place.get(row, 0) for row in dataset.rows["exemplar"].tolist()] if with_exemplars else []
        beside = said[known]
    groups = [None if part.groups is None else part.groups.numpy() for part in (train, exemplar)]
    return Opinion(said[: len(train)], beside, groups[0], exemplar.labels.numpy(), groups[1])


def _finished(folder: RunFolder, n: int) -> Opinion | None:
    """The finished model's opinion; None where it was not kept."""
    import numpy as np

    try:
        (trusted, ty, tg), (logits, y, g) = folder.read_logits("exemplar"), folder.read_logits("train")
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
