"""How the settings of docs/choices.md are chosen, and the page that says so."""

import pytest
import torch


@pytest.fixture
def page_file(script):
    return script("class_fairness_page")


def test_recalls_are_measured_by_class(script):
    labels = torch.tensor([0, 0, 1, 1, 1, 1])
    said = torch.tensor([0, 0, 1, 0, 0, 0])
    found = script("beyond_front").measured(torch.eye(2)[said], labels)
    assert (found["accuracy"], found["tprd"], found["worst"]) == pytest.approx((50.0, 75.0, 25.0))
    assert found["recall_std"] == pytest.approx(37.5)


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
