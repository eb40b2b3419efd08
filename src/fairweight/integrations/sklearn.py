"""FairweightClassifier: scikit-learn's conventions around the training of `fairweight train`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Integral
from typing import Any, cast

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from fairweight.apps.deliver import Search, search
from fairweight.apps.judge import Goal, TrainRequest
from fairweight.apps.train import goal_for, with_objective
from fairweight.constraints import check, whole
from fairweight.data import Dataset
from fairweight.data.rows import Rows
from fairweight.errors import BadInput
from fairweight.integrations._estimator_data import (
    CONSTRAINTS,
    Array,
    Given,
    dataset_of,
    group_columns,
    made,
    sample_weights,
)
from fairweight.methods import Reweighter
from fairweight.runs.build import build
from fairweight.runs.cross_fit import FOLDS
from fairweight.runs.defaults import with_defaults
from fairweight.runs.learners import Fitted
from fairweight.runs.other_runs import filled_by_cell
from fairweight.runs.run import one_thread, probabilities, train_built
from fairweight.runs.run_place import FORML
from fairweight.runs.shift import shifted
from fairweight.runs.spec import Spec
from fairweight.training.callbacks import Progress
from fairweight.training.history import Dynamics
from fairweight.training.predict import logits
from fairweight.types import Batch


class FairweightClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """A neural network that learns what each training sample is worth.

    The same samples and seed give the model that `fairweight train` gives: what is None is chosen as it chooses, part
    of the samples is kept out for validation and as exemplars, and a frame may hold text, dates and missing values.

    method: None takes the best of several models, judged on samples that they were not trained on, or plain training
    where nothing beats it; a name of `fairweight list methods` trains that alone. criterion: what is fair, a name of
    `fairweight list criteria`. bound: the largest gap, budget: the largest loss of accuracy, in points. learner:
    "trees", "linear" or "mlp". groups_at_prediction: allows thresholds by group, for which predict then needs
    sensitive_features. each: several sensitive columns stand side by side, and the worst counts. pos_label: the
    positive one of two classes; None takes the larger. A search over many trainings of one method is left to the
    command line. module: None for an MLP; a class or function, called with the number of features and of classes (or
    with nothing where it takes nothing); or a model, which is copied and never changed. objective: what the weights
    are learned for, such as "mean + 0.5 * variance", or an Objective. method_options: the method's other options.
    hidden: widths of the MLP's layers. per_cell: exemplars of each cell in a step. validation_fraction: of the samples,
    to choose the best epoch; 0 for none. patience: epochs without a better one before training stops; 0: never stop.
    exemplar_size: exemplars of each cell. exemplar_inside: whether exemplars are trained on, too.
    standardize: whether each feature of an array is brought to mean 0 and deviation 1 first. random_state: an int is
    the seed of the command line.

    Fitted: classes_, groups_ (names), sample_weights_ [n_samples] with mean 1, scores_ [n_samples] or None,
    score_path_ [n_epochs, n_kept] or None, score_path_rows_ [n_kept], module_, n_iter_, history_, notes_ (on the data).
    A sample that was kept out has the mean weight of its cell, and no score.

    Examples:
        >>> import numpy as np, fairweight as fw
        >>> rng = np.random.default_rng(0)
        >>> x, y, group = rng.normal(size=(200, 3)), np.tile([0, 1], 100), np.repeat(["a", "b"], 100)
        >>> x[:, 0] += 3 * y
        >>> model = fw.FairweightClassifier("forml", epochs=2, hidden=(8,), random_state=0)
        >>> model.fit(x, y, sensitive_features=group).predict(x[:2]).shape
        (2,)
        >>> model.sample_weights_.shape, round(float(model.sample_weights_.mean()), 2)
        ((200,), 1.0)
    """

    # Asked for by default, so that a meta-estimator passes it on as soon as metadata routing is switched on.
    __metadata_request__fit = {"sensitive_features": True}  # noqa: RUF012 - scikit-learn reads it as it stands
    __metadata_request__predict = {"sensitive_features": True}  # noqa: RUF012
    __metadata_request__predict_proba = {"sensitive_features": True}  # noqa: RUF012

    def __init__(
        self,
        method: str | None = None,
        module: nn.Module | Callable[..., nn.Module] | None = None,
        *,
        criterion: str | None = None,
        bound: float | None = None,
        budget: float | None = None,
        learner: str | None = None,
        groups_at_prediction: bool = False,
        each: bool = False,
        pos_label: Any = None,
        objective: Any = None,
        method_options: Mapping[str, Any] | None = None,
        hidden: Sequence[int] | None = None,
        optimizer: str = "adam",
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        epochs: int | None = None,
        batch_size: int | None = None,
        per_cell: int | None = None,
        exemplar_size: int | None = None,
        exemplar_inside: bool = False,
        exemplar_fraction: float | None = None,
        validation_fraction: float = 0.1,
        patience: int | None = None,
        standardize: bool = True,
        device: str = "cpu",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        given = locals()
        for name in self._get_param_names():  # scikit-learn's rule: each as it was given, under its name
            setattr(self, name, given[name])

    def fit(
        self,
        X: Any,  # noqa: N803 - scikit-learn's name
        y: Any,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        *,
        exemplar: tuple[Any, Any] | tuple[Any, Any, Any] | None = None,
    ) -> FairweightClassifier:
        """Train; sensitive_features: the group of each sample, as a column or several that are crossed.

        Without sensitive_features the label stands for the group. A missing entry means that the group is not known.
        sample_weight: what each sample counts in training, times what is learned. Candidates are judged on all alike.
        exemplar: a trusted set of its own, (X, y) or (X, y, sensitive_features); without it, part of the samples.
        """
        check(type(self).__name__, self.get_params(deep=False), CONSTRAINTS)
        self._table = self.standardize and hasattr(X, "iloc") and hasattr(X, "columns")
        X, y = self._checked(X, y)
        check_classification_targets(y)
        self.classes_ = unique_labels(y)
        if len(self.classes_) < 2:
            raise ValueError("FairweightClassifier needs samples of at least two classes; y holds one class only.")
        if self.pos_label is not None and len(self.classes_) == 2 and self.pos_label not in self.classes_.tolist():
            raise BadInput(f"pos_label={self.pos_label!r} is no class of y; choose from {self.classes_.tolist()}.")
        given = [self._given(X, y, sensitive_features, "train")]
        if exemplar is not None:
            if len(exemplar) not in (2, 3):
                raise BadInput("exemplar is a tuple (X, y) or (X, y, sensitive_features).")
            trusted = self._checked(*exemplar[:2], reset=False)
            given.append(self._given(*trusted, exemplar[2] if len(exemplar) == 3 else None, "exemplar"))
        fixed = isinstance(self.random_state, Integral)
        seed = self.random_state if fixed else check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        drawn = given[0].exemplar(self.exemplar_size, self.exemplar_inside, self.exemplar_fraction)
        dataset = dataset_of(given, len(self.classes_), int(seed), self.validation_fraction, drawn, self.standardize)
        self.groups_, self.notes_ = dataset.group_names, dataset.notes
        self._preprocessing: Any = dataset.preprocessing
        weights = None if sample_weight is None else sample_weights(sample_weight, X)
        goal = goal_for(dataset, self.criterion, self.bound, self.budget, each=self.each)
        self.search_: Search | None = None
        self.history_: list[dict[str, Any]] = []
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            if self.method is None and self._searches(dataset, weights):
                self.search_ = self._searched(dataset, goal, int(seed), weights)
                self.chosen_, fitted = self.search_.chosen.title, self.search_.fitted
            else:
                self.chosen_, fitted = self.method or FORML, self._trained(dataset, goal, int(seed), weights)
        self.module_, self.n_iter_, self.shift_ = fitted.model.eval(), fitted.epoch, fitted.shift
        trained = (dataset if self.search_ is None else self.search_.dataset).rows["train"]
        self._keep_weights(fitted.reweighter, fitted.dynamics, trained, given[0])
        return self

    def predict_proba(self, X: Any, sensitive_features: Any = None) -> Array:  # noqa: N803
        """Probability of each class; sensitive_features: needed where the model decides by group."""  # [N, K]
        check_is_fitted(self)
        X, _ = self._checked(X, reset=False)
        inputs = self._preprocessing.read(X).inputs if self._table else self._preprocessing.transform(X)
        with one_thread(sum(p.numel() for p in self.module_.parameters())):
            values = logits(self.module_, Batch(inputs, torch.zeros(len(inputs), dtype=torch.int64)))
        values = shifted(values.double().cpu(), self._group_codes(X, sensitive_features), self.shift_)
        chances: Array = probabilities(values).numpy()
        return chances[:, ::-1] if self._flipped() else chances

    def predict(self, X: Any, sensitive_features: Any = None) -> Array:  # noqa: N803
        """Most likely class of each sample; sensitive_features as for predict_proba."""  # [n_samples]
        chances = self.predict_proba(X, sensitive_features)  # refuses what is not fitted
        return cast(Array, self.classes_[chances.argmax(axis=1)])

    def _group_codes(self, X: Any, groups: Any) -> Tensor | None:  # noqa: N803
        if self.shift_ is None or len(self.shift_) == 1:
            return None
        if groups is None:
            raise BadInput("this model decides by group: give predict sensitive_features, or fit without them.")
        check_consistent_length(X, groups)
        return cast(Tensor, self._preprocessing.meaning.groups(Rows(group_columns(groups))))

    def _searches(self, dataset: Dataset, weights: Tensor | None) -> bool:
        """True if the best of several is asked for; what speaks of a method or a module asks for that alone."""
        one_method = any(option is not None for option in (self.module, self.objective, self.method_options))
        weighted = slice(None) if weights is None else weights[dataset.rows["train"]] > 0
        fewest = torch.bincount(dataset.train.labels[weighted], minlength=len(self.classes_)).min()
        return len(dataset.input_shape) == 1 and int(fewest) >= FOLDS and not one_method  # each fold needs every class

    def _searched(self, dataset: Dataset, goal: Goal, seed: int, weights: Tensor | None) -> Search:
        """What `fairweight train` would write."""
        asked = {key: value for key, value in self._asked().items() if key not in ("method_options", "early_stopping")}
        learner = self.learner or ("mlp" if "network" in asked else None)
        by_group = self.groups_at_prediction
        request = TrainRequest("frame", learner=learner, groups_at_prediction=by_group, training=asked)
        return search(dataset, request, goal, seed=seed, device=self._device(), weights=weights)

    def _flipped(self) -> bool:
        """True if the first of two classes is the positive one, whose code is 1 in training."""
        return self.pos_label is not None and len(self.classes_) == 2 and bool(self.classes_[0] == self.pos_label)

    def _device(self) -> str:
        return "cuda" if self.device == "auto" and torch.cuda.is_available() else self.device.replace("auto", "cpu")

    def _trained(self, dataset: Dataset, goal: Goal, seed: int, weights: Tensor | None) -> Fitted:
        device, name, network = self._device(), self.method or FORML, None
        if self.groups_at_prediction or self.learner not in (None, "mlp"):
            raise BadInput(
                f"groups_at_prediction and learner choose among candidates, which takes {FOLDS} samples of each class "
                "and no method, module, objective or method_options; leave one or the other out."
            )
        if self.module is not None:
            network = partial(made, self.module, math.prod(dataset.input_shape), len(self.classes_))
        asked = with_objective(name, self._asked(), goal, dataset)
        spec = with_defaults(Spec("frame", method=name, seed=seed), dataset, asked, device)
        built = build(spec, dataset, device, network=network)
        own = None if weights is None else weights[dataset.rows["train"]]
        built.reweighter.sample_weight = None if own is None else (own / own.mean()).to(device)
        with one_thread(built.parameters):
            record, dynamics = train_built(built, spec, dataset, [Progress(name)] if self.verbose else [])
        self.history_ = record.history
        return Fitted(built.model, spec.network, built.reweighter, dynamics, record.epochs)

    def _asked(self) -> dict[str, Any]:
        """Fields of a Spec that the user has set."""
        if self.hidden is not None and not all(map(whole(1).allows, self.hidden)):
            raise BadInput(f"hidden={self.hidden!r}: give the layers' widths, each from 1, such as (64, 64).")
        names = ("optimizer", "lr", "weight_decay", "epochs", "batch_size", "per_cell")
        asked = {name: value for name in names if (value := getattr(self, name)) is not None}
        asked["method_options"] = {} if self.objective is None else {"objective": self.objective}
        asked["method_options"] |= self.method_options or {}
        if self.patience is not None:
            asked["early_stopping"] = {"metric": "objective", "patience": self.patience} if self.patience else {}
        if self.module is not None:
            asked["network"] = {"name": "module"}
        elif self.hidden is not None:
            asked["network"] = {"hidden": list(self.hidden)}
        return asked

    def _keep_weights(self, reweighter: Reweighter, dynamics: Dynamics, trained: Tensor, given: Given) -> None:
        """Keep weights and scores, one for each sample given; trained: the places of those that were trained on."""
        learned, scores, rows = reweighter.weights(), reweighter.scores, dynamics.path_rows
        weights = torch.full((len(given.labels),), torch.nan, dtype=torch.float64)
        weights[trained] = torch.ones(len(trained)).double() if learned is None else learned.detach().double().cpu()
        weights = filled_by_cell(weights, given.labels, given.group_codes)
        self.sample_weights_ = (weights / weights.mean()).numpy()  # [N]
        self.scores_ = self.score_path_ = self.score_path_rows_ = None
        if scores is not None:
            self.scores_ = np.full(len(given.labels), np.nan, dtype=np.float32)  # [N]
            self.scores_[trained] = scores.detach().float().cpu()
        if dynamics.score_path and rows is not None:
            self.score_path_ = torch.stack(dynamics.score_path).float().numpy()  # [epochs, P]
            self.score_path_rows_ = trained[rows.cpu()].numpy()  # [P]

    def _checked(self, X: Any, y: Any = None, *, reset: bool = True) -> tuple[Any, Any]:  # noqa: N803
        """Refuse what scikit-learn refuses; a frame stays one where the model was fitted on one."""
        if not self._table:
            # Before they are scaled, single precision loses what large numbers tell.
            dtype = (np.float64, np.float32) if self.standardize else np.float32
            checks = {"dtype": dtype, "allow_nd": self.module is not None, "reset": reset}
            return (validate_data(self, X, **checks), None) if y is None else validate_data(self, X, y, **checks)
        import pandas as pd

        frame = hasattr(X, "iloc") and hasattr(X, "columns")
        X = validate_data(self, X, skip_check_array=frame, reset=reset)
        if reset:
            self._columns = list(X.columns)
        X = pd.DataFrame(X) if frame else pd.DataFrame(X, columns=self._columns)
        if y is not None:
            y = column_or_1d(y, warn=True)
            assert_all_finite(y)
            check_consistent_length(X, y)
        return X, y

    def _given(self, X: Any, y: Array, groups: Any, part: str) -> Given:  # noqa: N803
        import pandas as pd

        if unknown := sorted(set(np.unique(y).tolist()) - set(self.classes_.tolist()), key=str):
            raise BadInput(f"{part} holds the label {unknown[0]!r}, which y does not; leave those samples out.")
        labels = torch.from_numpy(np.searchsorted(self.classes_, y).astype(np.int64))
        labels = 1 - labels if self._flipped() else labels
        if groups is not None:
            check_consistent_length(X, groups)
            groups = pd.DataFrame(groups)
        return Given(X, labels, groups, part)
