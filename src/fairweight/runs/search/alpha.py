"""MOEW's search: a Gaussian process over the weights' parameter."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fairweight.constraints import FLAG, above, constrained, whole
from fairweight.errors import BadInput
from fairweight.runs.search import Candidate, Finished, Search

Array = np.ndarray[Any, np.dtype[np.float64]]

NOISE = 1e-4  # variance of a loss, which is never measured exactly


@constrained(dimension=whole(1), radius=above(0), per_round=whole(1), rounds=whole(1), points=whole(1), retrain=FLAG)
class AlphaSearch(Search):
    """Finds the α of a ball whose training has the lowest loss on validation, such as max_fnr.

    Round 0 is uniform in the ball; then each candidate is the best of many random points by mean − std of a Gaussian
    process, and enters it with mean + std until its result is known, so that the next one of the round looks
    elsewhere. Modelled is log(1 + loss), for losses of 0 or more. retrain: end with a training by the whole
    schedule at the best α; without it the best candidate is used as it is. A result {"loss": None} is a training that
    failed, and counts as the worst.
    """

    gives = "alpha"

    def __init__(
        self,
        dimension: int,
        *,
        radius: float = 1.0,
        per_round: int = 20,
        rounds: int = 10,
        points: int = 10_000,
        retrain: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.dimension, self.radius, self.per_round, self.rounds = dimension, radius, per_round, rounds
        self.points, self.retrain, self.seed = points, retrain, seed
        self.total = per_round * rounds + int(retrain)
        self.last_is_full = retrain

    def wanted(self, candidate: Candidate) -> tuple[str, ...]:
        return ("loss",)

    @property
    def outcome(self) -> Finished | None:
        return self.finished[-1] if self.retrain and len(self.finished) == self.total else self.best

    def trainings(self) -> Iterator[Mapping[str, Any]]:
        drawn = in_ball(self.per_round, self.dimension, self.radius, np.random.default_rng([self.seed, 0]))
        yield from ({"alpha": alpha.tolist()} for alpha in drawn)
        for turn in range(1, self.rounds):
            yield from self._round(turn)
        if self.retrain and self.best is not None:
            yield self.best.candidate.options

    def _round(self, turn: int) -> list[Mapping[str, Any]]:
        alphas, values = np.array([f.candidate.options["alpha"] for f in self.finished]), self._values()
        proposed: list[Mapping[str, Any]] = []
        for slot in range(self.per_round):
            rng = np.random.default_rng([self.seed, turn, slot])
            points = in_ball(self.points, self.dimension, self.radius, rng)
            mean, std = self._model(alphas, values, points)
            # no loss lies below 0: points whose bound does are equals, and chance decides
            at = int(np.argmin(np.maximum(mean - std, 0.0) + rng.uniform(0.0, 1e-3, self.points)))
            alphas = np.vstack([alphas, points[at]])
            values = np.append(values, mean[at] + std[at])  # the worse end: pending points repel
            proposed.append({"alpha": points[at].tolist()})
        return proposed

    def _values(self) -> Array:
        values = np.array([np.nan if f.loss is None else f.loss for f in self.finished])
        if np.isnan(values).all():
            raise BadInput("Every candidate of the search failed; look at what train returned.")
        if np.nanmin(values) < 0:
            raise BadInput(f"AlphaSearch was told a loss of {np.nanmin(values)}; return losses of 0 or more.")
        found: Array = np.log1p(np.where(np.isnan(values), np.nanmax(values), values))
        return found

    def _model(self, alphas: Array, values: Array, points: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the process at the points."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel

        r = self.radius
        kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(r, (r * 1e-3, r * 1e3))
        process = GaussianProcessRegressor(kernel, alpha=NOISE)
        with warnings.catch_warnings():  # a length at its bound says that the loss hardly depends on α: no fault
            warnings.simplefilter("ignore", ConvergenceWarning)
            process.fit(alphas, values)
        mean, std = process.predict(points, return_std=True)
        return mean, std


def in_ball(count: int, dimension: int, radius: float, rng: np.random.Generator) -> Array:
    """Draw points uniform in a ball: a Gaussian's direction, a radius by the d-th root of a uniform number."""
    direction = rng.normal(size=(count, dimension))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    found: Array = direction * radius * rng.uniform(size=(count, 1)) ** (1 / dimension)
    return found
