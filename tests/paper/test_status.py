"""What became of each table, in three words and a reason."""

import pytest
from tests.paper.test_records import record_of

from fairweight import catalog
from fairweight.paper.records import grouped
from fairweight.paper.status import standings, status_text


def state_of(table, **records):
    return next(one for one in standings(grouped(records)) if one.table == table)


def seeds(mean, spread=0.1, n=10):
    return {seed: mean + spread * (seed % 3 - 1) for seed in range(n)}


def mnist(forml):
    """Printed accuracies, and FORML's; TPRD and maxFNR are what is missing to 100."""
    record = record_of({"uniform-clean": seeds(97.16), "uniform": seeds(95.24), "lb": seeds(95.52), "forml": forml})
    for row in record["rows"]:
        for found in row["seeds"].values():
            found["max_fnr"] = found["tprd"]
    return record


def test_every_table_is_named_once_and_without_records_nothing_is_run():
    found = standings([])
    assert sorted(one.table for one in found) == catalog.names("paper.tables")
    assert {one.state for one in found} == {"not run", "ours"}
    assert all(one.why.endswith(".") and one.section is None for one in found)
    text = status_text(found)
    assert len(text.splitlines()) < 45, "one screen"
    assert max(map(len, text.splitlines())) <= 110


def test_a_gain_that_is_sure_is_reproduced_and_one_that_is_not_is_not():
    significantly = {seed: value + 0.7 + 0.02 * (seed % 4) for seed, value in seeds(95.24).items()}
    assert state_of("mnist", a=mnist(significantly)).state == "reproduced"
    nothing = {seed: value + 0.3 * (-1) ** seed for seed, value in seeds(95.24).items()}
    found = state_of("mnist", a=mnist(nothing))
    assert found.state == "not reproduced"
    assert "FORML as printed differs from Uniform by +0.00" in found.why
    assert found.section == "mnist, full"


def test_a_row_worse_than_printed_or_missing_is_named():
    worse = state_of("mnist", a=mnist(seeds(90.0)))
    assert "FORML, Algorithm 1: accuracy 89.99, printed 95.90." in worse.why
    assert "Not run: LB." in state_of("mnist", a=record_of({"uniform": seeds(95.2), "uniform-clean": seeds(97.2),
                                                            "forml": seeds(96.0)})).why  # fmt: skip


@pytest.mark.parametrize(("n", "size"), [(2, "paper"), (5, "short")])
def test_two_seeds_or_a_short_size_are_no_run_of_the_table(n, size):
    found = state_of("cifar10", a=record_of({"uniform": seeds(95.2, n=n)}, table="cifar10", size=size))
    assert found.state == "not run"
    assert f"Run so far: {'full' if size == 'paper' else 'short'} ({n} seeds)." in found.why
