"""Plain and exact steps in turns."""

import pytest
import torch


@pytest.mark.slow
def test_both_are_timed_as_often_and_the_multiple_is_that_of_their_medians(script):
    torch.set_num_threads(1)
    found = script("turns").measured("cpu", batch=8, exemplars=10, width=2, rounds=2, each=3)
    plain, exact = found["results"]
    assert (plain["name"], exact["name"]) == ("plain", "forward, traced")
    assert plain["n"] == exact["n"] == 6
    assert exact["exact"]
    assert exact["refusal"] is None
    assert found["times_plain"] == pytest.approx(exact["median_ms"] / plain["median_ms"])
    low, high = exact["quartiles_ms"]
    assert low <= exact["median_ms"] <= high
    assert found["commit"]
    assert found["device"].startswith("CPU")
