"""The methods that judgement.py compares: plain models, peers through their packages, and `fairweight train`."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from judgement_numbers import Array, counts_of, gaps_of
from judgement_sets import GROUP, LABEL, PART, Task

PACKAGES = ("scikit-learn", "lightgbm", "fairlearn", "fairret", "oxonfair", "torch")
BOUND = 0.02  # difference of rates that fairlearn and OxonFair are asked to keep
BUDGET = 0.3  # points of accuracy that fairret may give up in choosing its strength
STRENGTHS = (0.1, 0.3, 1.0, 3.0)  # of fairret's term
HELD = 0.3  # of the rows, where a method fits thresholds or a strength on rows that its model has not seen
ITERATIONS = 20  # of ExponentiatedGradient


class Failed(Exception):
    """A method that could not give predictions; its text is kept in place of numbers."""


@dataclass(frozen=True)
class Method:
    """A way to predictions on the test rows."""

    title: str
    run: Callable[[Task, Path], Array]  # the folder is for files of its own
    plain: bool = False
    groups: bool = False  # needs the group at prediction
    package: str | None = None  # that must be installed


def learner(name: str, seed: int) -> Any:
    """Make a classifier by its name."""
    if name == "lightgbm":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(random_state=seed, n_jobs=1, verbose=-1)
    if name == "trees":
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(random_state=seed)
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=300)


def plain(name: str, task: Task, folder: Path) -> Array:
    """Fit it as it is, on all rows."""
    return learner(name, task.seed).fit(task.fit_inputs, task.fit_labels).predict(task.test_inputs)


def reweighing_weights(labels: Array, groups: Array) -> Array:
    """Kamiran and Calders 2012: each cell weighs what it would have, were label and group independent."""  # [N]
    weights = np.ones(len(labels))
    for y in np.unique(labels):
        for a in np.unique(groups):
            both = (labels == y) & (groups == a)
            if both.any():
                weights[both] = (labels == y).mean() * (groups == a).mean() / both.mean()
    return weights


def reweighing(name: str, task: Task, folder: Path) -> Array:
    """Fit it with those weights."""
    weights = reweighing_weights(task.fit_labels, task.fit_groups)
    made = learner(name, task.seed).fit(task.fit_inputs, task.fit_labels, sample_weight=weights)
    return made.predict(task.test_inputs)


def exponentiated_gradient(name: str, criterion: str, task: Task, folder: Path) -> Array:
    """Reduce to weighted classification by fairlearn."""
    from fairlearn import reductions as r

    parity = {
        "equal-opportunity": r.TruePositiveRateParity,
        "equalized-odds": r.EqualizedOdds,
        "demographic-parity": r.DemographicParity,
    }[criterion](difference_bound=BOUND)
    made = r.ExponentiatedGradient(learner(name, task.seed), parity, eps=BOUND, max_iter=ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas and of solvers that stop early
        made.fit(task.fit_inputs, task.fit_labels, sensitive_features=task.fit_groups)
        return np.asarray(made.predict(task.test_inputs, random_state=task.seed))


def threshold_optimizer(name: str, criterion: str, task: Task, folder: Path) -> Array:
    """Choose thresholds by group with fairlearn, on rows that the model has not seen."""
    from fairlearn.postprocessing import ThresholdOptimizer

    seen, held = halved(task)
    model = learner(name, task.seed).fit(task.fit_inputs[seen], task.fit_labels[seen])
    rule = {
        "equal-opportunity": "true_positive_rate_parity",
        "equalized-odds": "equalized_odds",
        "demographic-parity": "demographic_parity",
    }[criterion]
    made = ThresholdOptimizer(estimator=model, constraints=rule, prefit=True, predict_method="predict_proba")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.fit(task.fit_inputs[held], task.fit_labels[held], sensitive_features=task.fit_groups[held])
        said = made.predict(task.test_inputs, sensitive_features=task.test_groups, random_state=task.seed)
    return np.asarray(said)


def oxonfair(name: str, task: Task, folder: Path) -> Array:
    """Choose thresholds by group with OxonFair, on rows that the model has not seen."""
    import oxonfair as ox
    from oxonfair.utils import group_metrics

    seen, held = halved(task)
    model = learner(name, task.seed).fit(task.fit_inputs[seen], task.fit_labels[seen])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = ox.DataDict(task.fit_labels[held], task.fit_inputs[held], task.fit_groups[held])
        made = ox.FairPredictor(model, known)
        made.fit(group_metrics.accuracy, group_metrics.equal_opportunity, BOUND)
        said = made.predict(ox.DataDict(task.test_labels, task.test_inputs, task.test_groups))
    return np.asarray(said).astype(int)


def halved(task: Task) -> tuple[Array, Array]:
    """Draw rows to fit on and rows held out, stratified by cell."""  # [N] bool, twice
    order = np.random.default_rng(task.seed).permutation(len(task.fit_labels))
    held = np.zeros(len(order), dtype=bool)
    cells = 2 * task.fit_groups + task.fit_labels
    for cell in np.unique(cells):
        rows = order[cells[order] == cell]
        held[rows[: max(1, round(HELD * len(rows)))]] = True
    return ~held, held


def fairret(task: Task, folder: Path) -> Array:
    """Train a network with fairret's term; its strength is chosen on held-out rows: least gap within the budget."""
    seen, held = halved(task)
    tried = {strength: _fairret_network(task, seen, strength) for strength in (0.0, *STRENGTHS)}

    def judged(strength: float) -> tuple[float, float]:
        said = tried[strength](task.fit_inputs[held])
        counts = counts_of(task.fit_labels[held], said, task.fit_groups[held])
        return 100 * float((said == task.fit_labels[held]).mean()), float(gaps_of(counts)["equal-opportunity"])

    numbers = {strength: judged(strength) for strength in tried}
    allowed = [s for s in tried if numbers[s][0] >= numbers[0.0][0] - BUDGET]
    best = min(allowed, key=lambda s: numbers[s][1])
    return _fairret_network(task, np.ones(len(seen), dtype=bool), best)(task.test_inputs)


