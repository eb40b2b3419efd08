"""Searches over trainings: what they propose, and that a kill loses nothing."""

from __future__ import annotations

import json
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
    search = AlphaSearch(2, per_round=6, rounds=2, points=4000, seed=3, logarithm=False)

    def loss(candidate):
        return {"loss": float(((np.array(candidate.options["alpha"]) - 0.3) ** 2).sum())}

    for candidate in search.ask():
        search.tell(candidate, loss(candidate))
    values = np.array([f.result["loss"] for f in search.finished])
    alphas = np.array([f.candidate.options["alpha"] for f in search.finished])
    second = [np.array(c.options["alpha"]) for c in search.ask()]

    points = in_ball(4000, 2, 1.0, np.random.default_rng([3, 1, 0]))
    mean, std = search._model(alphas, values, points)
    at = int(np.argmin(mean - std))
    np.testing.assert_array_equal(second[0], points[at])
    # the second slot sees the first with mean + std, and draws points of its own
    points2 = in_ball(4000, 2, 1.0, np.random.default_rng([3, 1, 1]))
    mean2, std2 = search._model(np.vstack([alphas, second[0]]), np.append(values, mean[at] + std[at]), points2)
    np.testing.assert_array_equal(second[1], points2[int(np.argmin(mean2 - std2))])
    plain_mean, plain_std = search._model(alphas, values, points2)
    without = points2[int(np.argmin(plain_mean - plain_std))]
    assert np.linalg.norm(without - second[0]) < 0.15
    apart = [np.linalg.norm(a - b) for i, a in enumerate(second) for b in second[:i]]
    assert np.mean(apart) > 2 * np.linalg.norm(without - second[0])


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


def test_results_may_come_in_any_order():
    straight, shuffled = short(), short()
    drive(straight, bowl)
    while candidates := shuffled.ask():
        for candidate in reversed(candidates):
            shuffled.tell(candidate, bowl(candidate))
    assert shuffled.state_dict() == straight.state_dict()


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


def test_results_that_say_nothing():
    search = short()
    first, second, *_ = search.ask()
    with pytest.raises(BadInput, match="lacks 'loss'"):
        search.tell(first, {})
    with pytest.raises(BadInput, match="JSON"):
        search.tell(first, {"loss": math.nan})
    with pytest.raises(BadInput, match="logarithm=False"):
        search.tell(first, {"loss": -0.5})
    with pytest.raises(BadInput, match="not asked for"):
        search.tell(Candidate(99, {}), {"loss": 0.5})
    search.tell(first, {"loss": 0.5})
    with pytest.raises(BadInput, match="told before"):
        search.tell(first, {"loss": 0.4})
    assert second in search.ask()


def test_progress_is_reported():
    seen = []
    drive(ErrorSearch(), lambda c: {"errors": [1]}, report=lambda f, done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]


# -- multipliers --------------------------------------------------------------------------------


def test_multipliers_move_by_the_violation():
    search = MultiplierSearch(3, rate=0.5)
    (first,) = search.ask()
    assert first.options == {"multipliers": None}
    search.tell(first, {"violation": [[0.2], [-0.4]]})
    (second,) = search.ask()
    assert second.options == {"multipliers": [[0.1], [-0.2]]}
    search.tell(second, {"violation": [[0.1], [0.0]]})
    (third,) = search.ask()
    np.testing.assert_allclose(third.options["multipliers"], [[0.15], [-0.2]])
    search.tell(third, {"violation": [[0.0], [0.0]]})
    assert search.ask() == []
    assert search.outcome.candidate == third


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


def test_the_state_is_json():
    search = short()
    search.tell(search.ask()[0], {"loss": 0.5})
    state = json.loads(json.dumps(search.state_dict()))
    again = short()
    again.load_state_dict(state)
    assert again.state_dict() == search.state_dict()
    assert again.ask() == search.ask()
