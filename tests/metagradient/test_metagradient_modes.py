"""Which mode is taken for which model, what the log says of it, and that nobody's own error is swallowed."""

from __future__ import annotations

import logging

import pytest
import torch
from tests import networks as net
from tests import oracle
from torch import nn

from fairweight.errors import NotDifferentiable, UnknownName
from fairweight.metagradient import MODES, choose, classification_loss, score_gradient, virtual_forward
from fairweight.metagradient.choose import SMALL
from fairweight.metagradient.forward import tangent
from fairweight.methods.forml import FORML
from fairweight.objectives.variance import LossVariance
from fairweight.types import Batch

SCORES = torch.tensor([0.3, -0.7, 0.1, 0.9, -0.2])


def pick(model, batch, asked="auto"):
    return choose(model, batch, classification_loss, asked)


def large(draw_width: int = 6) -> nn.Module:
    model = nn.Sequential(nn.Linear(draw_width, 500), nn.Tanh(), nn.Linear(500, 500), nn.Tanh(), nn.Linear(500, 3))
    assert sum(p.numel() for p in model.parameters()) > SMALL
    return model


def test_tiny_nets_take_double_backward_and_others_forward_mode():
    batch = net.vectors(5, dtype=torch.float32)
    assert pick(net.mlp(), batch).name == "double-backward"
    assert pick(large(), batch).name == "forward"


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_gives_the_same_gradient(mode):
    model, batch, exemplar = net.mlp().double(), net.vectors(5), net.vectors(6, seed=3)
    exact = score_gradient(model, batch, exemplar, SCORES.double(), LossVariance(), 0.1, "double-backward")
    found = score_gradient(model, batch, exemplar, SCORES.double(), LossVariance(), 0.1, mode)
    assert oracle.error(found, exact) < (1e-7 if mode == "difference" else 1e-13)


# -- attention --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "make", [net.DirectAttention, net.Encoder, lambda: net.Encoder().eval()], ids=["direct", "train", "eval"]
)
def test_fused_attention_goes_to_plain_kernels(make, dtype, caplog):
    model, batch, exemplar = make().to(dtype), net.sentences(5, dtype=dtype), net.sentences(6, 3, dtype)
    with pytest.raises((NotImplementedError, RuntimeError), match="forward AD"):  # else the rest would show nothing
        tangent(virtual_forward(model, batch), {name: torch.ones_like(p) for name, p in model.named_parameters()})
    for asked in ("auto", "forward"):
        caplog.clear()
        with caplog.at_level(logging.INFO, "fairweight"):
            chosen = pick(make().to(dtype), batch, asked)
        assert (chosen.name, chosen.plain_kernels) == ("forward", True)
        assert "attention by elementary operations" in caplog.text
        assert "no forward-mode derivative" in caplog.text
    found = score_gradient(model, batch, exemplar, SCORES.to(dtype), LossVariance(), 0.1, "auto")
    exact = score_gradient(model, batch, exemplar, SCORES.to(dtype), LossVariance(), 0.1, "double-backward")
    assert oracle.error(found, exact) < (1e-13 if dtype == torch.float64 else 1e-4)


def test_a_model_that_goes_from_train_to_eval_mode_is_looked_at_again():
    """With dropout, train mode has no fused attention; eval mode has."""
    model = net.Encoder(dropout=0.1)
    forml = FORML(model, 5, LossVariance(), gradient="forward")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    batch, exemplar = net.sentences(5, dtype=torch.float32), net.sentences(6, 3, torch.float32)
    forml.step(batch, exemplar, optimizer)
    assert not forml.mode.plain_kernels
    model.eval()
    forml.step(batch, exemplar, optimizer)
    assert forml.mode.plain_kernels


# -- recurrent nets and others without forward mode ---------------------------------------------------


def test_lstm_falls_back_to_double_backward(caplog):
    """Exact, where a difference would err by a part in a thousand."""
    batch, exemplar = net.sentences(5, dtype=torch.float32), net.sentences(6, 3, torch.float32)
    model = net.Recurrent(hidden=300)
    with caplog.at_level(logging.INFO, "fairweight"):
        chosen = pick(model, batch)
    assert chosen.name == "double-backward"
    assert "mkldnn_rnn_layer" in caplog.text
    found = score_gradient(model, batch, exemplar, SCORES, LossVariance(), 0.1, "auto")
    exact = score_gradient(model, batch, exemplar, SCORES, LossVariance(), 0.1, "double-backward")
    assert oracle.error(found, exact) < 1e-5


def test_lstm_in_forward_mode_is_refused_with_the_next_step():
    with pytest.raises(NotDifferentiable, match="use gradient='auto' or 'difference'"):
        pick(net.Recurrent(), net.sentences(5, dtype=torch.float32), "forward")


@pytest.mark.parametrize("mode", ["auto", "difference", "double-backward"])
@pytest.mark.parametrize("make", [net.Recurrent, net.weight_norm, net.spectral], ids=["lstm", "weight", "spectral"])
def test_a_step_works_without_forward_mode(make, mode):
    """The first step also compares the halves of the exemplar batch, in the same mode."""
    model = make()
    draw = net.sentences if make is net.Recurrent else net.vectors
    forml = FORML(model, 5, LossVariance(), gradient=mode)
    record = forml.step(
        draw(5, dtype=torch.float32), draw(6, seed=3, dtype=torch.float32), torch.optim.SGD(model.parameters(), 0.1)
    )
    assert torch.isfinite(record.gradient).all()
    assert float(record.gradient.abs().max()) > 0
    assert -1 <= float(record.agreement) <= 1


