"""Every architecture through the oracle: double backward's gradient, autograd's `.grad`, the model left as it was."""

from __future__ import annotations

import copy

import pytest
import torch
from tests import oracle
from tests.contract.architectures import ARCHITECTURES, MIXING, PLAINLY, vectors
from tests.contract.unusual_models import Hooked, Mixing

import fairweight as fw
from fairweight.errors import NotDifferentiable
from fairweight.types import Batch

BOUND = 1e-10
# Layers that see part of the samples each; a function of parameters alone with a backward pass of its own; complex
# parameters.
UNSEEN = ("experts, hard", "binary weights", "frequencies")


def stepped(model, batches, exemplar, gradient, rows=40):
    """Scores, records and gradients of a few steps on a copy, with a check of identity."""
    twin = copy.deepcopy(model)
    parameters = dict(twin.named_parameters(remove_duplicate=False))
    optimizer = torch.optim.SGD([p for p in twin.parameters() if p.requires_grad], lr=0.1, momentum=0.9)
    forml = fw.FORML(twin, rows, gradient=gradient)
    torch.manual_seed(4)
    records, grads = [], []
    for batch in batches:
        records.append(forml.step(batch, exemplar, optimizer))
        grads.append({name: None if p.grad is None else p.grad.clone() for name, p in twin.named_parameters()})
    now = dict(twin.named_parameters(remove_duplicate=False))
    assert all(now[name] is p for name, p in parameters.items())
    assert type(next(iter(twin.parameters()))) is torch.nn.Parameter
    return forml, records, grads, twin


def same(first, second):
    for a, b in zip(first[1], second[1], strict=True):
        if len(a.losses) > 1:
            assert oracle.error(a.gradient, b.gradient) < BOUND
        else:  # the weight of one sample is 1 whatever its score
            assert float(a.gradient.abs().max()) < 1e-15
        assert oracle.error(a.losses, b.losses) < BOUND
    for a, b in zip(first[2], second[2], strict=True):
        for name in b:
            assert (a[name] is None) == (b[name] is None), name
            if b[name] is not None and float(b[name].abs().max()) > 1e-13:
                assert oracle.error(a[name], b[name]) < BOUND, name
    state = second[3].state_dict()
    for name, value in first[3].state_dict().items():
        a, b = (torch.view_as_real(t) if t.is_complex() else t.double() for t in (value, state[name]))
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-12), name


def numbered(batch: Batch, first: int = 0) -> Batch:
    return Batch(batch.inputs, batch.labels, None, torch.arange(first, first + len(batch)))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_auto_is_exact(name):
    make, draw = ARCHITECTURES[name]
    torch.manual_seed(0)
    model = make().double()
    # a second batch of another size, one with as many samples as other axes have entries, and one sample alone
    batches = [numbered(draw(n, k), 2 * k) for k, n in enumerate((13, 6, 5, 1, 16))]
    auto = stepped(model, batches, draw(7, 9), "auto")
    assert auto[0].mode.name == "per-layer" or name in UNSEEN
    if name in PLAINLY:  # has no double backward
        other = PLAINLY[name]().double()
        other.load_state_dict(model.state_dict())
        model = other
    same(auto, stepped(model, batches, draw(7, 9), "double-backward"))


@pytest.mark.parametrize("how", MIXING)
def test_samples_that_mix_somewhere_are_noticed(how):
    torch.manual_seed(0)
    model = Mixing(how).double()
    batches = [numbered(vectors(n, n)) for n in (13, 9)]
    auto = stepped(model, batches, vectors(7, 9), "auto")
    if how != "shuffled":  # there each gradient is one sample's own, though another's than usual
        assert auto[0].mode.name in ("forward", "double-backward")
        with pytest.raises(NotDifferentiable, match="see each other"):
            stepped(model, batches, vectors(7, 9), "per-layer")
    same(auto, stepped(model, batches, vectors(7, 9), "double-backward"))


def test_samples_that_mix_by_their_values_are_noticed_later():
    torch.manual_seed(0)
    model = Mixing("by values").double()
    usual, odd = vectors(13, 2), vectors(13, 3)
    usual.inputs[:, 0], odd.inputs[:, 0] = -1.0, 1.0
    batches = [numbered(b) for b in (usual, usual, odd, odd)]
    auto = stepped(model, batches, vectors(7, 9), "auto")
    assert auto[1][1].mode == "per-layer"
    assert auto[0].mode.name in ("forward", "double-backward")
    same(auto, stepped(model, batches, vectors(7, 9), "double-backward"))


def test_batches_that_go_another_way_are_exact_too():
    """Layers that see part of the samples, where the first batches went whole."""
    torch.manual_seed(0)
    model = Mixing("part").double()
    whole, part = vectors(13, 2), vectors(13, 3)
    whole.inputs[:, 0] = 1.0
    batches = [numbered(b) for b in (whole, part, whole)]
    auto = stepped(model, batches, vectors(7, 9), "auto")
    assert auto[1][1].mode == "per-layer"
    same(auto, stepped(model, batches, vectors(7, 9), "double-backward"))


def test_what_requires_a_gradient_may_change_between_steps():
    torch.manual_seed(0)
    model, found = ARCHITECTURES["bert"][0]().double(), {}
    draw = ARCHITECTURES["bert"][1]
    for gradient in ("auto", "double-backward"):
        twin = copy.deepcopy(model)
        optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
        forml = fw.FORML(twin, 40, gradient=gradient)
        for step in range(4):
            twin.words.requires_grad_(step != 1)
            twin.train(step != 2)
            forml.step(numbered(draw(13, step)), draw(7, 9), optimizer)
        found[gradient] = forml.scores, twin.state_dict()
    assert oracle.error(found["auto"][0], found["double-backward"][0]) < BOUND
    for name, value in found["auto"][1].items():
        assert torch.allclose(value, found["double-backward"][1][name], rtol=1e-9, atol=1e-12), name


@pytest.mark.parametrize("compiled", [False, True])
def test_hooks_of_parameters_are_called(compiled):
    """Only a backward pass calls them, so layers that give the gradient by themselves are not used."""
    grads = []
    weights = None
    for plain in (False, True):
        torch.manual_seed(0)
        model, batch = Hooked().double(), numbered(vectors(13, 0))
        if plain:
            losses = torch.nn.functional.cross_entropy(model(batch.inputs), batch.labels, reduction="none")
            (weights * losses).sum().backward()
        else:
            forml = fw.FORML(model, 40)
            if compiled:
                forml.compile("eager")
            weights = forml.backward(batch, vectors(7, 9), torch.optim.SGD(model.parameters(), lr=0.1)).weights
            with pytest.raises(NotDifferentiable, match="hook"):
                fw.FORML(model, 40, gradient="per-layer").backward(
                    batch, vectors(7, 9), torch.optim.SGD(model.parameters())
                )
        grads.append([p.grad for p in model.parameters()])
    for a, b in zip(*grads, strict=True):
        assert oracle.error(a, b) < BOUND
