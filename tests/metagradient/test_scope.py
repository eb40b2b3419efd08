"""A virtual step of one part of the model, the head or a named block: the gradient of that map."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from tests import networks as net
from tests import oracle
from torch import Tensor, nn

import fairweight as fw
from fairweight.errors import BadInput, NoLinearHead, UnknownName
from fairweight.metagradient import Scope, score_gradient
from fairweight.objectives.max_discrepancy import MaxLossDiscrepancy
from fairweight.objectives.variance import LossVariance
from fairweight.types import Batch

BOUND = 1e-10
LR = 0.1
SCORES = torch.tensor([0.3, -0.7, 0.1, 0.9, -0.2]).double()


class HeadFirst(nn.Module):
    """Registers its head before its body."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.body = nn.Linear(5, 3, bias=False), nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(input=torch.tanh(self.body(x)))


class Temperature(nn.Module):
    """Divides its logits after the last linear layer, in place or not."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.inner, self.in_place = net.mlp(), in_place

    def forward(self, x: Tensor) -> Tensor:
        z = self.inner(x)
        return z.mul_(0.4) if self.in_place else z * 0.4


class TiedHead(nn.Module):
    """The head's matrix is used in the body too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(6, 3), nn.Linear(6, 3)
        self.head.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.first(x)) @ torch.ones(3, 6, dtype=x.dtype) + x)


def partly_frozen() -> nn.Module:
    model = net.mlp()
    model[4].weight.requires_grad_(False)
    return model


# model, batches, the head's parameters
HEADS = {
    "mlp": (net.mlp, net.vectors, ("4.weight", "4.bias")),
    "groups": (net.mlp, partial(net.vectors, groups=True), ("4.weight", "4.bias")),
    "no bias, registered first": (HeadFirst, net.vectors, ("head.weight",)),
    "batch norm": (net.conv_batch_norm, net.pictures, ("7.weight", "7.bias")),
    "dropout": (net.dropout, net.vectors, ("6.weight", "6.bias")),
    "encoder": (partial(net.Encoder, 0.2), net.sentences, ("head.weight", "head.bias")),
    "lstm": (net.Recurrent, net.sentences, ("head.weight", "head.bias")),
    "dict of inputs": (net.TwoInputs, partial(net.two_inputs, kind="dict"), ("head.weight", "head.bias")),
    "dict with logits": (partial(net.Wrapped, "dict"), net.vectors, ("inner.4.weight", "inner.4.bias")),
    "one logit [B, 1]": (partial(net.OneLogit, False), net.binary, ("inner.4.weight", "inner.4.bias")),
    "one logit [B]": (partial(net.OneLogit, True), net.binary, ("inner.4.weight", "inner.4.bias")),
    "checkpointed": (net.Checkpointed, net.vectors, ("head.weight", "head.bias")),
    "embedding": (net.Words, net.words, ("head.weight", "head.bias")),
    "frozen weight": (partly_frozen, net.vectors, ("4.bias",)),
    "temperature": (partial(Temperature, False), net.vectors, ("inner.4.weight", "inner.4.bias")),
    "temperature in place": (partial(Temperature, True), net.vectors, ("inner.4.weight", "inner.4.bias")),
    "tied head": (TiedHead, net.vectors, ("first.weight", "head.bias")),
}


def expected_of(model, batch, exemplar, names, objective=oracle.variance, **options):
    rates = dict.fromkeys(names, LR)
    state = torch.get_rng_state()
    return oracle.gradient(
        lambda w: oracle.whole_map(model, batch, exemplar, w, objective, rates, state=state, **options), SCORES
    )


