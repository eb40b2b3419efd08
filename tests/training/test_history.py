from __future__ import annotations

import itertools
import math
import time

import pytest
import torch
from torch import Tensor, nn

import fairweight as fw
from fairweight.errors import BadInput, ScoresMismatch
from fairweight.training import _step_buffer, history
from fairweight.training.history import PATH_NUMBERS, Dynamics
from fairweight.types import StepRecord


def record(
    losses: Tensor,
    weights: Tensor | None = None,
    correct: Tensor | None = None,
    margin: Tensor | None = None,
    gradient: Tensor | None = None,
) -> StepRecord:
    weights = torch.full_like(losses, 1 / len(losses)) if weights is None else weights
    seen = {} if margin is None else {"logits": margin, "labels": torch.ones_like(margin, dtype=torch.int64)}
    return StepRecord((weights * losses).sum(), losses, weights, correct, gradient=gradient, **seen)


class Twin:
    """The same history, one sample and one visit at a time, in plain Python."""

    def __init__(self, decay: float = 0.9) -> None:
        self.decay = decay
        self.seen: dict[int, list[dict[str, float]]] = {}

    def on_step(self, rows: Tensor, done: StepRecord) -> None:
        assert done.correct is not None
        assert done.margin is not None
        columns = (rows, done.losses, done.weights * len(rows), done.margin, done.correct)
        for row, loss, weight, margin, right in zip(*(column.tolist() for column in columns), strict=True):
            visit = {"loss": loss, "weight": weight, "margin": margin, "right": float(right)}
            self.seen.setdefault(row, []).append(visit)

    def ema(self, row: int, value: str) -> float:
        total = gathered = 0.0
        for visit in self.seen.get(row, []):
            now = visit["loss"] * visit["weight"] if value == "weighted" else visit[value]
            total = self.decay * total + (1 - self.decay) * now
            gathered = self.decay * gathered + (1 - self.decay)
        return total / gathered if gathered else math.nan

    def forgetting(self, row: int) -> int:
        right = [visit["right"] for visit in self.seen.get(row, [])]
        if not any(right):
            return len(right)
        return sum(a == 1 and b == 0 for a, b in itertools.pairwise(right))


def random_record(size: int, generator: torch.Generator) -> StepRecord:
    losses = torch.rand(size, generator=generator)
    weights = torch.softmax(torch.randn(size, generator=generator), 0)
    margin = torch.randn(size, generator=generator)
    return record(losses, weights, margin > 0, margin)


@pytest.mark.parametrize("duplicates", [False, True])
def test_visits_taken_in_together_equal_visits_one_by_one(duplicates: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_step_buffer, "SAMPLES", 1_000)
    generator = torch.Generator().manual_seed(0)
    count, size = 300, 16
    dynamics, twin = Dynamics(count), Twin()
    steps = 3 * _step_buffer.SAMPLES // size + 5  # several times full, and a rest
    for step in range(steps):
        if duplicates:
            rows = torch.randperm(count, generator=generator)[:size]  # the next batch may hold the same rows
        else:
            rows = (torch.arange(size) + step * size) % count
        done = random_record(size, generator)
        dynamics.on_step(rows, done)
        twin.on_step(rows, done)
    table = dynamics.table()
    for column, value in {"ema_loss": "loss", "ema_weighted_loss": "weighted", "ema_weight": "weight"}.items():
        wanted = torch.tensor([twin.ema(row, value) for row in range(count)])
        torch.testing.assert_close(table[column], wanted, equal_nan=True, rtol=1e-4, atol=1e-6)
    assert table["forgetting_events"].tolist() == [twin.forgetting(row) for row in range(count)]
    assert table["visits"].tolist() == [len(twin.seen.get(row, [])) for row in range(count)]
    means = [sum(v["margin"] for v in twin.seen[row]) / len(twin.seen[row]) for row in twin.seen]
    torch.testing.assert_close(table["mean_margin"][list(twin.seen)], torch.tensor(means), rtol=1e-4, atol=1e-5)
    last = [twin.seen[row][-1]["margin"] for row in twin.seen]
    torch.testing.assert_close(table["margin"][list(twin.seen)], torch.tensor(last))


