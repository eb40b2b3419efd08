"""Searches over trainings: what they propose, and that a kill loses nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.methods.one_sample_models import BiasOnly

from fairweight.errors import BadCheckpoint, BadInput
from fairweight.methods.jtt import JTT
from fairweight.methods.label_bias import LabelBias
from fairweight.runs.search import Candidate, drive
from fairweight.runs.search.alpha import AlphaSearch, in_ball
from fairweight.runs.search.error import ErrorSearch
from fairweight.runs.search.multiplier import MultiplierSearch
from fairweight.types import Batch

BEST = np.array([0.3, -0.5, 0.2])


def bowl(candidate: Candidate) -> dict[str, float]:
    """A validation error with its minimum, 0, at a known α."""
    return {"loss": float(((np.array(candidate.options["alpha"]) - BEST) ** 2).sum())}


def short(seed: int = 0, **options) -> AlphaSearch:
    return AlphaSearch(3, per_round=4, rounds=5, points=1000, seed=seed, **options)


class Killed(Exception):
    pass


# -- the Gaussian process -----------------------------------------------------------------------


def test_points_are_uniform_in_the_ball():
    points = in_ball(20_000, 3, 2.0, np.random.default_rng(0))
    radius = np.linalg.norm(points, axis=1)
    assert radius.max() <= 2.0
    assert np.mean(radius < 1.0) == pytest.approx(1 / 8, abs=0.01)  # a ball of half the radius
    assert np.abs(points.mean(axis=0)).max() < 0.03


def test_the_search_beats_chance_at_the_same_budget():
    """Mean over seeds of the best loss after 20 trainings, against 20 draws uniform in the ball."""
    found = [drive(short(seed), bowl).result["loss"] for seed in range(5)]
    chance = [
        min(bowl(Candidate(0, {"alpha": a}))["loss"] for a in in_ball(20, 3, 1.0, np.random.default_rng(seed)))
        for seed in range(200)
    ]
    assert np.mean(found) < 0.1 * np.mean(chance)
    assert max(found) < 0.01


def test_a_round_spreads_because_pending_points_repel():
    """Without the pessimistic pseudo-value every slot of a round would choose nearly the same point."""
    search = AlphaSearch(2, per_round=6, rounds=2, points=4000, seed=3)
    drive(search, lambda c: {"loss": 1 + float(((np.array(c.options["alpha"]) - 0.3) ** 2).sum())})
    values = np.log1p([f.result["loss"] for f in search.finished[:6]])
    alphas = np.array([f.candidate.options["alpha"] for f in search.finished[:6]])
    second = [np.array(f.candidate.options["alpha"]) for f in search.finished[6:]]

    def chosen(slot, alphas, values):
        """The point that a slot of the second round should choose, and the process there."""
        rng = np.random.default_rng([3, 1, slot])
        points = in_ball(4000, 2, 1.0, rng)
        mean, std = search._model(alphas, values, points)
        at = int(np.argmin(np.maximum(mean - std, 0.0) + rng.uniform(0.0, 1e-3, 4000)))
        return points[at], mean[at] + std[at]

    first, worse_end = chosen(0, alphas, values)
    np.testing.assert_array_equal(second[0], first)
    # the second slot sees the first with mean + std, and draws points of its own
    np.testing.assert_array_equal(second[1], chosen(1, np.vstack([alphas, first]), np.append(values, worse_end))[0])
    without = np.linalg.norm(chosen(1, alphas, values)[0] - first)
    apart = [np.linalg.norm(a - b) for i, a in enumerate(second) for b in second[:i]]
    assert without < 0.15
    assert np.mean(apart) > 2 * without


def test_every_candidate_lies_in_the_ball():
    search = AlphaSearch(4, radius=0.5, per_round=3, rounds=3, points=200)
    drive(search, lambda c: {"loss": float(np.sum(np.square(c.options["alpha"])))})
    assert all(np.linalg.norm(f.candidate.options["alpha"]) <= 0.5 + 1e-12 for f in search.finished)
    assert len(search.finished) == search.total == 9


def test_the_best_is_trained_again_in_full():
    search = short(retrain=True)
    outcome = drive(search, lambda c: {"loss": 0.5 if c.full else bowl(c)["loss"]})
    assert outcome.candidate.full
    assert outcome.candidate.number == search.total - 1 == 20
    best = min(search.finished[:-1], key=lambda f: f.result["loss"])
    assert outcome.candidate.options == best.candidate.options
    assert sum(f.candidate.full for f in search.finished) == 1


def test_a_training_that_failed_counts_as_the_worst():
    """Training diverges on one side of the ball: the search leaves that side."""
    search = short()
    outcome = drive(search, lambda c: {"loss": None if c.options["alpha"][0] < -0.1 else bowl(c)["loss"]})
    failed = [f.candidate.number for f in search.finished if f.result["loss"] is None]
    assert failed
    assert max(failed) < 16
    assert outcome.result["loss"] < 0.02
    with pytest.raises(BadInput, match="failed"):
        drive(short(), lambda c: {"loss": None})


def test_a_flat_loss_is_no_fault():
    assert drive(short(), lambda c: {"loss": 0.25}).candidate.number == 0


@pytest.mark.parametrize("killed_after", [1, 4, 6, 13, 19])
def test_a_kill_loses_nothing_that_was_told(killed_after, tmp_path):
    whole = short()
    drive(whole, bowl)
    trained = []

    def dies(candidate):
        if len(trained) == killed_after:
            raise Killed
        trained.append(candidate.number)
        return bowl(candidate)

    path = tmp_path / "search.json"
    with pytest.raises(Killed):
        drive(short(), dies, path)
    resumed, again = short(), []

    def goes_on(candidate):
        again.append(candidate.number)
        return bowl(candidate)

    drive(resumed, goes_on, path)
    assert trained + again == list(range(20)), "each candidate is trained once"
    assert resumed.state_dict() == whole.state_dict()
    drive(short(), lambda c: pytest.fail("a search that is over trains nothing"), path)


def test_another_search_s_file_is_refused(tmp_path):
    path = tmp_path / "search.json"
    drive(short(), bowl, path)
    with pytest.raises(BadCheckpoint, match="seed"):
        drive(short(seed=1), bowl, path)
    with pytest.raises(BadCheckpoint, match="another kind"):
        drive(ErrorSearch(), lambda c: {}, path)
    path.write_text("{")
    with pytest.raises(BadCheckpoint, match="cannot be read"):
        drive(short(), bowl, path)


@pytest.mark.parametrize(
    ("result", "said"), [({}, "lacks 'loss'"), ({"loss": math.nan}, "JSON"), ({"loss": -0.5}, "loss of -0.5")]
)
def test_results_that_say_nothing(result, said):
    with pytest.raises(BadInput, match=said):
        drive(short(), lambda c: result)


def test_progress_is_reported():
    seen = []
    drive(ErrorSearch(), lambda c: {"errors": [1]}, report=lambda f, done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]


# -- multipliers --------------------------------------------------------------------------------


def test_multipliers_move_by_the_violation():
    violations = iter([[[0.2], [-0.4]], [[0.1], [0.0]], [[0.0], [0.0]]])
    search = MultiplierSearch(3, rate=0.5)
    outcome = drive(search, lambda c: {"violation": next(violations)})
    first, second, third = (f.candidate.options["multipliers"] for f in search.finished)
    assert first is None
    assert second == [[0.1], [-0.2]]
    np.testing.assert_allclose(third, [[0.15], [-0.2]])
    assert outcome is search.finished[-1]
    shapes = iter([[[0.2]], [[0.1], [0.0]]])
    with pytest.raises(BadInput, match="changed its shape"):
        drive(MultiplierSearch(3), lambda c: {"violation": next(shapes)})


def test_the_best_training_may_be_kept():
    losses = iter([0.5, 0.2, 0.4])
    search = MultiplierSearch(3, keep="best")
    assert drive(search, lambda c: {"violation": [[0.1]], "loss": next(losses)}).candidate.number == 1


def test_a_search_may_be_made_longer(tmp_path):
    path = tmp_path / "search.json"
    drive(MultiplierSearch(2), lambda c: {"violation": [[0.1]]}, path)
    trained = []
    drive(MultiplierSearch(4), lambda c: trained.append(c.number) or {"violation": [[0.1]]}, path)
    assert trained == [2, 3]


def test_retraining_reaches_the_target_rate():
    """A model that predicts label 1 at its share of the weight, trained anew for each λ."""
    train = Batch(torch.zeros(200, 1).double(), torch.arange(200) // 100)

    def trained(candidate):
        method = LabelBias(BiasOnly(), 200, constraint="rate", target={1: 0.3}, online=False, **candidate.options)
        method.begin(train)
        share = float(method.weights()[100:].sum() / 200)
        predictions = (torch.arange(200) < round(200 * share)).long()
        return {"violation": method.violation(train, predictions).tolist(), "share": share}

    assert drive(MultiplierSearch(60), trained).result["share"] == pytest.approx(0.3, abs=0.005)


# -- two trainings ------------------------------------------------------------------------------


def test_jtt_trains_twice():
    seen = []

    def trained(candidate):
        method = JTT(BiasOnly(), 6, **candidate.options)
        seen.append((candidate.full, method.errors.tolist()))
        return {"errors": [1, 4]} if not candidate.full else {"accuracy": 0.9}

    outcome = drive(ErrorSearch(), trained)
    assert seen == [(False, []), (True, [1, 4])]
    assert outcome.result == {"accuracy": 0.9}
