"""The arithmetic of what ranks send, against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest


def test_one_rank_sends_nothing(script: Any) -> None:
    scaling = script("scaling")
    assert scaling.Work(10**6, 32, 8).seconds(1, scaling.Links()) == (0.0, 0.0)


def test_two_ranks_by_hand(script: Any) -> None:
    scaling = script("scaling")
    work = scaling.Work(parameters=10**6, batch=10, exemplars=2)
    links = scaling.Links(inside_gb_s=1.0, inside_us=0.0)
    plain, beyond = work.seconds(2, links)
    assert plain == pytest.approx(4e6 / 1e9)  # each of 4 MB goes once around a ring of two
    assert work.gathered() == 10 * (24 + 8 + 1) + 2 * (24 + 4)
    assert beyond == pytest.approx((8e6 + 386 + 8 * 256) / 1e9)


def test_rows_slow_down_with_ranks_and_machines(script: Any) -> None:
    scaling = script("scaling")
    step = {"parameters": 25_557_032, "batch": 128, "exemplars": 32, "plain_ms": 10.0, "forml_ms": 20.0}
    found = scaling.rows({"a": step}, scaling.Links())
    assert [row["ranks"] for row in found] == list(scaling.RANKS)
    shares = [row["efficiency"] for row in found]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 1.0


def test_a_part_of_the_scores_is_measured(script: Any) -> None:
    for row in script("scaling").measured_scores(10**5, 64, 4):
        assert row["scores"] == len(range(3, 10**5, row["ranks"]))
        assert row["median_ms"] > 0