@pytest.mark.parametrize(
    ("right", "events"), [((1, 0, 1, 0, 1), 2), ((0, 0, 0), 3), ((0, 0, 1), 0), ((1, 1, 0), 1), ((0, 1, 0, 0, 1), 1)]
)
def test_forgetting_events_of_hand_sequences(right: tuple[int, ...], events: int) -> None:
    dynamics = Dynamics(3)
    for value in right:
        dynamics.on_step(torch.tensor([1]), record(torch.ones(1), correct=torch.tensor([bool(value)])))
    assert dynamics.table()["forgetting_events"].tolist() == [0, events, 0]
    assert dynamics.table()["mistakes"].tolist() == [0, right.count(0), 0]


def test_a_step_without_an_opinion_neither_learns_nor_forgets() -> None:
    dynamics = Dynamics(1)
    for correct in (torch.tensor([True]), None, torch.tensor([False])):
        dynamics.on_step(torch.tensor([0]), record(torch.ones(1), correct=correct))
    table = dynamics.table()
    assert (int(table["forgetting_events"]), int(table["visits"])) == (1, 3)


def test_averages_of_one_visit_are_that_visit_and_unseen_samples_are_unknown() -> None:
    dynamics = Dynamics(2)
    dynamics.on_step(torch.tensor([0]), record(torch.tensor([2.5])))
    table = dynamics.table()
    assert float(table["ema_loss"][0]) == pytest.approx(2.5)
    assert float(table["ema_weighted_loss"][0]) == pytest.approx(2.5)
    assert all(math.isnan(float(table[name][1])) for name in ("ema_loss", "ema_weight", "margin", "mean_margin"))
    assert table["visits"].tolist() == [1, 0]


def test_relative_losses_count_early_and_late_epochs_alike() -> None:
    dynamics = Dynamics(3, decay=0.5)
    for scale in (100.0, 1.0):  # the same losses relative to the epoch, at very different sizes
        losses = scale * torch.tensor([0.0, 1.0, 2.0])
        dynamics.on_step(torch.arange(3), record(losses))
        dynamics.on_epoch(None, 2)
    relative = dynamics.table()["ema_relative_loss"]
    torch.testing.assert_close(relative, torch.tensor([0.0, 1.0, 2.0]))
    torch.testing.assert_close(dynamics.table()["ema_relative_weighted_loss"], relative)
    torch.testing.assert_close(dynamics.table()["ema_loss"], torch.tensor([0.0, 34.0, 68.0]))


def test_an_epoch_without_any_loss_leaves_no_sample_unknown() -> None:
    """A network that is sure of all its samples has losses of exactly 0; so has any batch whose weights are all 0."""
    dynamics = Dynamics(2, decay=0.5)
    for losses in ([1.0, 3.0], [0.0, 0.0], [2.0, 2.0]):
        dynamics.on_step(torch.arange(2), record(torch.tensor(losses)))
        dynamics.on_epoch(None, 3)
    table = dynamics.table()
    expected = torch.tensor([0.125 * 0.5 + 0.5, 0.125 * 1.5 + 0.5]) / 0.875  # the epoch between counts 0 for both
    torch.testing.assert_close(table["ema_relative_loss"], expected)
    torch.testing.assert_close(table["ema_relative_weighted_loss"], expected)


def test_set_weighted_loss_uses_the_weights_over_the_whole_set() -> None:
    dynamics = Dynamics(2)
    dynamics.on_step(torch.tensor([0]), record(torch.tensor([3.0])))  # alone in its batch: weight 1 there
    dynamics.on_step(torch.tensor([1]), record(torch.tensor([3.0])))
    dynamics.on_epoch(None, 1, torch.tensor([0.5, 1.5]))
    torch.testing.assert_close(dynamics.table()["ema_set_weighted_loss"], torch.tensor([1.5, 4.5]))
    torch.testing.assert_close(dynamics.table()["ema_weighted_loss"], torch.tensor([3.0, 3.0]))


