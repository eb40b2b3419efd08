"""What the history does for many visits at once, or leaves undone where nothing can change, against the slow way."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from fairweight.training import _step_buffer
from fairweight.training.history import VISIT, Dynamics, add_visits, visits_of
from fairweight.types import StepRecord, margin

COUNT, SIZE = 50, 8  # the last batch of an epoch is smaller

# Which of an epoch's steps know what was right, the logits, the pull, and the gradient of the objective.
ALL, NONE, SOME, EARLY, LATE = set(range(7)), set[int](), {1, 4, 5}, {0, 1}, {5, 6}
KNOWN = {
    "plain training": (ALL, ALL, NONE, NONE),
    "nothing but losses": (NONE, NONE, NONE, NONE),
    "all": (ALL, ALL, ALL, ALL),
    "pulls alone": (ALL, ALL, ALL, NONE),
    "some": (SOME, SOME, NONE, SOME),
    "early": (EARLY, EARLY, EARLY, NONE),
    "late": (LATE, LATE, NONE, LATE),
}


def steps(known: str, classes: int, epochs: int = 3) -> Iterator[tuple[Tensor, StepRecord] | None]:
    """Rows and record of each step; None where an epoch ends."""
    right, seen, pulled, asked = KNOWN[known]
    random = torch.Generator().manual_seed(classes)
    labels = torch.randint(0, max(classes, 2), (COUNT,), generator=random)
    for _ in range(epochs):
        for step, rows in enumerate(torch.randperm(COUNT, generator=random).split(SIZE)):
            size = len(rows)
            logits = torch.randn(size, classes, generator=random)
            numbers = torch.randn(5, size, generator=random)
            yield (
                rows,
                StepRecord(
                    numbers[0].mean(),
                    numbers[0].exp(),
                    numbers[1].softmax(0),
                    numbers[2] > 0 if step in right else None,
                    logits if step in seen else None,
                    labels[rows] if step in seen else None,
                    pull=numbers[3] if step in pulled else None,
                    gradient=numbers[4] if step in asked else None,
                ),
            )
        yield None


def one_by_one(dynamics: Dynamics, rows: Tensor, done: StepRecord) -> None:
    """Each sample goes into the history by itself, in the way of rows that are drawn twice."""
    visits = visits_of([done])
    for place, row in enumerate(rows.tolist()):
        add_visits(dynamics._history[:, row, None], visits[:, place, None], dynamics.decay)


def assert_same(one: Dynamics, other: Dynamics) -> None:
    for (name, column), wanted in zip(one.table().items(), other.table().values(), strict=True):
        torch.testing.assert_close(column, wanted, equal_nan=True, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("at_once", [1, SIZE, 3 * SIZE, 10 * COUNT])
@pytest.mark.parametrize(("known", "classes"), list(itertools.product(KNOWN, [1, 2, 5])))
def test_many_visits_at_once_equal_one_sample_at_a_time(
    known: str, classes: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_step_buffer, "SAMPLES", at_once)
    fast, slow = Dynamics(COUNT), Dynamics(COUNT)
    for step in steps(known, classes):
        if step is None:
            fast.on_epoch(None, 3)
            slow.on_epoch(None, 3)
        else:
            fast.on_step(*step)
            one_by_one(slow, *step)
    assert_same(fast, slow)


@pytest.mark.parametrize("known", KNOWN)
def test_a_row_that_comes_twice_before_it_is_written_down(known: str) -> None:
    fast, slow = Dynamics(COUNT), Dynamics(COUNT)
    for step in steps(known, 2):
        if step is not None:  # no epoch ends: all rows come three times
            fast.on_step(*step)
            one_by_one(slow, *step)
    assert_same(fast, slow)


@pytest.mark.parametrize("known", KNOWN)
def test_a_row_that_is_drawn_several_times_in_one_step_is_seen_as_often(known: str) -> None:
    fast, slow = Dynamics(COUNT), Dynamics(COUNT)
    drawn = 0
    for step in steps(known, 2):
        if step is None:
            fast.on_epoch(None, 3)
            slow.on_epoch(None, 3)
        else:
            rows, record = step[0][torch.arange(len(step[0])) // 3], step[1]
            drawn += len(rows)
            fast.on_step(rows, record)
            one_by_one(slow, rows, record)
    assert_same(fast, slow)
    assert int(fast.visits.sum()) == drawn


def test_a_push_of_one_epoch_is_not_taken_for_that_of_the_next() -> None:
    fast, slow = Dynamics(COUNT), Dynamics(COUNT)
    for step in itertools.chain(steps("all", 2, 1), steps("plain training", 2, 1)):
        if step is None:
            fast.on_epoch(None, 2)
        else:
            fast.on_step(*step)
            one_by_one(slow, *step)
    torch.testing.assert_close(fast.table()["ema_push"], slow.table()["ema_push"])
    assert torch.equal(fast.table()["pushed_up"], slow.table()["pushed_up"])


def test_a_push_that_was_noted_is_gone_after_another_state_is_loaded() -> None:
    dynamics, fresh = Dynamics(COUNT), Dynamics(COUNT)
    for step in steps("all", 2, 1):
        if step is not None:
            dynamics.on_step(*step)
            dynamics._steps.flush()
    dynamics.load_state_dict(fresh.state_dict())
    for step in steps("plain training", 2, 1):
        if step is not None:
            dynamics.on_step(*step)
            fresh.on_step(*step)
    assert_same(dynamics, fresh)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(64,), (64, 1), (64, 2), (64, 5)])
def test_margin_and_lead_are_those_of_the_types_and_leave_the_record_as_it_was(
    shape: tuple[int, ...], kind: torch.dtype
) -> None:
    random = torch.Generator().manual_seed(0)
    logits = (8 * torch.randn(shape, generator=random)).to(kind)
    labels = torch.randint(0, max(2, *shape[1:], 0), (64,), generator=random)
    logits[0] = 0.0  # all alike
    before, losses, weights = logits.clone(), torch.rand(64, generator=random), torch.full((64,), 1 / 64)
    held = losses.clone()
    wanted = margin(logits, labels).float()
    z = logits.float().reshape(64, -1)
    z = torch.cat([torch.zeros_like(z), z], dim=1) if z.shape[1] == 1 else z
    p = z.double().softmax(dim=1)
    others = p.scatter(1, labels[:, None], -torch.inf).amax(dim=1)
    leads = p.gather(1, labels[:, None]).squeeze(1) - others
    total = (losses * weights).sum()
    visit, without = StepRecord(total, losses, weights, None, logits, labels), StepRecord(total, losses, weights)
    for visits in ([visit], [visit, visit], [without, visit]):
        found = dict(zip(VISIT, visits_of(visits), strict=True))
        margins, lead = found["margin"], found["lead"]
        rounding = 0.05 if kind == torch.bfloat16 else 1e-5  # of logits up to 20
        if len(shape) == 1 or shape[1] <= 2:
            assert torch.equal(margins[-64:], wanted)
        torch.testing.assert_close(margins[-64:], wanted, rtol=rounding, atol=rounding)
        torch.testing.assert_close(lead[-64:], leads.float(), rtol=0, atol=rounding)
    assert torch.equal(logits, before)
    assert torch.equal(losses, held)
