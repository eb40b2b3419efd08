"""Several processes make the step of one process on their batches side by side."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.distributed.cases import CASES, FEW
from tests.distributed.launch import ranks
from tests.distributed.refusals import REFUSED
from tests.distributed.worker import SECONDS

TOLERANCE = 1e-12  # in float64, over 12 steps


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    return {name: run() for name, run in CASES.items()}


@pytest.fixture(
    scope="module",
    params=[
        (2, "few"),
        pytest.param((2, "all"), marks=pytest.mark.slow),
        pytest.param((3, "few"), marks=pytest.mark.slow),
    ],
    ids=lambda found: f"{found[0]} ranks, {found[1]}",
)
def together(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    size, which = request.param
    return ranks(size, tmp_path_factory.mktemp("cases"), [which])


@pytest.mark.parametrize("name", CASES)
def test_equals_one_process(name: str, alone: dict[str, Any], together: list[dict[str, Any]]) -> None:
    if name not in together[0]:
        assert name not in FEW
        return  # run where all are, for the time it takes
    for found in together:
        assert found[name].keys() == alone[name].keys()
        for key, value in alone[name].items():
            torch.testing.assert_close(found[name][key], value, rtol=TOLERANCE, atol=TOLERANCE, msg=key)


@pytest.mark.parametrize("name", CASES)
def test_ranks_end_identical(name: str, together: list[dict[str, Any]]) -> None:
    for found in together[1:]:
        assert all(torch.equal(value, together[0][name][key]) for key, value in found.get(name, {}).items())


def test_something_was_learned(alone: dict[str, Any]) -> None:
    """The numbers that are compared are not those of the start."""
    assert all(float(alone[name]["scores"].std()) > 1e-3 for name in ("forward", "per_layer", "ties", "reverse"))


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return ranks(2, tmp_path_factory.mktemp("refusals"), ["refusals"])


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_an_error_of_one_rank_is_raised_on_all(name: str, said: list[dict[str, Any]]) -> None:
    kind, sentence, seconds = said[0][name]
    assert [kind, sentence] == said[1][name][:2]
    assert sentence
    assert seconds < SECONDS / 3


@pytest.mark.slow
def test_the_error_is_that_of_the_rank(said: list[dict[str, Any]]) -> None:
    expected = {
        "model_fails_in_a_trial": "ArithmeticError",
        "model_fails_in_the_forward_pass": "ArithmeticError",
        "model_fails_on_exemplars": "ArithmeticError",
        "model_fails_in_the_pull": "ArithmeticError",
        "label_beyond": "LabelsBeyondLogits",
        "rows_beyond": "RowsOutOfRange",
        "loss_not_finite": "LossNotFinite",
    }
    assert {name: said[0][name][0] for name in expected} == expected
    assert "static_graph" in said[0]["static_graph"][1]
    assert "DTensor" in said[0]["fully_shard"][1]