def test_push_says_who_the_objective_asks_more_weight_for() -> None:
    dynamics = Dynamics(3)
    gradient = torch.tensor([-2.0, 1.0, 1.0])  # raising the first score lowers the objective
    for scale in (1.0, 1e-6):
        dynamics.on_step(torch.arange(3), record(torch.ones(3), gradient=scale * gradient))
    table = dynamics.table()
    assert table["pushed_up"].tolist() == [2, 0, 0]
    torch.testing.assert_close(table["ema_push"], -gradient / gradient.square().mean().sqrt())
    plain = Dynamics(3)
    plain.on_step(torch.arange(3), record(torch.ones(3)))
    assert bool(plain.table()["ema_push"].isnan().all())


def test_paths_are_kept_whole_for_small_sets_and_as_an_even_selection_for_large_ones() -> None:
    small = Dynamics(5)
    for epoch in range(3):
        small.on_epoch(torch.arange(5.0) * epoch, 3, torch.tensor([2.0, 0.5, 0.5, 1.0, 1.0]))
    paths = small.paths()
    assert paths["rows"].tolist() == [0, 1, 2, 3, 4]
    assert paths["scores"].float()[2].tolist() == [0, 2, 4, 6, 8]
    assert paths["weights"].shape == (3, 5)
    large = Dynamics(PATH_NUMBERS)
    for _ in range(4):
        large.on_epoch(torch.zeros(PATH_NUMBERS), 4)
    rows = large.paths()["rows"]
    assert large.paths()["scores"].numel() <= PATH_NUMBERS
    assert rows[0] == 0
    assert rows[-1] == PATH_NUMBERS - 1
    assert len(rows.unique()) == len(rows)


def test_weights_that_never_move_leave_no_path() -> None:
    dynamics = Dynamics(4)
    dynamics.on_step(torch.arange(4), record(torch.ones(4)))
    dynamics.on_epoch(None, 1)
    assert dynamics.paths() == {}


