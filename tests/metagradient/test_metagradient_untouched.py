"""score_gradient touches nothing, in any mode, on success and on failure."""

from __future__ import annotations

import copy

import pytest
import torch
from tests import networks as net
from torch import nn

from fairweight.metagradient import MODES, score_gradient
from fairweight.metagradient.model import kernels
from fairweight.objectives.variance import LossVariance
from fairweight.types import Batch

SCORES = torch.tensor([0.3, -0.7, 0.1, 0.9, -0.2])
LOUD = pytest.mark.parametrize("mode", MODES)


class Everything(nn.Module):
    """Batch norm, dropout, attention, a frozen layer and a part in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.frozen_norm = nn.BatchNorm1d(4).eval()
        self.drop = nn.Dropout(0.3)
        self.attend = net.DirectAttention()
        self.attend.project.bias.requires_grad_(False)

    def forward(self, x):
        return self.attend(self.drop(self.frozen_norm(self.norm(x))))


def setting():
    model = Everything()
    model.attend.head.weight.grad = torch.full_like(model.attend.head.weight, 7.0)
    return model, net.sentences(5, dtype=torch.float32), net.sentences(6, 3, torch.float32)


def flags():
    return (
        torch.backends.cuda.flash_sdp_enabled(),
        torch.backends.cuda.mem_efficient_sdp_enabled(),
        torch.backends.cuda.math_sdp_enabled(),
        torch.backends.cuda.cudnn_sdp_enabled(),
        torch.backends.mha.get_fastpath_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.is_autocast_cache_enabled(),
        torch.is_grad_enabled(),
        torch.autograd.forward_ad._current_level,
    )


def state_of(model: nn.Module):
    """All that a caller could see of the model."""
    return {
        "tensors": {name: t.clone() for name, t in model.state_dict().items()},
        "same objects": [id(t) for t in (*model.parameters(), *model.buffers())],
        "gradients": {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()},
        "requires_grad": {name: p.requires_grad for name, p in model.named_parameters()},
        "training": [m.training for m in model.modules()],
    }


def assert_same(before, after):
    for key in ("same objects", "requires_grad", "training"):
        assert before[key] == after[key]
    for key in ("tensors", "gradients"):
        for name, value in before[key].items():
            assert (value is None) == (after[key][name] is None)
            assert value is None or torch.equal(value, after[key][name]), name


@LOUD
def test_the_model(mode):
    model, batch, exemplar = setting()
    before = state_of(model)
    score_gradient(model, batch, exemplar, SCORES, LossVariance(), 0.1, mode)
    assert_same(before, state_of(model))


@LOUD
def test_the_random_stream(mode):
    model, batch, exemplar = setting()
    before = torch.get_rng_state()
    score_gradient(model, batch, exemplar, SCORES, LossVariance(), 0.1, mode)
    assert torch.equal(before, torch.get_rng_state())


@LOUD
def test_inputs_labels_groups_rows_and_scores(mode):
    model, batch, exemplar = setting()
    scores = torch.randn(9)
    batch = Batch(batch.inputs, batch.labels, torch.tensor([0, 1, 0, 1, -1]), torch.tensor([1, 8, 0, 3, 5]))
    kept = copy.deepcopy((batch, exemplar, scores))
    score_gradient(model, batch, exemplar, scores, LossVariance(), 0.1, mode)
    for now, then in zip((batch, exemplar), kept[:2], strict=True):
        for name in ("inputs", "labels", "groups", "rows"):
            old = getattr(then, name)
            assert old is None or torch.equal(getattr(now, name), old)
        assert not now.inputs.requires_grad
    assert torch.equal(scores, kept[2])
    assert not scores.requires_grad


def test_scores_that_ask_for_a_gradient_get_none():
    model, batch, exemplar = setting()
    scores = SCORES.clone().requires_grad_()
    found = score_gradient(model, batch, exemplar, scores, LossVariance(), 0.1)
    assert not found.requires_grad
    assert scores.grad is None


@LOUD
def test_global_flags(mode):
    model, batch, exemplar = setting()
    before = flags()
    score_gradient(model, batch, exemplar, SCORES, LossVariance(), 0.1, mode)
    assert flags() == before


@LOUD
def test_all_of_it_when_the_objective_raises(mode):
    model, batch, exemplar = setting()
    before, seen, random = state_of(model), flags(), torch.get_rng_state()

    def broken(losses, groups):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        score_gradient(model, batch, exemplar, SCORES, broken, 0.1, mode)
    assert_same(before, state_of(model))
    assert flags() == seen
    assert torch.equal(random, torch.get_rng_state())


@pytest.mark.parametrize("at", range(1, 6))
@pytest.mark.parametrize("mode", ["forward", "difference", "double-backward"])
def test_all_of_it_when_the_model_raises_in_any_pass(mode, at):
    model, batch, exemplar = setting()
    passes = 0

    def count(*_):
        nonlocal passes
        passes += 1
        if passes == at:
            raise KeyError("in a pass")

    handle = model.attend.register_forward_hook(count)
    before, seen, random = state_of(model), flags(), torch.get_rng_state()
    try:
        score_gradient(model, batch, exemplar, SCORES, LossVariance(), 0.1, mode)
    except KeyError:
        assert passes == at
    else:
        assert passes < at
    assert_same(before, state_of(model))
    assert flags() == seen
    assert torch.equal(random, torch.get_rng_state())
    handle.remove()


@pytest.mark.parametrize("fast", [True, False])
def test_plain_kernels_give_back_what_they_found(fast):
    was = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(fast)
    try:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
            before = flags()
            with kernels(True):
                assert not torch.backends.cuda.flash_sdp_enabled()
                assert not torch.backends.mha.get_fastpath_enabled()
            assert flags() == before
            with pytest.raises(KeyError), kernels(True):
                raise KeyError
            assert flags() == before
    finally:
        torch.backends.mha.set_fastpath_enabled(was)


def test_under_no_grad_and_under_autocast():
    """The caller's setting neither breaks the gradient nor is lost."""
    model, batch, exemplar = net.mlp(), net.vectors(5, dtype=torch.float32), net.vectors(6, seed=3, dtype=torch.float32)
    plain = score_gradient(model, batch, exemplar, SCORES, LossVariance(), 0.1)
    with torch.no_grad():
        assert torch.equal(score_gradient(model, batch, exemplar, SCORES, LossVariance(), 0.1), plain)
        assert not torch.is_grad_enabled()
    with torch.autocast("cpu", torch.bfloat16):
        before = flags()
        near = score_gradient(model, batch, exemplar, SCORES, LossVariance(), 0.1)
        assert flags() == before
    torch.testing.assert_close(near, plain, rtol=0.1, atol=0.05 * float(plain.abs().max()))
