"""The step that is as long as the exemplars agree, and how settings are compared."""

import pytest
import torch
from torch import nn

from fairweight.types import Batch


@pytest.fixture
def step_file(script):
    return script("class_fairness_step")


@pytest.fixture
def benchmark_file(script):
    return script("class_fairness")


@pytest.fixture
def page_file(script):
    return script("class_fairness_page")


def test_a_step_keeps_what_it_made_of_each_look(step_file):
    step = step_file.ReliableStep(0.1, power=2.0)
    step.hear(torch.tensor(0.5))
    step.hear(torch.tensor(-1.0))
    assert step.reliabilities == pytest.approx([2 / 3, 0.0])
    assert (step.fresh().heed, step.fresh().reliabilities) == (2.0, [])


@pytest.mark.slow
@pytest.mark.parametrize("own", [True, False])
def test_both_scores_hear_the_halves(step_file, own):
    """Halves that are each other's copy agree wholly."""
    torch.manual_seed(0)
    batch = Batch(torch.randn(24, 5), torch.arange(24) % 3, rows=torch.arange(24))
    twice = torch.arange(6).repeat_interleave(2)
    exemplar = Batch(torch.randn(6, 5)[twice], (torch.arange(6) % 3)[twice])
    model = nn.Linear(5, 3)
    step = step_file.ReliableStep(0.1)
    method = step_file.AgreeingFORML(model, 24, score_step=step, tie="label", own=own, agreement_every=1)
    for _ in range(3):
        method.step(batch, exemplar, torch.optim.SGD(model.parameters(), 0.1))
    assert method._ties.step.reliabilities == pytest.approx([1.0] * 3)
    assert method.score_step.reliabilities == pytest.approx([1.0] * 3)
    assert method.scores.std() > 0.01


def test_recalls_are_measured_by_class(benchmark_file):
    labels = torch.tensor([0, 0, 1, 1, 1, 1])
    said = torch.tensor([0, 0, 1, 0, 0, 0])
    found = benchmark_file.measured(torch.eye(2)[said], labels)
    assert (found["accuracy"], found["tprd"], found["worst"]) == pytest.approx((50.0, 75.0, 25.0))
    assert found["recall_std"] == pytest.approx(37.5)


def test_a_setting_is_compared_on_the_seeds_that_uniform_has(benchmark_file):
    def row(accuracy, spread):
        return {"accuracy": accuracy, "tprd": 1.0, "recall_std": spread, "worst": 1.0}

    found = {
        ("cifar10", "uniform"): {0: row(60.0, 10.0), 1: row(70.0, 10.0)},
        ("cifar10", "default"): {0: row(59.0, 8.0), 1: row(69.5, 6.0), 2: row(0.0, 0.0)},
        ("mnist", "default"): {0: row(0.0, 0.0)},
    }
    first, second = benchmark_file.compared(found, "cifar10", [0, 1, 2])
    assert (first["name"], first["n"], second["name"]) == ("default", 2, "uniform")
    assert first["beside_uniform"]["accuracy"]["mean"] == pytest.approx(-0.75)
    assert first["recall_std_over_uniform"] == pytest.approx(0.7)
    assert first["sum"] == pytest.approx(0.7 + 0.3 * 0.75)
    assert second["sum"] == pytest.approx(1.0)


def test_every_candidate_can_be_made(benchmark_file):
    for name in benchmark_file.CANDIDATES:
        method = benchmark_file.reweighter_for(name, nn.Linear(2, 2), 8)
        assert getattr(method, "gradient", "difference") == "difference"


def setting(name, accuracy, spread, total):
    pair = {"mean": accuracy, "standard_error": 0.2}
    row = {"name": name, "method": "forml", "n": 3, "sum": total, "beside_uniform": {"accuracy": pair}}
    return {**row, "means": {"recall_std": {"mean": spread}}}


def test_the_rule_takes_the_most_even_setting_that_costs_nothing(page_file):
    rows = [setting("dear", -0.5, 5.0, 0.6), setting("near", -0.25, 6.0, 0.7), setting("free", -0.05, 8.0, 0.8)]
    rows += [setting("idle", 0.1, 9.0, 0.9), {**setting("once", 0.0, 1.0, 0.1), "n": 1}]
    said = page_file.verdict(rows)
    assert (said["chosen"], said["trade_off"], said["free"]) == ("free", "dear", ["near", "free", "idle"])
    assert said["pooled_error"] == pytest.approx(0.2)
    assert page_file.verdict(rows[:2])["chosen"] is None


def test_the_page_is_what_the_records_say(script):
    choices = script("choices")
    assert choices.PAGE.read_text() == choices.whole()


def test_of_the_later_ones_those_pass_that_hold_what_the_default_holds(page_file):
    def row(name, accuracy, tprd):
        return {"name": name, "means": {"accuracy": {"mean": accuracy}, "tprd": {"mean": tprd}}}

    rows = [row("default", 96.0, 5.0), row("both 1", 95.9, 6.1), row("both 2", 95.7, 4.0), row("heeding", 95.9, 5.9)]
    assert page_file.passing([*rows, row("own .03", 97.0, 3.0)]) == ["heeding"]