@pytest.mark.parametrize("name", HEADS)
def test_the_head_equals_central_differences_of_the_map_of_its_own_step(name):
    make, draw, names = HEADS[name]
    model = make().double()
    batch, exemplar = draw(5, seed=2), draw(6, seed=3)
    expected = expected_of(model, batch, exemplar, names)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    found = {
        mode: score_gradient(model, batch, exemplar, SCORES, LossVariance(), LR, mode, scope="head")
        for mode in ("auto", "forward", "double-backward")
    }
    for gradient in found.values():
        assert oracle.error(gradient, expected) < BOUND
    assert oracle.error(found["auto"], found["double-backward"]) < 1e-13
    everything = score_gradient(model, batch, exemplar, SCORES, LossVariance(), LR)
    assert oracle.error(everything, expected) > 1e-3  # the scope is not everything
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_a_parametrized_head():
    model = net.weight_norm().double()
    batch, exemplar = net.vectors(5, seed=2), net.vectors(6, seed=3)
    rates = {name: LR for name, _ in model.named_parameters() if name.startswith("2.")}
    expected = score_gradient(model, batch, exemplar, SCORES, LossVariance(), rates, "double-backward")
    found = score_gradient(model, batch, exemplar, SCORES, LossVariance(), LR, "auto", scope="head")
    assert oracle.error(found, expected) < 1e-13
    named = score_gradient(model, batch, exemplar, SCORES, LossVariance(), LR, "double-backward", scope="2")
    assert oracle.error(named, expected) < 1e-13


def test_batch_norm_in_eval_mode():
    model = net.conv_batch_norm().double()
    model(net.pictures(9, seed=5).inputs)
    model.eval()
    batch, exemplar = net.pictures(5, seed=2), net.pictures(6, seed=3)
    found = score_gradient(model, batch, exemplar, SCORES, LossVariance(), LR, "auto", scope="head")
    assert oracle.error(found, expected_of(model, batch, exemplar, ("7.weight", "7.bias"))) < BOUND