@pytest.mark.parametrize(("odd", "value"), [(None, 1.0), (3, 1.5), (1, 7.0), (6, math.nan)])
def test_weights_that_are_one_for_all_kept_rows_leave_no_path(
    odd: int | None, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "PATH_NUMBERS", 8)  # of ten rows, over two epochs, 0, 3, 6 and 9 are kept
    weights = torch.ones(10)
    if odd is not None:
        weights[odd] = value
    dynamics = Dynamics(10)
    for now in (weights, torch.ones(10)):
        dynamics.on_epoch(None, 2, now)
    found = dynamics.paths()
    assert found.keys() == ({"rows", "weights"} if odd == 3 else set())
    if odd == 3:
        assert found["weights"].tolist() == [[1.0, 1.5, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]


def test_huge_scores_stay_finite_in_the_path() -> None:
    dynamics = Dynamics(2)
    dynamics.on_epoch(torch.tensor([1e9, -1e9]), 1)
    assert bool(dynamics.paths()["scores"].isfinite().all())


def test_state_goes_on_bit_for_bit_from_the_middle_of_an_epoch() -> None:
    generator = torch.Generator().manual_seed(1)
    steps = [(torch.randperm(50, generator=generator)[:10], random_record(10, generator)) for _ in range(9)]
    whole, first, second = Dynamics(50), Dynamics(50), Dynamics(50)
    for k, (rows, done) in enumerate(steps):
        whole.on_step(rows, done)
        (first if k < 4 else second).on_step(rows, done)
        if k == 3:
            second.load_state_dict(first.state_dict())
    for dynamics in (whole, second):
        dynamics.on_epoch(torch.arange(50.0), 1)
    for name, column in whole.table().items():
        assert torch.equal(column.nan_to_num(-9), second.table()[name].nan_to_num(-9)), name
    with pytest.raises(ScoresMismatch, match="50 samples and this run has 49"):
        Dynamics(49).load_state_dict(first.state_dict())


@pytest.mark.parametrize("classes", [1, 2, 5])
def test_margins_taken_together_equal_those_of_each_sample(classes: int) -> None:
    generator = torch.Generator().manual_seed(classes)
    dynamics = Dynamics(40)
    logits = torch.randn(2, 40, classes, generator=generator)
    labels = torch.randint(0, max(classes, 2), (40,), generator=generator)
    wanted, leads = torch.zeros(2, 40), torch.zeros(2, 40)
    for visit in range(2):
        for k, (z, y) in enumerate(zip(logits[visit].tolist(), labels.tolist(), strict=True)):
            z = [0.0, z[0]] if classes == 1 else z
            wanted[visit, k] = z[y] - max(other for at, other in enumerate(z) if at != y)
            p = [math.exp(one) / sum(map(math.exp, z)) for one in z]
            leads[visit, k] = p[y] - max(other for at, other in enumerate(p) if at != y)
        for rows in torch.randperm(40, generator=generator).split(16):
            made = record(torch.ones(len(rows)))
            made.logits, made.labels = logits[visit, rows], labels[rows]
            torch.testing.assert_close(made.margin, wanted[visit, rows])
            dynamics.on_step(rows, made)
    torch.testing.assert_close(dynamics.table()["margin"], wanted[1])
    torch.testing.assert_close(dynamics.table()["mean_margin"], wanted.mean(dim=0))
    torch.testing.assert_close(dynamics.table()["mean_probability_margin"], leads.mean(dim=0))


def test_a_step_without_logits_leaves_the_margin_of_its_rows_unknown() -> None:
    dynamics = Dynamics(4)
    dynamics.on_step(torch.tensor([0, 1]), record(torch.ones(2), margin=torch.tensor([1.0, -2.0])))
    dynamics.on_step(torch.tensor([2, 3]), record(torch.ones(2)))
    margins = dynamics.table()["margin"]
    assert margins[:2].tolist() == [1.0, -2.0]
    assert bool(margins[2:].isnan().all())


def test_many_logits_do_not_pile_up() -> None:
    """A thousand classes: what waits is bounded by numbers, not by samples."""
    dynamics = Dynamics(2_000)
    logits = torch.zeros(50, 1_000)
    for start in range(0, 2_000, 50):
        made = record(torch.ones(50))
        made.logits, made.labels = logits, torch.zeros(50, dtype=torch.int64)
        dynamics.on_step(torch.arange(start, start + 50), made)
        assert len(dynamics._steps) * logits.numel() <= _step_buffer.LOGITS
    assert dynamics.visits.tolist() == [1] * 2_000


def test_rows_may_be_overwritten_after_their_step() -> None:
    dynamics, rows = Dynamics(4), torch.tensor([0, 1])
    dynamics.on_step(rows, record(torch.ones(2)))
    rows += 2
    assert dynamics.visits.tolist() == [1, 1, 0, 0]


def test_a_decay_that_forgets_nothing_is_refused() -> None:
    with pytest.raises(BadInput, match="decay"):
        Dynamics(3, decay=1.0)


@pytest.mark.slow
def test_costs_less_than_two_hundredths_of_a_resnet_step() -> None:
    """benchmarks/dynamics_cost.py measures whole epochs; here the best of a few steps, so that others may work too."""
    model = fw.ResNet18(10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    count, size = 24, 8
    train = fw.Batch(torch.rand(count, 3, 32, 32), torch.randint(0, 10, (count,)))
    method, dynamics = fw.Uniform(model, count), Dynamics(count)
    steps, notes = [], []
    for k in range(3):
        batch = train.take(torch.arange(k * size, (k + 1) * size))
        started = time.perf_counter()
        done = method.step(batch, None, optimizer)
        between = time.perf_counter()
        assert batch.rows is not None
        dynamics.on_step(batch.rows, done)
        dynamics.visits  # noqa: B018 - takes the visit in at once, which is the dearest way
        steps.append(between - started)
        notes.append(time.perf_counter() - between)
    assert min(notes) < 0.02 * min(steps)


def test_every_method_fills_the_table_in_a_run() -> None:
    torch.manual_seed(0)
    train = fw.Batch(torch.randn(40, 3), torch.arange(40) % 2)
    model = nn.Linear(3, 2)
    dynamics = Dynamics(40)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fw.fit(model, optimizer, fw.FORML(model, 40), train, train, epochs=3, dynamics=dynamics, batch_size=8)
    table = dynamics.table()
    assert all(bool(column.isfinite().all()) for column in table.values())
    assert set(table["visits"].tolist()) == {3}
    paths = dynamics.paths()
    assert paths["scores"].shape == paths["weights"].shape == (3, 40)
    assert float(paths["weights"].float().mean()) == pytest.approx(1, abs=0.01)
