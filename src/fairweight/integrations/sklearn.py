"""FairweightClassifier: scikit-learn's conventions around the same training."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor, nn

from fairweight.errors import BadInput
from fairweight.integrations._estimator_data import (
    Groups,
    exemplars_of,
    filled_by_cell,
    natural_shares,
    validation_rows,
)
from fairweight.integrations._estimator_parts import check_counts, few_threads, method_from, module_from, optimizer_from
from fairweight.methods import Reweighter
from fairweight.training.callbacks import EarlyStopping, Observer, Progress
from fairweight.training.fit import fit
from fairweight.training.history import Dynamics
from fairweight.training.options import FitOptions
from fairweight.training.predict import logits
from fairweight.types import Batch, Cells

STEPS = 2_000  # as many epochs as make up so many steps, within bounds
Array = np.ndarray[Any, Any]


class FairweightClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """A neural network that learns what each training sample is worth.

    method: a name of `fairweight list methods`. module: None for an MLP; a class or function, called with the number
    of features and of classes (or with nothing where it takes nothing); or a model, which is copied and never changed.
    objective: what the weights are learned for, such as "mean + 0.5 * variance", or an Objective. method_options: the
    method's other options. Where they are left out, what suits the data is chosen.
    epochs, batch_size: None for what suits the number of samples. validation_fraction: of the samples, kept out to
    choose the best epoch where there are a thousand or more; 0 trains on all. exemplar_fraction: of the samples, drawn
    evenly by cell; they stay in training. per_cell: exemplars of each cell in a step.
    standardize: whether each feature is brought to mean 0 and deviation 1 of the training samples first.

    Fitted: classes_, groups_ (names), sample_weights_ [n_samples] with mean 1, scores_ [n_samples] or None,
    score_path_ [n_epochs, n_kept] or None, score_path_rows_ [n_kept], module_, n_iter_, history_. A sample that was
    kept out for validation has the mean weight of its cell, and no score.
    """

    # Asked for by default, so that a meta-estimator passes it on as soon as metadata routing is switched on.
    __metadata_request__fit = {"sensitive_features": True}  # noqa: RUF012 - scikit-learn reads it as it stands

    def __init__(
        self,
        method: str = "forml",
        module: nn.Module | Callable[..., nn.Module] | None = None,
        *,
        objective: Any = None,
        method_options: Mapping[str, Any] | None = None,
        hidden: Sequence[int] = (64, 64),
        optimizer: str = "adam",
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        epochs: int | None = None,
        batch_size: int | None = None,
        per_cell: int = 16,
        exemplar_fraction: float = 0.1,
        validation_fraction: float = 0.1,
        patience: int = 10,
        standardize: bool = True,
        device: str = "cpu",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.module = module
        self.objective = objective
        self.method_options = method_options
        self.hidden = hidden
        self.optimizer = optimizer
        self.lr = lr
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.batch_size = batch_size
        self.per_cell = per_cell
        self.exemplar_fraction = exemplar_fraction
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.standardize = standardize
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

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
        exemplar: a trusted set of its own, (X, y) or (X, y, sensitive_features); without it, part of the samples.
        """
        check_counts(self.epochs, self.batch_size, self.patience, self.hidden)
        X, y = validate_data(self, X, y, dtype=self._exact(), allow_nd=self.module is not None)
        check_classification_targets(y)
        self.classes_ = unique_labels(y)
        if len(self.classes_) < 2:
            raise ValueError("FairweightClassifier needs samples of at least two classes; y holds one class only.")
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        labels = torch.from_numpy(np.searchsorted(self.classes_, y).astype(np.int64))  # [N]
        groups = None
        self.groups_: tuple[str, ...] = ()
        if sensitive_features is not None:
            check_consistent_length(X, sensitive_features)
            found = Groups.of(sensitive_features, len(labels))
            groups, self.groups_ = found.codes, found.names
        kept_out = self._validation(labels, groups, seed)
        self._note_scale(X[~kept_out.numpy()])
        whole = Batch(self._scaled(X), labels, groups)
        train = whole.take(torch.nonzero(~kept_out).flatten())
        train = Batch(train.inputs, train.labels, train.groups)
        given = None if sample_weight is None else _given(sample_weight, X)[~kept_out.numpy()]
        held = self._exemplars(train, exemplar, seed)
        validation = whole.take(torch.nonzero(kept_out).flatten()) if bool(kept_out.any()) else None
        method, dynamics = self._train(train, held, validation, given, seed)
        self._note_weights(method, dynamics, whole, kept_out)
        return self

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """The probability of each class."""  # [n_samples, n_classes]
        check_is_fitted(self)
        X = validate_data(self, X, dtype=self._exact(), allow_nd=self.module is not None, reset=False)
        batch = Batch(self._scaled(X), torch.zeros(len(X), dtype=torch.int64))
        with few_threads(self.module_):
            found = logits(self.module_, batch).double().cpu()
        flat = found.reshape(len(found), -1)
        if flat.shape[1] == 1:
            flat = torch.cat([torch.zeros_like(flat), flat], dim=1)
        chances: Array = flat.softmax(dim=1).numpy()
        return chances

    def predict(self, X: Any) -> Array:  # noqa: N803
        """The most likely class of each sample."""  # [n_samples]
        chances = self.predict_proba(X)
        return cast(Array, self.classes_[chances.argmax(axis=1)])

    # -- what is trained, and how -----------------------------------------------------------------

    def _train(
        self, train: Batch, held: Batch, validation: Batch | None, given: Tensor | None, seed: int
    ) -> tuple[Reweighter, Dynamics]:
        size, inputs = len(train), train.inputs
        assert isinstance(inputs, Tensor)
        batch_size = min(256, max(16, size // 10)) if self.batch_size is None else self.batch_size
        many = min(100, max(20, math.ceil(STEPS * batch_size / size)))
        epochs = many if self.epochs is None else self.epochs
        device = "cuda" if self.device == "auto" and torch.cuda.is_available() else self.device.replace("auto", "cpu")
        classes = len(self.classes_)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = module_from(self.module, self.hidden, math.prod(inputs.shape[1:]), classes).to(device)
        optimizer = optimizer_from(self.optimizer, model, self.lr, self.weight_decay)
        method = method_from(self.method, self.objective, self.method_options, model, train, held, classes)
        method.given = None if given is None else (given / given.mean()).to(device)
        dynamics = Dynamics(size, device)
        per_cell = min(self.per_cell, max(Cells.of(held.labels, held.groups).counts, default=self.per_cell))
        observers: list[Observer] = [] if validation is None else [EarlyStopping("objective", self.patience)]
        observers += [Progress(self.method)] if self.verbose else []
        with few_threads(model):
            record = fit(
                model,
                optimizer,
                method,
                train.to(device),
                held.to(device),
                epochs,
                observers,
                validation=None if validation is None else validation.to(device),
                dynamics=dynamics,
                options=FitOptions(batch_size=batch_size, per_cell=per_cell, seed=seed),
            )
        self.module_ = model.eval()
        self.n_iter_ = record.epochs
        self.history_ = record.history
        return method, dynamics

    def _note_weights(self, method: Reweighter, dynamics: Dynamics, whole: Batch, kept_out: Tensor) -> None:
        """One entry for each sample that was given; for those kept out, the mean weight of their cell and no score."""
        trained = torch.nonzero(~kept_out).flatten()
        found, scores, rows = method.weights(), method.scores, dynamics.path_rows
        learned = torch.ones(len(trained)) if found is None else found.detach().cpu()
        weights = filled_by_cell(learned, ~kept_out, whole.labels, whole.groups)
        self.sample_weights_ = (weights / weights.mean()).numpy()  # [N]
        self.scores_ = self.score_path_ = self.score_path_rows_ = None
        if scores is not None:
            every = torch.full((len(whole),), torch.nan)
            every[trained] = scores.detach().float().cpu()
            self.scores_ = every.numpy()  # [N]
        if dynamics.score_path and rows is not None:
            self.score_path_ = torch.stack(dynamics.score_path).float().numpy()  # [epochs, P]
            self.score_path_rows_ = trained[rows.cpu()].numpy()  # [P]

    # -- the samples ------------------------------------------------------------------------------

    def _validation(self, labels: Tensor, groups: Tensor | None, seed: int) -> Tensor:
        if len(labels) < 1_000 or self.validation_fraction == 0:
            return torch.zeros(len(labels), dtype=torch.bool)
        if not 0 < self.validation_fraction < 1:
            raise BadInput(f"validation_fraction={self.validation_fraction}: give a share from 0 to below 1.")
        return validation_rows(labels, groups, self.validation_fraction, seed)

    def _exemplars(self, train: Batch, given: tuple[Any, ...] | None, seed: int) -> Batch:
        if given is None:
            if not 0 < self.exemplar_fraction <= 1:
                raise BadInput(f"exemplar_fraction={self.exemplar_fraction}: give a share above 0 and at most 1.")
            chosen = exemplars_of(train, self.exemplar_fraction, seed)
            held = train.take(chosen)
            return Batch(held.inputs, held.labels, held.groups, shares=natural_shares(train, chosen))
        if len(given) not in (2, 3):
            raise BadInput("exemplar is a tuple (X, y) or (X, y, sensitive_features).")
        X, y = validate_data(self, given[0], given[1], dtype=self._exact(), allow_nd=True, reset=False)
        if strange := sorted(set(np.unique(y).tolist()) - set(self.classes_.tolist()), key=str):
            raise BadInput(f"exemplar holds the label {strange[0]!r}, which y does not; leave those samples out.")
        labels = torch.from_numpy(np.searchsorted(self.classes_, y).astype(np.int64))
        groups = None
        if len(given) == 3:
            found = Groups.of(given[2], len(labels), self.groups_ or None)
            groups, self.groups_ = found.codes, found.names
        return Batch(self._scaled(X), labels, groups)

    def _exact(self) -> Any:
        """The type to read samples in: before they are scaled, single precision loses what large numbers tell."""
        return (np.float64, np.float32) if self.standardize else np.float32

    def _note_scale(self, X: Array) -> None:  # noqa: N803
        self._mean, self._scale = np.zeros(()), np.ones(())
        if self.standardize:
            self._mean = X.mean(axis=0, dtype=np.float64)
            deviation = X.std(axis=0, dtype=np.float64)
            self._scale = np.where(deviation > 0, deviation, 1.0)

    def _scaled(self, X: Array) -> Tensor:  # noqa: N803
        return torch.from_numpy(((X - self._mean) / self._scale).astype(np.float32))


def _given(sample_weight: Any, X: Array) -> Tensor:  # noqa: N803
    """The user's weights, refused where they leave nothing to learn from."""  # [N]
    found = _check_sample_weight(sample_weight, X, dtype=np.float32, ensure_non_negative=True)
    if not found.sum() > 0:
        raise BadInput("sample_weight is 0 for every sample; give some of them a weight above 0.")
    return torch.from_numpy(found)
