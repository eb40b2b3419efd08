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
from fairweight.models.trees import TreeEnsemble
from fairweight.runs.build import LINEAR, build, method_from
from fairweight.runs.defaults import with_defaults
from fairweight.runs.linear import fit_linear
from fairweight.runs.run import one_thread, probabilities, train_built
from fairweight.runs.shift import ByGroup
from fairweight.runs.spec import Spec
from fairweight.runs.trees import ITERATIONS, fit_trees, network_of
from fairweight.sampling import Cells
from fairweight.training.history import Dynamics
from fairweight.training.predict import logits
from fairweight.types import Batch

Floats = npt.NDArray[np.float64]
LEARNERS = ("trees", "linear", "mlp")  # the cheapest first
VALIDATION = 0.1  # of the rows, to choose a network's epoch
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
        weights = self.reweighter.weights()
        return torch.ones(self.reweighter.num_samples) if weights is None else weights.detach().cpu()


def usable(learner: str, dataset: Dataset) -> bool:
    """True if the learner takes this data."""
    narrow = len(dataset.input_shape) == 1
    if learner == "linear":
        return narrow and len(dataset.label_names) == 2 and dataset.input_shape[0] <= WIDEST
    return narrow or learner == "mlp"


def cell_weights(cells: Floats, labels: Tensor, groups: Tensor | None) -> Tensor:
    """Each row's entry of a table by group and label, mean 1; a group that is not known has the label's mean."""  # [N]
    table = torch.from_numpy(np.concatenate([cells, cells.mean(axis=0, keepdims=True)]))  # [G + 1, K]
    weights = table[torch.zeros_like(labels) if groups is None else groups, labels]  # -1 is the last row
    return weights / weights.mean()


@dataclass(frozen=True)
class Learner:
    """Trains one kind of model on the rows of a data set.

    asked: fields of a Spec that the user has set; they are a network's. row_weights: the user's weight of each training
    row of the data; it multiplies what a way gives to the row.
    """

    name: str
    dataset: Dataset
    seed: int = 0
    device: str = "cpu"
    asked: Mapping[str, Any] = field(default_factory=dict)
    row_weights: Tensor | None = None  # [N]

    def held_out(self, train: Batch, test: Batch, way: Way, epoch: int | None) -> tuple[Floats, Floats, int]:
        """Probabilities on other rows [E, M, K] and their losses [E] after each epoch that may be kept, and the last.

        E is 1 unless these are trees and the epoch is open.
        """
        fitted = self._fitted(train, way, epoch)
        if isinstance(fitted.model, TreeEnsemble):
            assert isinstance(test.inputs, Tensor)
            with torch.no_grad():
                outputs = fitted.model.staged(test.inputs) if epoch is None else fitted.model(test.inputs)[None]
            chances: Floats = outputs.softmax(dim=-1).numpy()
        else:
            chances = probabilities(logits(fitted.model, replace(test, rows=None)).cpu().double()).numpy()[None]
        of_label = chances[:, np.arange(len(test)), test.labels.numpy()]
        return chances, -np.log(np.maximum(of_label, 1e-12)).sum(axis=1), fitted.epoch

    def whole(self, way: Way, epoch: int) -> Fitted:
        """Train on all rows, for as many epochs as were found best."""
        assert isinstance(self.dataset.train, Batch)
        return self._fitted(self.dataset.train, way, epoch)

    def _fitted(self, train: Batch, way: Way, epoch: int | None) -> Fitted:
        if self.name == "mlp":
            return self._network(train, way, epoch)
        if way.cells is not None:
            weights: Tensor | None = cell_weights(way.cells, train.labels, train.groups)
        else:  # of a method that knows them before training; None: all alike
            method = method_from(way.method, way.options, nn.Linear(1, 1), len(train))
            method.begin(replace(train, rows=None), None)
            weights = method.weights()
        row_weights = self._row_weights(train)
        product = weights if row_weights is None else row_weights * (1.0 if weights is None else weights)
        given = Given(nn.Linear(1, 1), len(train), weights=torch.ones(len(train)) if weights is None else weights)
        given.begin(replace(train, rows=None), None)
        if self.name == "linear":
            line: nn.Module = fit_linear(train, product)
            return Fitted(line, {"name": LINEAR}, given, Dynamics(len(train)), epoch or 1)
        epoch = ITERATIONS if epoch is None else epoch
        model, _ = fit_trees(train, product, self.dataset, epoch, self.seed)
        return Fitted(model, network_of(model), given, Dynamics(len(train)), epoch)

    def _row_weights(self, train: Batch) -> Tensor | None:
        """The user's weights of these rows, mean 1."""  # [M]
        if self.row_weights is None:
            return None
        weights = self.row_weights if train.rows is None else self.row_weights[train.rows]
        return weights / weights.mean().clamp(min=1e-12)

    def spec(self, way: Way) -> Spec:
        """The Spec of a network's training with this way of weighing."""
        asked = {key: value for key, value in self.asked.items() if key not in ("method_options", "early_stopping")}
        first = Spec("rows", method=way.method, seed=self.seed)
        return with_defaults(first, self.dataset, {**asked, "method_options": dict(way.options)}, self.device)

    def _network(self, train: Batch, way: Way, epoch: int | None) -> Fitted:
        row_weights, train = self._row_weights(train), replace(train, rows=None)
        validation = None
        if epoch is None:
            strata = Cells.of(train.labels, train.groups).index + 1
            drawn = by_stratum(strata, proportional(strata, VALIDATION, 2), stream(self.seed, "judge", "validation"))
            kept = torch.ones(len(train), dtype=torch.bool)
            kept[drawn] = False
            validation = replace(train.take(drawn), rows=None)
            train = replace(train.take(kept), rows=None)
            row_weights = None if row_weights is None else row_weights[kept]
        exemplar = self.dataset.exemplar
        if not isinstance(exemplar, Batch) or exemplar is self.dataset.train:  # none given: clean data needs none apart
            exemplar = train
        dataset = replace(self.dataset, train=train, validation=validation, exemplar=exemplar)
        fixed = None if way.cells is None else cell_weights(way.cells, train.labels, train.groups)
        spec = self.spec(way if fixed is None else Way("given"))
        early = {} if epoch else {"metric": "loss", "patience": max(5, spec.epochs // 5)}
        spec = spec.with_(epochs=epoch or spec.epochs, early_stopping=early)
        with torch.random.fork_rng(devices=[]):
            built = build(spec, dataset, self.device, weights=fixed)
            built.reweighter.sample_weight = None if row_weights is None else row_weights.to(self.device)
            with one_thread(built.parameters):
                record, dynamics = train_built(built, spec, dataset)
        kept_epoch = epoch or record.best_epoch or record.epochs
        return Fitted(built.model.eval(), spec.network, built.reweighter, dynamics, kept_epoch)
