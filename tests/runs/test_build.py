"""The learning rate of each epoch, by the name of its schedule."""

import math

import pytest
import torch

from fairweight.errors import UnknownName
from fairweight.runs.build import scheduler_for
from fairweight.runs.spec import Spec
from fairweight.training import state


def rates(schedule, epochs, restart=None):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    spec = Spec("digits", schedule=schedule, epochs=epochs)
    scheduler = scheduler_for(optimizer, spec)
    found = []
    for epoch in range(epochs):
        if epoch == restart:  # as a resume does: the optimizer's state, then the scheduler's
            kept = state.flatten([optimizer.state_dict(), scheduler.state_dict()])
            optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
            scheduler = scheduler_for(optimizer, spec)
            of_optimizer, of_scheduler = state.unflatten(*kept)
            optimizer.load_state_dict(of_optimizer)
            scheduler.load_state_dict(of_scheduler)
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
    return found


def test_cosine_falls_from_the_start():
    assert rates({"name": "cosine"}, 4) == pytest.approx([0.05 * (1 + math.cos(math.pi * e / 4)) for e in range(4)])


@pytest.mark.parametrize("restart", [None, 1, 2, 5])
def test_warm_up_rises_and_then_falls_along_a_cosine(restart):
    falling = [0.05 * (1 + math.cos(math.pi * e / 6)) for e in range(6)]
    assert rates({"name": "cosine", "warm_up": 2}, 8, restart) == pytest.approx([0.025, 0.075, *falling])


def test_steps_and_none():
    assert rates({"name": "step", "at": [1, 3], "factor": 0.2}, 4) == pytest.approx([0.1, 0.02, 0.02, 0.004])
    assert rates({}, 3) == [0.1] * 3


def test_an_unknown_schedule_is_named():
    with pytest.raises(UnknownName, match="choose cosine or step"):
        rates({"name": "sine"}, 2)
