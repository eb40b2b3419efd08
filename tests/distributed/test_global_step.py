"""Several processes make the step of one process on their batches side by side."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from benchmarks.scaling import HEADER, HEADERS, Work
from tests.distributed.cases import FEW, Numbers, net
from tests.distributed.fit_cases import CASES
from tests.distributed.launch import ranks
from tests.distributed.refusals import REFUSED
from tests.distributed.worker import SECONDS

TOLERANCE = 1e-12  # in float64, over 12 steps


@cache
def alone(name: str) -> Numbers:
    return CASES[name]()


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return ranks(2, tmp_path_factory.mktemp("few"), ["few"])


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return ranks(2, tmp_path_factory.mktemp("rest"), ["rest"])


@pytest.fixture(scope="module")
def few_on_three(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return ranks(3, tmp_path_factory.mktemp("three"), ["few"])


WHERE = [
    *(("few", name) for name in FEW),
    *(pytest.param("rest", name, marks=pytest.mark.slow) for name in CASES if name not in FEW),
    *(pytest.param("few_on_three", name, marks=pytest.mark.slow) for name in FEW),
]


@pytest.mark.parametrize(("where", "name"), WHERE)
def test_equals_one_process(where: str, name: str, request: pytest.FixtureRequest) -> None:
    together = [found["cases"][name] for found in request.getfixturevalue(where)]
    for found in together:
        assert found.keys() == alone(name).keys()
        for key, value in alone(name).items():
            torch.testing.assert_close(found[key], value, rtol=TOLERANCE, atol=TOLERANCE, msg=key)
    assert all(torch.equal(value, together[0][key]) for found in together[1:] for key, value in found.items())


def test_a_step_sends_what_the_scaling_page_counts(few: list[dict[str, Any]]) -> None:
    sent = few[0]["traffic"]
    parameters = sum(p.numel() for p in net().parameters())
    rows, size = 6, 8  # of a rank, and bytes of a number
    headers = [n for n in sent["all_gather"] if n == HEADER]
    assert len(headers) == HEADERS
    gathered = sum(sent["all_gather"]) - len(headers) * HEADER
    work = Work(parameters, rows, rows, size)
    assert gathered == work.gathered() + rows * size  # and the exemplars' shares
    # The slope and the objective's gradient; and the real step's gradient, which a wrapper would sum otherwise.
    assert sorted(sent["all_reduce"])[:2] == [work.summed() // 2] * 2
    assert len(sent["all_reduce"]) == 3


def test_something_was_learned() -> None:
    """The numbers that are compared are not those of the start."""
    assert all(float(alone(name)["scores"].std()) > 1e-3 for name in ("forward", "per_layer", "ties"))


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_an_error_of_one_rank_is_raised_on_all(name: str, rest: list[dict[str, Any]]) -> None:
    kind, sentence, seconds = rest[0]["refusals"][name]
    assert [kind, sentence] == rest[1]["refusals"][name][:2]
    assert sentence
    assert seconds < SECONDS / 3


@pytest.mark.slow
def test_the_error_is_that_of_the_rank(rest: list[dict[str, Any]]) -> None:
    said = rest[0]["refusals"]
    expected = {
        "model_fails_in_a_trial": "ArithmeticError",
        "model_fails_in_the_forward_pass": "ArithmeticError",
        "model_fails_on_exemplars": "ArithmeticError",
        "model_fails_in_the_pull": "ArithmeticError",
        "label_beyond": "LabelsBeyondLogits",
        "rows_beyond": "RowsOutOfRange",
        "loss_not_finite": "LossNotFinite",
    }
    assert {name: said[name][0] for name in expected} == expected
    assert "static_graph" in said["static_graph"][1]
    assert "DTensor" in said["tensor_parallel"][1]
    assert "mp_policy" in said["precision_of_fully_shard"][1]
    for name, word in {
        "fully_shard_of_ranks_alone": "fully_shard",
        "joined": "join",
        "frozen_on_one_rank": "freezes",
        "other_imaginary_parts": "parameters",
        "other_optimizer": "optimizer",
        "sync_batch_norm": "SyncBatchNorm",
        "wrapper_of_other_ranks": "process_group",
        "other_options_of_the_method": "options",
        "other_objective": "options",
        "other_number_of_samples": "options",
        "other_learning_rate": "learning rates",
        "state_loaded_on_one_rank": "steps",
        "sample_that_cannot_be_read": "picture 7",
        "observer_fails": "the observer fails",
        "observer_fails_in_its_own_way": "OwnError: the observer fails",
        "observer_runs_out": "StopIteration",
        "other_epochs": "epochs",
        "rows_already_split": "train",
        "loaders_of_different_length": "batches per epoch",
        "loaders_of_the_same_rows": "DistributedSampler",
    }.items():
        assert word in said[name][1], name
