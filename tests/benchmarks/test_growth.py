"""A thousand times the scores cost no more time."""

import pytest


@pytest.mark.slow
def test_time_does_not_grow_with_the_number_of_scores(script, monkeypatch):
    module = script("growth")
    monkeypatch.setattr(module, "BATCHES", ())
    found = module.growth("cpu", repeats=30, samples=(10_000, 10_000_000))["samples"]
    assert found[1]["median_ms"] < 3 * found[0]["median_ms"]