def test_a_loss_that_is_linear_in_the_parameters():
    model = nn.Linear(6, 3).double()

    def margin(z, labels):
        return -z.gather(1, labels[:, None]).squeeze(1)

    for asked in ("auto", "double-backward", "forward"):
        assert choose(model, net.vectors(5), margin, asked).name
    found = score_gradient(
        model, net.vectors(5), net.vectors(6, seed=3), SCORES.double(), LossVariance(), 0.1, "forward", loss=margin
    )
    double = score_gradient(
        model,
        net.vectors(5),
        net.vectors(6, seed=3),
        SCORES.double(),
        LossVariance(),
        0.1,
        "double-backward",
        loss=margin,
    )
    assert oracle.error(found, double) < 1e-13


# -- what the log says --------------------------------------------------------------------------------


def test_the_log_says_once_which_mode_and_why(caplog):
    model = net.mlp()
    forml = FORML(model, 5, LossVariance())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    batch, exemplar = net.vectors(5, dtype=torch.float32), net.vectors(6, seed=3, dtype=torch.float32)
    with caplog.at_level(logging.INFO, "fairweight"):
        records = [forml.step(batch, exemplar, optimizer) for _ in range(3)]
        score_gradient(model, batch, exemplar, SCORES, LossVariance(), 0.1, "auto")
    said = [r.getMessage() for r in caplog.records if "score gradient" in r.getMessage()]
    assert len(said) == 1
    assert "per-layer" in said[0]
    assert "no layer mixes samples" in said[0]
    assert {r.mode for r in records} == {"per-layer"}


# -- errors that are the user's own -------------------------------------------------------------------


class Broken(nn.Module):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.layer, self.error = nn.Linear(6, 3), error

    def forward(self, x):
        raise self.error


@pytest.mark.parametrize("asked", MODES)
@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
        RuntimeError("my branch is not implemented"),
        NotImplementedError("write this layer"),
        ValueError("bad value"),
        KeyError("mask"),
    ],
    ids=lambda e: f"{type(e).__name__} {str(e)[:12]}",
)
def test_an_error_of_the_model_itself_comes_through(error, asked):
    model, batch = Broken(error), net.vectors(5, dtype=torch.float32)
    with pytest.raises(type(error)) as caught:
        score_gradient(model, batch, batch, SCORES, LossVariance(), 0.1, asked)
    assert caught.value is error


def test_a_model_without_a_forward_method_comes_through():
    class Empty(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3)

    with pytest.raises(NotImplementedError, match="missing the required"):
        pick(Empty(), net.vectors(5, dtype=torch.float32))


@pytest.mark.parametrize("asked", MODES)
def test_a_model_that_detaches_its_logits_is_refused(asked):
    class Detached(nn.Linear):
        def forward(self, x):
            return super().forward(x).detach()

    with pytest.raises(NotDifferentiable, match=r"remove detach\(\) or no_grad"):
        score_gradient(Detached(6, 3), *[net.vectors(5, dtype=torch.float32)] * 2, SCORES, LossVariance(), 0.1, asked)


def test_an_unknown_mode_is_refused():
    with pytest.raises(UnknownName, match="choose from: auto, per-layer, forward, difference, double-backward"):
        score_gradient(net.mlp(), *[net.vectors(5, dtype=torch.float32)] * 2, SCORES, LossVariance(), 0.1, "backward")
    with pytest.raises(UnknownName, match="choose"):
        FORML(net.mlp(), 5, gradient="backward")


# -- wrappers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_models(backend, mode):
    model, plain = net.mlp(), net.mlp()
    plain.load_state_dict(model.state_dict())
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    batch, exemplar = net.vectors(5, dtype=torch.float32), net.vectors(6, seed=3, dtype=torch.float32)
    records = []
    for m in (compiled, plain):
        forml = FORML(m, 5, LossVariance(), gradient=mode)
        optimizer = torch.optim.SGD(m.parameters(), 0.1)
        records.append([forml.step(batch, exemplar, optimizer) for _ in range(2)][-1])
    torch.testing.assert_close(records[0].gradient, records[1].gradient, rtol=2e-3, atol=1e-7)
    for a, b in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a, b)
    if mode == "auto":
        assert records[0].mode == "per-layer"  # which a compiled graph is left out for


def test_data_parallel_is_unwrapped():
    inner = net.mlp().double()
    batch, exemplar = net.vectors(5), net.vectors(6, seed=3)
    found = score_gradient(nn.DataParallel(inner), batch, exemplar, SCORES.double(), LossVariance(), 0.1)
    assert torch.equal(found, score_gradient(inner, batch, exemplar, SCORES.double(), LossVariance(), 0.1))


@pytest.mark.parametrize("mode", ["forward", "double-backward"])
def test_gradients_of_a_sparse_embedding(mode):
    model = net.Words().double()
    twin = net.Words().double()
    twin.load_state_dict(model.state_dict())
    model.embed.sparse = True
    batch, exemplar = net.words(5), net.words(6, seed=3)
    found = score_gradient(model, batch, exemplar, SCORES.double(), LossVariance(), 0.1, mode)
    assert oracle.error(found, score_gradient(twin, batch, exemplar, SCORES.double(), LossVariance(), 0.1)) < 1e-13


def test_batches_of_the_users_own_types():
    """A named tuple of inputs reaches the model as positional arguments."""
    from collections import namedtuple

    drawn = net.two_inputs(5, "tuple")
    pair = namedtuple("pair", "left right")(*drawn.inputs)
    model = net.TwoInputs().double()
    plain = score_gradient(model, drawn, drawn, SCORES.double(), LossVariance(), 0.1, "difference")
    named = Batch(pair, drawn.labels)
    assert torch.equal(score_gradient(model, named, named, SCORES.double(), LossVariance(), 0.1, "difference"), plain)
