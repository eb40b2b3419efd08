"""MOEW's search: a Gaussian process over the weights' parameter."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fairweight.errors import BadInput
from fairweight.runs.search import Candidate, Finished, Result, Search, best, loss_of

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]


class AlphaSearch(Search):
    """Finds the α of a ball whose training has the lowest loss on validation, such as max_fnr.

    Round 0 is uniform in the ball; then each candidate is the best of many random points by mean − std of a Gaussian
    process, and enters it with mean + std until its result is known, so that the next one of the round looks
    elsewhere. logarithm: model log(1 + loss), for losses of 0 or more. retrain: end with a training by the whole
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
        noise: float = 1e-4,
        points: int = 10_000,
        logarithm: bool = True,
        retrain: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if dimension < 1 or per_round < 1 or rounds < 1 or points < 1:
            raise BadInput("AlphaSearch: dimension, per_round, rounds and points must be at least 1.")
        if not radius > 0 or not noise > 0:
            raise BadInput(f"AlphaSearch(radius={radius}, noise={noise}): both must be positive.")
        self.dimension, self.radius, self.per_round, self.rounds = dimension, radius, per_round, rounds
        self.noise, self.points, self.logarithm, self.retrain, self.seed = noise, points, logarithm, retrain, seed
        self.total = per_round * rounds + int(retrain)
        self.last_is_full = retrain

    def wanted(self, candidate: Candidate) -> tuple[str, ...]:
        return ("loss",)

    def tell(self, candidate: Candidate, result: Result) -> None:
        value = result.get("loss")
        if self.logarithm and value is not None and float(value) < 0:
            raise BadInput(f"AlphaSearch was told a loss of {value}; with losses below 0 give logarithm=False.")
        super().tell(candidate, result)

    @property
    def outcome(self) -> Finished | None:
        done = self.finished
        if self.retrain and len(done) == self.total:
            return done[-1]
        return best(done)

    def propose(self, finished: Sequence[Finished]) -> list[Mapping[str, Any]]:
        import numpy as np

        turn = len(finished) // self.per_round
        if len(finished) >= self.per_round * self.rounds:
            chosen = best(finished)
            if not self.retrain or len(finished) >= self.total or chosen is None:
                return []
            return [dict(chosen.candidate.options)]
        if turn == 0:
            drawn = in_ball(self.per_round, self.dimension, self.radius, np.random.default_rng([self.seed, 0]))
            return [{"alpha": alpha.tolist()} for alpha in drawn]
        alphas = np.array([f.candidate.options["alpha"] for f in finished])
        values = self._values(finished)
        proposed: list[Mapping[str, Any]] = []
        for slot in range(self.per_round):
            rng = np.random.default_rng([self.seed, turn, slot])
            points = in_ball(self.points, self.dimension, self.radius, rng)
            mean, std = self._model(alphas, values, points)
            bound = mean - std
            if self.logarithm:  # no loss lies below 0: points whose bound does are equals, and chance decides
                bound = np.maximum(bound, 0.0) + rng.uniform(0.0, 1e-3, self.points)
            at = int(np.argmin(bound))
            alphas = np.vstack([alphas, points[at]])
            values = np.append(values, mean[at] + std[at])  # the worse end: pending points repel
            proposed.append({"alpha": points[at].tolist()})
        return proposed

    def _values(self, finished: Sequence[Finished]) -> Array:
        import numpy as np

        losses = [loss_of(f) for f in finished]
        usable = [value for value in losses if value is not None]
        if not usable:
            raise BadInput("Every candidate of the search failed; look at what train returned.")
        values = np.array([max(usable) if value is None else value for value in losses])
        return np.log1p(values) if self.logarithm else values

    def _model(self, alphas: Array, values: Array, points: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the process at the points."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel

        r = self.radius
        kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(r, (r * 1e-3, r * 1e3))
        process = GaussianProcessRegressor(kernel, alpha=self.noise)
        with warnings.catch_warnings():  # a length at its bound says that the loss hardly depends on α: no fault
            warnings.simplefilter("ignore", ConvergenceWarning)
            process.fit(alphas, values)
        mean, std = process.predict(points, return_std=True)
        return mean, std


def in_ball(count: int, dimension: int, radius: float, rng: np.random.Generator) -> Array:
    """Draw points uniform in a ball: a Gaussian's direction, a radius by the d-th root of a uniform number."""
    import numpy as np

    direction = rng.normal(size=(count, dimension))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    found: Array = direction * radius * rng.uniform(size=(count, 1)) ** (1 / dimension)
    return found