def _fairret_network(task: Task, rows: Array, strength: float) -> Callable[[Array], Array]:
    import torch
    from fairret.loss import NormLoss
    from fairret.statistic import TruePositiveRate

    from fairweight.models.mlp import MLP

    torch.manual_seed(task.seed)
    x, y = torch.tensor(task.fit_inputs[rows]), torch.tensor(task.fit_labels[rows]).float()[:, None]
    sens = torch.nn.functional.one_hot(torch.tensor(task.fit_groups[rows]).long()).float()
    net = MLP(x.shape[1], 1, (64, 64))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    term = NormLoss(TruePositiveRate())
    batch = min(512, max(64, len(x) // 16))
    for _ in range(max(5, round(600 * batch / len(x)))):  # about 600 steps: plain training is at its best there
        for index in torch.randperm(len(x)).split(batch):
            logit = net(x[index])
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logit, y[index])
            if strength and bool((sens[index] * y[index]).sum(0).min() > 0):  # a rate of no rows has no gradient
                loss = loss + strength * term(logit, sens[index], y[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def predict(inputs: Array) -> Array:
        with torch.no_grad():
            return (net(torch.tensor(inputs)).flatten() > 0).long().numpy()

    return predict


def command(more: tuple[str, ...], task: Task, folder: Path) -> Array:
    """Run `fairweight train` on the file and `fairweight predict` on its test rows, as a user does."""
    program = (sys.executable, "-m", "fairweight")
    file, test, said = folder / "rows.csv", folder / "test.csv", folder / "predictions.csv"
    task.frame.to_csv(file, index=False)
    task.frame[task.frame[PART] == "test"].drop(columns=[PART, LABEL]).to_csv(test, index=False)
    names = ["--label", LABEL, "--group", GROUP, "--positive", "1", "--split-column", PART]
    asked = [*names, "--seed", str(task.seed), "--out", str(folder / "run"), "--json", *more]
    _call([*program, "train", str(file), *asked], folder / "train.json")
    _call([*program, "predict", str(folder / "run"), str(test), "--out", str(said)])
    import pandas as pd

    return pd.read_csv(said)["predicted"].astype(str).eq("1").to_numpy().astype(int)


def _call(words: list[str], out: Path | None = None) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise Failed((done.stderr.strip().splitlines() or ["no word on stderr"])[-1])
    if out is not None:
        out.write_text(done.stdout)


def verdict_of(folder: Path) -> dict[str, Any]:
    """Read what our run says of itself, where it says so."""
    path = folder / "run" / "metrics.json"
    found = json.loads(path.read_text()) if path.is_file() else {}
    keys = (
        "verdict",
        "chosen",
        "kept_epoch",
        "criterion",
        "gap_before",
        "gap_after",
        "accuracy_before",
        "accuracy_after",
    )
    return {key: found[key] for key in keys if key in found}


def versions() -> dict[str, str]:
    """Versions of the peers; what is not installed is said so."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def installed(method: Method) -> bool:
    """Tell whether the method's package is there."""
    return method.package is None or importlib.util.find_spec(method.package) is not None


_LGBM, _FAIR = "lightgbm", "fairlearn"
_EG = {
    f"eg-{name}-{criterion}": Method(
        f"ExponentiatedGradient, {name}, {criterion}", partial(exponentiated_gradient, name, criterion), package=_FAIR
    )
    for criterion in ("equal-opportunity", "equalized-odds", "demographic-parity")
    for name in ("logistic", "lightgbm", "trees")
    if name != "trees" or criterion == "equal-opportunity"
}
_THRESHOLDS = {
    f"thresholds-{criterion}": Method(
        f"ThresholdOptimizer, lightgbm, {criterion}",
        partial(threshold_optimizer, _LGBM, criterion),
        groups=True,
        package=_FAIR,
    )
    for criterion in ("equal-opportunity", "equalized-odds", "demographic-parity")
}
_CRITERION = "--criterion"
OURS = {
    "ours-0.1": Method("FORML alone, as fairweight 0.1 trained", partial(command, ("--method", "forml"))),
    "ours": Method("fairweight train", partial(command, (_CRITERION, "equal-opportunity"))),
    "ours-equalized-odds": Method("fairweight, equalized odds", partial(command, (_CRITERION, "equalized-odds"))),
    "ours-demographic-parity": Method(
        "fairweight, demographic parity", partial(command, (_CRITERION, "demographic-parity"))
    ),
    "ours-groups": Method(
        "fairweight, groups at prediction",
        partial(command, (_CRITERION, "equal-opportunity", "--groups-at-prediction")),
        groups=True,
    ),
}
METHODS: dict[str, Method] = {
    "plain-mlp": Method("plain MLP", partial(command, ("--method", "uniform", "--exemplar-inside")), plain=True),
    "plain-trees": Method("plain HistGradientBoosting", partial(plain, "trees"), plain=True),
    "plain-lightgbm": Method("plain LightGBM", partial(plain, _LGBM), plain=True, package=_LGBM),
    "plain-logistic": Method("plain logistic regression", partial(plain, "logistic")),
    "reweighing-trees": Method("reweighing, HistGradientBoosting", partial(reweighing, "trees")),
    "reweighing-lightgbm": Method("reweighing, LightGBM", partial(reweighing, _LGBM), package=_LGBM),
    "reweighing-logistic": Method("reweighing, logistic", partial(reweighing, "logistic")),
    "fairret": Method("fairret, MLP", fairret, package="fairret"),
    **_EG,
    **_THRESHOLDS,
    "oxonfair": Method("OxonFair, LightGBM", partial(oxonfair, _LGBM), groups=True, package="oxonfair"),
    **OURS,
}
