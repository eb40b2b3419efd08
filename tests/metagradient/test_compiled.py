"""torch.compile around a step: once, for the usual shape, and never a reason to stop."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from fairweight.errors import BadInput
from fairweight.fast.compiled import Compiled, UsualShape
from fairweight.metagradient.model import unwrap
from fairweight.methods.forml import FORML
from fairweight.methods.l2rw import L2RW
from fairweight.methods.meta_weight_net import MetaWeightNet
from fairweight.methods.uniform import Uniform
from fairweight.training.fit import fit
from fairweight.training.options import FitOptions
from fairweight.types import Batch


@pytest.fixture
def without_inductor(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """torch.compile's front end without a C++ compiler behind it; the shapes that were compiled for."""
    found: list[tuple[int, ...]] = []
    real = torch.compile

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        found.append(tuple(max((tuple(t.shape) for t in inputs if t.ndim == 2), default=())))
        return graph.forward

    monkeypatch.setattr(torch, "compile", lambda f, **options: real(f, backend=backend, **options))
    torch._dynamo.reset()
    return found


def data(n: int, seed: int = 0) -> Batch:
    stream = torch.Generator().manual_seed(seed)
    inputs = torch.randn(n, 6, generator=stream)
    return Batch(inputs, (inputs[:, 0] > 0).long(), torch.arange(n) % 2)


def net() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def trained(make: Callable[[nn.Module, int], Any], quick: bool) -> dict[str, torch.Tensor]:
    model = net()
    train, exemplar = data(36), data(16, seed=1)  # batches of 8: the last one of an epoch has 4
    method = make(model, len(train))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    options = FitOptions(batch_size=8, per_cell=2, compile=quick)
    fit(model, optimizer, method, train, exemplar, 2, options=options)
    found = {name: t.clone() for name, t in unwrap(model).state_dict().items()}
    return found if method.scores is None else {**found, "scores": method.scores}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "once"),
    [
        (Uniform, True),
        (FORML, True),
        (lambda m, n: FORML(m, n, every=2), True),
        (L2RW, False),  # goes back through the forward pass twice, which a compiled one does not allow on a GPU
        (MetaWeightNet, False),
    ],
)
def test_a_compiled_run_is_the_run(
    make: Callable[[nn.Module, int], Any], once: bool, without_inductor: list[Any]
) -> None:
    """The same parameters, statistics and scores, with every last batch smaller than the others."""
    plain, quick = trained(make, quick=False), trained(make, quick=True)
    assert bool(without_inductor) is once
    for name, value in plain.items():
        torch.testing.assert_close(quick[name], value, rtol=1e-4, atol=1e-6, msg=name)


def test_one_shape_is_compiled_for(without_inductor: list[Any]) -> None:
    model = UsualShape(net())
    for n in (8, 4, 8, 3, 8):
        model(data(n).inputs)
    assert len(without_inductor) == 1
    model.eval()
    model(data(8).inputs)
    assert len(without_inductor) == 1


@pytest.mark.slow
def test_many_models_are_compiled_in_one_process(without_inductor: list[Any]) -> None:
    """torch.compile stops at its eighth try at the same code; each model's call is code of its own."""
    for _ in range(12):
        UsualShape(net())(data(8).inputs)
    assert len(without_inductor) == 12


def test_a_model_that_does_not_compile_runs_as_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuses(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        def fails(*args: Any) -> Any:
            raise RuntimeError("no compiler here\nand a long trace")

        return fails

    monkeypatch.setattr(torch, "compile", refuses)
    model = net()
    twin = UsualShape(copy.deepcopy(model))
    batch = data(8)
    with caplog.at_level(logging.WARNING, logger="fairweight"):
        for _ in range(3):
            assert torch.equal(twin(batch.inputs), model(batch.inputs))
    assert [r.getMessage() for r in caplog.records] == [
        "torch.compile does not work here, so steps run uncompiled: no compiler here"
    ]


def test_an_error_after_it_worked_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def once(x: int) -> int:
        calls.append(x)
        if len(calls) > 1:
            raise RuntimeError("later")
        return x

    monkeypatch.setattr(torch, "compile", lambda f, **options: f)
    run = Compiled(once)
    assert run(1) == 1
    with pytest.raises(RuntimeError, match="later"):
        run(2)


def test_the_wrapper_is_seen_through() -> None:
    model = net()
    wrapped = UsualShape(model)
    assert unwrap(wrapped) is model
    assert len(list(wrapped.parameters())) == len(list(model.parameters()))


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(BadInput, match="eager"):
        FORML(net(), 8).compile("fast")
