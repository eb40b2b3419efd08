"""What can be trained on a table with weights: boosted trees, logistic regression, a network; one call for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fairweight.data import Dataset
from fairweight.data.draw import by_stratum, proportional, stream
from fairweight.methods import Reweighter
from fairweight.methods.given import Given
from fairweight.models.mlp import MLP
from fairweight.runs.build import build, method_from
from fairweight.runs.defaults import with_defaults
from fairweight.runs.run import one_thread, train_built
from fairweight.runs.shift import ByGroup
from fairweight.runs.spec import Spec
from fairweight.runs.trees import ITERATIONS, columns_of, fit_trees
from fairweight.training.history import Dynamics
from fairweight.training.predict import logits
from fairweight.types import Batch, Cells

Floats = npt.NDArray[np.float64]
LEARNERS = ("trees", "linear", "mlp")  # the cheapest first
VALIDATION = 0.1  # of the rows, to choose a network's epoch
PENALTY = 1.0  # half of it times the squared coefficients is added to the summed losses, as scikit-learn's default
STEPS, SMALL = 25, 1e-8
WIDEST = 600  # inputs that a Newton step is quick with


@dataclass(frozen=True)
class Way:
    """How rows are weighed: a method and its options, as a Spec has them."""

    method: str = "uniform"
    options: Mapping[str, Any] = field(default_factory=dict)
    cells: Floats | None = None  # [G, K] weights by group and label instead; G is 1 where the label is the group


@dataclass(frozen=True)
class Fitted:
    """A trained model, what it was trained with, and the epoch that was kept."""

    model: nn.Module
    network: Mapping[str, Any]
    reweighter: Reweighter
    dynamics: Dynamics
    epoch: int
    shift: ByGroup | None = None  # by group, added to the logits

    @property
    def weights(self) -> Tensor:
        """Weight of each training row, mean 1."""  # [N]
        found = self.reweighter.weights()
        return torch.ones(self.reweighter.num_samples) if found is None else found.detach().cpu()


def usable(learner: str, dataset: Dataset) -> bool:
    """True if the learner takes this data."""
    narrow = len(dataset.input_shape) == 1
    if learner == "linear":
        return narrow and len(dataset.label_names) == 2 and dataset.input_shape[0] <= WIDEST
    return narrow or learner == "mlp"


def weights_by(way: Way, train: Batch) -> Tensor | None:
    """Weights of a method that knows them before training; None for all alike."""  # [N]
    if way.cells is not None:
        return cell_weights(way.cells, train.labels, train.groups)
    method = method_from(way.method, way.options, nn.Linear(1, 1), len(train))
    method.begin(replace(train, rows=None), None)
    found = method.weights()
    return None if found is None else found.detach()


def cell_weights(cells: Floats, labels: Tensor, groups: Tensor | None) -> Tensor:
    """Each row's entry of a table by group and label, mean 1; a group that is not known has the label's mean."""  # [N]
    table = torch.from_numpy(np.concatenate([cells, cells.mean(axis=0, keepdims=True)]))  # [G + 1, K]
    rows = torch.zeros_like(labels) if groups is None else groups
    found = table[rows, labels]  # -1 is the last row
    return found / found.mean()


@dataclass(frozen=True)
class Learner:
    """Trains one kind of model on the rows of a data set.

    asked: fields of a Spec that the user has set; they are a network's.
    """

    name: str
    dataset: Dataset
    seed: int = 0
    device: str = "cpu"
    asked: Mapping[str, Any] = field(default_factory=dict)

    def held_out(self, train: Batch, test: Batch, way: Way, epoch: int | None) -> tuple[Floats, Floats, int]:
        """Probabilities [M, K] on other rows, their losses after each epoch [E] where it is open, the kept epoch."""
        classes = len(self.dataset.label_names)
        if self.name == "mlp":
            fitted = self._network(train, way, epoch)
            return _chances(fitted.model, test), np.zeros(0), fitted.epoch
        weights = weights_by(way, train)
        if self.name == "linear":
            return _chances(fit_linear(train.inputs, train.labels, weights), test), np.zeros(0), 1  # type: ignore[arg-type]
        assert isinstance(train.inputs, Tensor)
        assert isinstance(test.inputs, Tensor)
        columns = columns_of(self.dataset)
        count = ITERATIONS if epoch is None else epoch
        trees = fit_trees(train.inputs, train.labels, weights, columns, classes, count, self.seed)
        if epoch is not None:
            return trees.chances(test.inputs), np.zeros(0), epoch
        staged = trees.staged(test.inputs)  # [I, M, K]
        own = staged[:, np.arange(len(test)), test.labels.numpy()]
        return staged, -np.log(np.maximum(own, 1e-12)).sum(axis=1), count

    def whole(self, way: Way, epoch: int) -> Fitted:
        """Train on all rows, for as many epochs as were found best."""
        train = self.dataset.train
        assert isinstance(train, Batch)
        if self.name == "mlp":
            return self._network(train, way, epoch)
        weights = weights_by(way, train)
        assert isinstance(train.inputs, Tensor)
        if self.name == "linear":
            model: nn.Module = fit_linear(train.inputs, train.labels, weights)
            network: Mapping[str, Any] = {"name": "mlp", "hidden": []}
        else:
            classes, columns = len(self.dataset.label_names), columns_of(self.dataset)
            model, network = fit_trees(train.inputs, train.labels, weights, columns, classes, epoch, self.seed).module()
        given = Given(nn.Linear(1, 1), len(train), weights=torch.ones(len(train)) if weights is None else weights)
        given.begin(replace(train, rows=None), None)
        return Fitted(model, network, given, Dynamics(len(train)), epoch)

    def spec(self, way: Way) -> Spec:
        """The Spec of a network's training with this way of weighing."""
        asked = {key: value for key, value in self.asked.items() if key not in ("method_options", "early_stopping")}
        first = Spec("rows", method=way.method, seed=self.seed)
        return with_defaults(first, self.dataset, {**asked, "method_options": dict(way.options)}, self.device)

    def _network(self, train: Batch, way: Way, epoch: int | None) -> Fitted:
        train = replace(train, rows=None)
        validation = None
        if epoch is None:
            strata = Cells.of(train.labels, train.groups).index + 1
            drawn = by_stratum(strata, proportional(strata, VALIDATION, 2), stream(self.seed, "judge", "validation"))
            kept = torch.ones(len(train), dtype=torch.bool)
            kept[drawn] = False
            validation = replace(train.take(drawn), rows=None)
            train = replace(train.take(kept), rows=None)
        dataset = replace(self.dataset, train=train, validation=validation, exemplar=self._exemplars(train))
        fixed = None if way.cells is None else cell_weights(way.cells, train.labels, train.groups)
        spec = self.spec(way if fixed is None else Way("given"))
        if epoch is None:
            patience = max(5, spec.epochs // 5)
            spec = spec.with_(early_stopping={"metric": "loss", "patience": patience})
        else:
            spec = spec.with_(epochs=epoch, early_stopping={})
        with torch.random.fork_rng(devices=[]):
            built = build(spec, dataset, self.device, weights=fixed)
            with one_thread(built.parameters):
                record, dynamics = train_built(built, spec, dataset)
        found = epoch or record.best_epoch or record.epochs
        return Fitted(built.model.eval(), spec.network, built.reweighter, dynamics, found)

    def _exemplars(self, train: Batch) -> Batch:
        """Those that were given on their own, else the training rows themselves: clean data needs none held out."""
        own = self.dataset.exemplar
        return own if isinstance(own, Batch) and own is not self.dataset.train else train


def _chances(model: nn.Module, samples: Batch) -> Floats:
    found = logits(model, replace(samples, rows=None)).cpu().double()
    flat = found if found.shape[1] > 1 else torch.cat([torch.zeros_like(found), found], dim=1)
    chances: Floats = flat.softmax(dim=1).numpy()
    return chances


def fit_linear(inputs: Tensor, labels: Tensor, weights: Tensor | None) -> MLP:
    """Logistic regression of two classes by Newton's steps, where each row counts its weight; kept as an MLP."""
    x = inputs.flatten(1).double().numpy()
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)  # [N, F + 1]
    y = labels.numpy().astype(np.float64)
    w = np.ones(len(y)) if weights is None else weights.double().numpy()
    ridge = np.full(x.shape[1], PENALTY)
    ridge[-1] = 1e-6  # the intercept is free
    beta = np.zeros(x.shape[1])
    loss = np.inf
    for _ in range(STEPS):
        score = x @ beta
        p = 1 / (1 + np.exp(-np.clip(score, -30, 30)))
        gradient = x.T @ (w * (p - y)) + ridge * beta
        curvature = (x * (w * np.maximum(p * (1 - p), 1e-6))[:, None]).T @ x + np.diag(ridge)
        step = np.linalg.solve(curvature, gradient)
        size, before = 1.0, loss
        while True:  # a whole step overshoots where classes are almost separable
            tried = beta - size * step
            loss = _loss(x, y, w, ridge, tried)
            if loss <= before or size < 1e-3:
                break
            size /= 2
        beta = tried
        if before - loss < SMALL * max(1.0, abs(loss)):
            break
    model = MLP(x.shape[1] - 1, 2, ())
    layer = model.layers[-1]
    assert isinstance(layer, torch.nn.Linear)
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
        layer.weight[1] = torch.from_numpy(beta[:-1])
        layer.bias[1] = float(beta[-1])
    return model


def _loss(x: Floats, y: Floats, w: Floats, ridge: Floats, beta: Floats) -> float:
    score = x @ beta
    return float((w * (np.logaddexp(0, score) - y * score)).sum() + 0.5 * (ridge * beta * beta).sum())
