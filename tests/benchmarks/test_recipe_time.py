"""How long a recipe takes, from a log."""

import json

import pytest


@pytest.fixture
def recipe_time(script):
    return script("recipe_time")


@pytest.fixture
def log(tmp_path):
    """Five epochs: 10 s to begin with, then 2 s each, and a last one of 6 s on a shared device."""
    lines = [{"event": "start", "epochs": 5, "num_samples": 100}]
    lines += [{"event": "epoch", "seconds": at} for at in (10.0, 12.0, 14.0, 16.0, 22.0)]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_whole_run_takes_what_it_took(recipe_time, log):
    found = recipe_time.timed(log, None)
    assert (found["total_s"], found["measured"], found["first_epoch_s"]) == (22.0, 5, 10.0)


def test_epochs_that_had_the_device_alone_are_counted_up(recipe_time, log):
    found = recipe_time.timed(log, 4)
    assert (found["measured"], found["epoch_s"]["median"]) == (4, 2.0)
    assert found["total_s"] == 10.0 + 4 * 2.0
    record = {"rows": {"forml": found}, "device": "a device", "commit": "abc", "remark": "The last one was shared."}
    page = "\n".join(recipe_time.words(record))
    assert "counted up" in page
    assert page.rstrip().endswith("commit abc. The last one was shared.")
