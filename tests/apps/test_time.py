"""`--time` is kept: trainings with counted costs, on a clock that moves by them alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from tests.cli.test_train_judged import crowd

from fairweight.apps import candidates, deliver
from fairweight.apps.judge import Goal, TrainRequest
from fairweight.data import load
from fairweight.metrics.criterion import criterion
from fairweight.runs.clock import Clock, OutOfTime
from fairweight.runs.learners import Learner, Way

FAIR = Goal(criterion("equal-opportunity"))
REST = 0.12  # of the time, for judging and writing, which the counted costs leave out


class Ticking:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def costed(monkeypatch):
    """Learners that train nothing and move the clock: a fold's seconds by learner, and how much dearer FORML is."""
    clock = Ticking()

    def install(costs: dict[str, float], forml: float) -> Ticking:
        @dataclass(frozen=True)
        class Costed(Learner):
            def _spend(self, way: Way, epoch: int | None, rows: float) -> None:
                factor = forml if way.method == "forml" else 1.0
                clock.seconds += costs[self.name] * factor * rows * (2.0 if epoch is None else 1.0)

            def held_out(self, train, test, way, epoch):
                self._spend(way, epoch, 1.0)
                chance = np.clip(0.8 * test.labels.numpy() + 0.1, 0, 1)
                return np.stack([1 - chance, chance], axis=1)[None], np.zeros(1), 7

            def whole(self, way, epoch):
                self._spend(way, epoch, 1.25)
                return Learner("linear", self.dataset, self.seed).whole(Way(), 1)

        monkeypatch.setattr("fairweight.apps.judge.DRAWS", 20)
        monkeypatch.setattr(deliver, "Learner", Costed)
        monkeypatch.setattr(candidates, "Learner", Costed)
        monkeypatch.setattr(deliver, "Clock", partial(Clock, now=clock))
        return clock

    return install


@pytest.fixture(scope="module")
def data():
    return load(crowd(400, 1), label="income", group="sex")


@pytest.mark.parametrize(
    ("limit", "seeds", "trees", "mlp", "forml"),
    [
        (20, 1, 0.1, 0.5, 3),
        (60, 3, 0.1, 0.5, 3),
        (20, 1, 0.4, 1.0, 6),
        (60, 1, 0.4, 1.0, 6),
        (60, 3, 0.05, 0.8, 12),  # FORML is dearer than thought
        (300, 1, 0.05, 0.8, 12),
        (20, 3, 1.0, 0.2, 3),
        (300, 3, 1.0, 0.2, 3),
    ],
)
def test_a_search_ends_within_a_tenth_of_its_time(limit, seeds, trees, mlp, forml, costed, data):
    clock = costed({"trees": trees, "linear": 0.1 * trees, "mlp": mlp}, forml)
    start = clock()
    found = deliver.search(data, TrainRequest("frame", seconds=limit, seeds=seeds), FAIR)
    took = clock() - start
    assert took + REST * limit <= 1.1 * limit
    if found.notes and "time did not suffice" in found.notes[0]:
        assert took > 0.25 * limit, "there was time for more"


def test_the_first_model_is_trained_on_two_folds_in_any_case_and_a_slow_one_is_given_up_after_a_fold(costed, data):
    clock = costed({"trees": 3.0, "linear": 0.1, "mlp": 50.0}, 3.0)
    start = clock()
    found = deliver.search(data, TrainRequest("frame", seconds=10.0), FAIR)
    assert [one.title for one in found.candidates] == ["plain (trees)"]
    assert clock() - start < 20
    assert len(found.rows.labels) == pytest.approx(0.4 * len(found.dataset.train), abs=2)
    assert found.why == "Nothing but plain training was tried"  # which nothing could beat
    assert ["2 of the 5 folds" in note for note in found.notes] == [True, False]
    assert "time did not suffice to try" in found.notes[1]


def test_what_is_imported_in_the_first_fold_does_not_end_the_search():
    now = Ticking()
    clock = Clock(40.0, now)
    for fold in clock.paced(range(5), "linear", "linear", 1.0):
        now.seconds += 4.0 if fold == 0 else 0.1
    clock.check("linear fixed", 5, "linear", 1.0)
    assert clock.took == {"linear": pytest.approx(0.1)}


def test_a_kind_that_was_not_seen_is_guessed_from_another():
    now = Ticking()
    clock = Clock(100.0, now)
    clock.note("mlp", 2.0)
    clock.check("forml", 5, "mlp", 4.0)
    now.seconds += 50
    with pytest.raises(OutOfTime):
        clock.check("forml", 5, "mlp", 4.0)
    clock.check("mlp", 5)
    Clock(None, now).check("mlp", 10**9)