BLOCKS = {
    "mlp": (net.mlp, net.vectors, "2", ("2.weight", "2.bias")),
    "convolution": (net.conv_batch_norm, net.pictures, "3", ("3.weight",)),
    "batch norm": (net.conv_batch_norm, net.pictures, "4", ("4.weight", "4.bias")),
    "in a wrapper": (
        lambda: nn.Sequential(nn.Identity(), net.TwoInputs().left, nn.Tanh(), nn.Sequential(nn.Linear(5, 3))),
        net.vectors,
        "3.0",
        ("3.0.weight", "3.0.bias"),
    ),
    "two": (net.mlp, net.vectors, "0, head", ("0.weight", "0.bias", "4.weight", "4.bias")),
    "suffix": (
        lambda: nn.Sequential(nn.Identity(), net.Words()),
        net.words,
        "embed",
        ("1.embed.weight",),
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_named_block_equals_central_differences_of_the_map_of_its_own_step(name):
    make, draw, scope, names = BLOCKS[name]
    model = make().double()
    batch, exemplar = draw(5, seed=2), draw(6, seed=3)
    for reverse in (False, True):
        expected = expected_of(model, batch, exemplar, names, oracle.spread, reverse=reverse)
        for mode in ("auto", "forward", "double-backward"):
            found = score_gradient(
                model, batch, exemplar, SCORES, MaxLossDiscrepancy(), LR, mode, scope=scope, reverse=reverse
            )
            assert oracle.error(found, expected) < BOUND


@pytest.mark.parametrize(
    ("form", "total"),
    [("logit-scale", oracle.logit_scale_total), ("softmax", oracle.softmax_total)],
)
def test_forms_and_losses(form, total):
    model = net.mlp().double()
    batch, exemplar = net.vectors(5, seed=2), net.vectors(6, seed=3)
    scores = torch.tensor([0.9, 1.6, 1.1, 0.8, 1.3]).double()
    rates = {"4.weight": LR, "4.bias": LR}
    expected = oracle.gradient(
        lambda w: oracle.whole_map(model, batch, exemplar, w, oracle.variance, rates, total=total), scores
    )
    found = score_gradient(model, batch, exemplar, scores, LossVariance(), LR, "auto", form=form, scope="head")
    assert oracle.error(found, expected) < BOUND

    def focal(z, labels):
        log_p = torch.log_softmax(z, dim=1).gather(1, labels[:, None]).squeeze(1)
        return -((1 - log_p.exp()) ** 2) * log_p

    both = [
        score_gradient(model, batch, exemplar, scores, LossVariance(), LR, m, loss=focal, form=form, scope="head")
        for m in ("auto", "double-backward")
    ]
    assert oracle.error(both[0], both[1]) < 1e-13


WRAPPERS = {
    "parallel": nn.DataParallel,
    "compiled": partial(torch.compile, backend="eager"),
    "compiled, backward too": partial(torch.compile, backend="aot_eager"),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_wrapped_models(wrap):
    torch.manual_seed(0)
    model = net.mlp()
    batch = Batch(net.vectors(5, seed=2).inputs.float(), net.vectors(5).labels)
    exemplar = Batch(net.vectors(6, seed=3).inputs.float(), net.vectors(6).labels)
    expected = score_gradient(model, batch, exemplar, SCORES.float(), LossVariance(), LR, "auto", scope="head")
    wrapped = wrap(model)
    forml = fw.FORML(wrapped, 5, LossVariance(), scope="head", agreement_every=0)
    with torch.no_grad():
        forml._own.copy_(SCORES)
    optimizer = torch.optim.SGD(model.parameters(), LR)
    record = forml.step(batch, exemplar, optimizer)
    assert record.mode.endswith(", scope 4")
    assert oracle.error(record.gradient, expected) < 1e-5


def test_a_model_compiled_in_place():
    model = net.mlp()
    model.compile(backend="eager")
    batch, exemplar = (Batch(net.vectors(n, seed=n).inputs.float(), net.vectors(n).labels) for n in (5, 6))
    found = score_gradient(model, batch, exemplar, SCORES.float(), LossVariance(), LR, "auto", scope="head")
    plain = net.mlp()
    plain.load_state_dict(model.state_dict())
    expected = score_gradient(plain, batch, exemplar, SCORES.float(), LossVariance(), LR, "auto", scope="head")
    assert oracle.error(found, expected) < 1e-5


def test_names():
    model = nn.Sequential(nn.Identity(), fw.ResNet18(3, width=4))
    assert Scope(model, "stages.7").name == "1.stages.7"
    assert Scope(model, "1.stages.7.norm1").name == "1.stages.7.norm1"
    with pytest.raises(UnknownName, match=r"scope='stage.7' is no submodule of the model; near it: .*stages\.7.*head"):
        Scope(model, "stage.7")
    assert Scope(model, "stages.7, head").name == "1.stages.7,head"
    with pytest.raises(UnknownName, match=r"scope='norm1' could be 1\.stages\.0\.norm1.*give more of the name"):
        Scope(model, "norm1")
    for nothing in ("", ".", "zzzz"):
        with pytest.raises(UnknownName, match="near it: "):
            Scope(model, nothing)
    with pytest.raises(BadInput, match="no parameter that requires a gradient; unfreeze it"):
        Scope(model, "stages.7.relu")


def test_a_model_without_a_linear_end():
    fully = nn.Sequential(nn.Conv2d(2, 3, 6), nn.Flatten())
    with pytest.raises(NoLinearHead, match=r"needs a model that ends in a linear layer.*scope=NAME.*such as 0\."):
        fw.FORML(fully, 5, scope="head")
    squeezed = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.LayerNorm(4))
    forml = fw.FORML(squeezed, 5, scope="head")
    batch = Batch(net.vectors(5).inputs.float(), net.vectors(5).labels)
    with pytest.raises(NoLinearHead, match=r"its last layer is '2' \(LayerNorm\); give scope='2', or scope=NAME"):
        forml.step(batch, batch, torch.optim.SGD(squeezed.parameters(), 0.1))


def test_an_optimizer_without_the_scope():
    model = net.mlp()
    forml = fw.FORML(model, 5, scope="head")
    batch = Batch(net.vectors(5).inputs.float(), net.vectors(5).labels)
    with pytest.raises(BadInput, match="that the virtual step may move"):
        forml.step(batch, batch, torch.optim.SGD(model[0].parameters(), 0.1))
