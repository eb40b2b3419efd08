"""Mode "difference" against the exact modes, in every precision, and at the edges of its step length."""

from __future__ import annotations

import copy

import pytest
import torch
from tests import networks as net
from tests import oracle
from torch import nn

from fairweight.metagradient import difference, score_gradient
from fairweight.metagradient.difference import norm, step_length, tangent
from fairweight.metagradient.forward import tangent as forward_tangent
from fairweight.metagradient.passes import pull_by_tangent, virtual_forward
from fairweight.models.mlp import MLP
from fairweight.models.resnet import ResNet18
from fairweight.objectives.variance import LossVariance
from fairweight.types import Batch, map_tensors

SCORES = torch.tensor([0.3, -0.7, 0.1, 0.9, -0.2]).double()
MODELS = {
    "mlp": (net.mlp, net.vectors),
    "batch norm": (net.conv_batch_norm, net.pictures),
    "norms": (net.group_layer_norm, net.pictures),
    "encoder": (net.Encoder, net.sentences),
    "dropout": (net.dropout, net.vectors),
    "frozen": (net.frozen, net.vectors),
    "tied": (net.Tied, net.vectors),
    "lstm": (net.Recurrent, net.sentences),
}


def setting(name: str):
    make, draw = MODELS[name]
    return make().double(), draw(5, seed=2), draw(6, seed=3)


def in_float32(model: nn.Module, *batches: Batch):
    return copy.deepcopy(model).float(), *(Batch(b.inputs.float(), b.labels) for b in batches)


@pytest.mark.parametrize("name", MODELS)
def test_float64(name):
    model, batch, exemplar = setting(name)
    exact = score_gradient(model, batch, exemplar, SCORES, LossVariance(), 0.1, "forward")
    found = score_gradient(model, batch, exemplar, SCORES, LossVariance(), 0.1, "difference")
    assert 0 < oracle.error(found, exact) < 1e-7


@pytest.mark.parametrize("name", MODELS)
def test_float32(name):
    model, batch, exemplar = setting(name)
    exact = score_gradient(model, batch, exemplar, SCORES, LossVariance(), 0.1, "forward")
    model, batch, exemplar = in_float32(model, batch, exemplar)
    found = score_gradient(model, batch, exemplar, SCORES.float(), LossVariance(), 0.1, "difference")
    assert found.dtype == torch.float32
    assert oracle.error(found, exact) < 1e-3


@pytest.mark.parametrize("how", ["autocast", "model"])
@pytest.mark.parametrize("name", ["mlp", "batch norm", "norms", "encoder"])
def test_bfloat16_passes_are_differenced_in_float32(name, how):
    """A difference of two bfloat16 passes would hold nothing but rounding: the tangent itself must be float32's."""
    model, batch, _ = setting(name)
    torch.manual_seed(3)
    along = {key: torch.randn_like(p) for key, p in model.named_parameters()}
    expected = tangent(virtual_forward(model, batch), along)
    if how == "autocast":
        model, batch = in_float32(model, batch)
        along = {key: d.float() for key, d in along.items()}
        with torch.autocast("cpu", torch.bfloat16):
            done = virtual_forward(model, batch)
            found = tangent(done, along)
        bound = 1e-3
    else:
        model, batch = copy.deepcopy(model).bfloat16(), Batch(batch.inputs.bfloat16(), batch.labels)
        along = {key: d.bfloat16() for key, d in along.items()}
        done = virtual_forward(model, batch)
        found = tangent(done, along)
        bound = 2e-2  # of the parameters' own rounding to bfloat16
    assert done.logits.dtype == torch.bfloat16
    assert found.dtype == torch.float32
    assert oracle.error(found, expected) < bound


def test_frozen_half_precision_parameters_are_used_in_full():
    model = net.frozen().bfloat16()
    batch = Batch(net.vectors(5).inputs.bfloat16(), net.vectors(5).labels)
    found = score_gradient(model, batch, batch, torch.zeros(5), LossVariance(), 0.1, "difference")
    assert torch.isfinite(found).all()
    assert float(found.abs().max()) > 0


