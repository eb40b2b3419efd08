"""The arithmetic of what ranks send, against numbers worked out by hand."""

from __future__ import annotations

import pytest
from benchmarks.scaling import HEADER, HEADERS, Links, Work, main, seconds


def test_one_rank_sends_nothing() -> None:
    assert seconds(Work(1e6, 32, 8, 10), 1, Links()) == (0.0, 0.0)


def test_two_ranks_by_hand() -> None:
    work = Work(parameters=1e6, batch=10, exemplars=0, classes=2)
    links = Links(inside_gb_s=1.0, inside_us=0.0)
    plain, beyond = seconds(work, 2, links)
    assert plain == pytest.approx(4e6 / 1e9)  # each of 4 MB goes once around a ring of two
    assert work.gathered() == 10 * (24 + 16)
    assert beyond == pytest.approx((8e6 + 400 + HEADERS * HEADER) / 1e9)


def test_the_table_has_a_line_for_each_number_of_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--parameters", "25.6e6", "--batch", "256", "--classes", "1000", "--step-ms", "180"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].split()[0] == "1024"
    assert float(lines[-1].split()[-1].rstrip("%")) < float(lines[2].split()[-1].rstrip("%")) == 100.0