def test_a_real_resnet_in_float32():
    """Eighteen layers with ReLU and batch norm, narrow: kinks lie within any step that rounding allows."""
    model = ResNet18(3, width=4)
    batch = Batch(torch.randn(6, 3, 16, 16), torch.arange(6) % 3)
    exemplar = Batch(torch.randn(9, 3, 16, 16), torch.arange(9) % 3)
    wide, *both = copy.deepcopy(model).double(), *(Batch(b.inputs.double(), b.labels) for b in (batch, exemplar))
    exact = score_gradient(wide, *both, torch.zeros(6).double(), LossVariance(), 0.01, "double-backward")
    forward = score_gradient(model, batch, exemplar, torch.zeros(6), LossVariance(), 0.01, "forward")
    found = score_gradient(model, batch, exemplar, torch.zeros(6), LossVariance(), 0.01, "difference")
    assert oracle.error(forward, exact) < 1e-4
    assert oracle.error(found, exact) < 0.02


@pytest.mark.parametrize("scale", [1e-30, 1e-25, 1e-12, 1.0, 1e12])
def test_the_length_of_the_direction_does_not_matter(scale):
    model, batch, _ = in_float32(*setting("mlp"))
    done = virtual_forward(model, batch)
    torch.manual_seed(3)
    along = {key: torch.randn_like(p) for key, p in model.named_parameters()}
    expected = tangent(done, along)
    found = tangent(done, {key: d * scale for key, d in along.items()}) / scale
    assert oracle.error(found, expected) < 1e-3


@pytest.mark.parametrize("size", [1.0, 1e4])
def test_no_direction_gives_no_tangent(size):
    model, batch, _ = in_float32(*setting("mlp"))
    with torch.no_grad():
        for p in model.parameters():
            p *= size
    done = virtual_forward(model, batch)
    found = tangent(done, {key: torch.zeros_like(p) for key, p in model.named_parameters()})
    assert torch.equal(found, torch.zeros_like(found))


def test_step_length_stays_above_the_rounding_of_the_parameters():
    eps = torch.finfo(torch.float32).eps
    here = {"a": torch.tensor([3.0]), "b": torch.tensor([4.0, 0.0])}
    along = {"a": torch.tensor([0.003]), "b": torch.tensor([0.0, 0.004])}
    assert float(step_length(here, along)) == pytest.approx(eps**0.45 / 0.005, rel=1e-6)
    large = {key: p * 1e4 for key, p in here.items()}
    assert float(step_length(large, along)) == pytest.approx(10 * eps * 5e4 / 0.005, rel=1e-6)
    assert float(norm(map_tensors(along, lambda t: t * 1e-30))) == pytest.approx(0.005e-30, rel=1e-6)


class Kinked(nn.Module):
    """Rounded so coarsely that two passes near each other give the same."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(20, 10_000), nn.Linear(10_000, net.CLASSES)

    def forward(self, x):
        h = self.first(x)
        return self.last(h + (h.detach().bfloat16() - h.detach()).to(h.dtype) * 30)


@pytest.mark.parametrize(("model", "cast"), [(lambda: MLP(20, net.CLASSES, (512, 512)), True), (Kinked, False)])
def test_autocast_s_own_precision_where_it_gives_float32_s_pull(model, cast):
    """Large models: bfloat16 with a float32 head where the pull's cosine with float32's is at least .999."""
    torch.manual_seed(0)
    batch, held, model = net.vectors(16, 20, torch.float32), net.vectors(9, 20, torch.float32, seed=2), model()
    point = virtual_forward(model, held)
    along = point.slopes(point.losses.mean(), point.parameters)
    with torch.autocast("cpu", torch.bfloat16):
        done = virtual_forward(model, batch)
        found = pull_by_tangent(done, tangent(done, along))
    assert bool(difference._factors[model][1]) is cast
    true = pull_by_tangent(done, tangent(done, along))
    exact = pull_by_tangent(done, forward_tangent(virtual_forward(model, batch), along))
    assert torch.equal(found, true) is not cast
    if cast:
        assert float(torch.cosine_similarity(found - found.mean(), exact - exact.mean(), dim=0)) > 0.999


class Padded(nn.Module):
    """Torch's own encoder with a mask, whose fast path leaves padding out where no gradient is asked for."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        self.layers, self.head = nn.TransformerEncoder(layer, 1), nn.Linear(8, net.CLASSES)

    def forward(self, x):
        return self.head(self.layers(x, src_key_padding_mask=torch.arange(x.shape[1]) > x[:, :1, 0].sign() + 2).mean(1))


def test_attention_in_eval_mode_is_that_of_passes_with_a_gradient():
    torch.manual_seed(0)
    model, batch, exemplar = Padded().double().eval(), net.sentences(5, seed=2), net.sentences(6, seed=3)
    exact, found = (
        score_gradient(model, batch, exemplar, SCORES, LossVariance(), 0.1, mode)
        for mode in ("double-backward", "difference")
    )
    assert oracle.error(found, exact) < 1e-7
