"""FORML with a scope: what it learns, with its other options, in fit, and by its name in words."""

from __future__ import annotations

import json

import pytest
import torch
from tests import networks as net
from tests import oracle
from tests.command import fairweight
from torch import nn

import fairweight as fw
from fairweight.metagradient import score_gradient
from fairweight.runs.build import method_from
from fairweight.types import Batch


def batches(size: int = 12):
    train = net.vectors(size, seed=2, groups=True)
    return Batch(train.inputs, train.labels, train.groups, torch.arange(size)), net.vectors(18, seed=3)


OPTIONS = {
    "plain": {},
    "reverse": {"look_ahead": fw.LookAhead(reverse=True)},
    "at rest": {"look_ahead": None},
    "running statistics": {"look_ahead": fw.LookAhead(statistics="running")},
    "tied": {"tie": "cell"},
    "every second": {"every": 2},
    "inverse square": {"form": "inverse-square"},
    "logit scale": {"form": "logit-scale"},
    "agreement": {"agreement_every": 1},
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("scope", ["head", "1.3"])
def test_every_option_gives_what_double_backward_gives(name, scope):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Identity(), nn.Sequential(*net.mlp()[:2], nn.BatchNorm1d(7), *net.mlp()[2:])).double()
    start = {key: value.clone() for key, value in model.state_dict().items()}
    train, exemplar = batches()
    found = {}
    for gradient in ("auto", "double-backward"):
        model.load_state_dict(start)
        forml = fw.FORML(model, 12, gradient=gradient, scope=scope, **{"agreement_every": 0} | OPTIONS[name])
        optimizer = torch.optim.Adam(model.parameters(), 0.05)
        found[gradient] = [forml.step(train, exemplar, optimizer) for _ in range(4)], forml.scores
    for a, b in zip(found["auto"][0], found["double-backward"][0], strict=True):
        for key in ("weights", "gradient", "objective", "agreement", "loss"):
            x, y = getattr(a, key), getattr(b, key)
            assert (x is None) == (y is None)
            if x is not None:
                torch.testing.assert_close(x, y, rtol=1e-8, atol=1e-12)
    torch.testing.assert_close(found["auto"][1], found["double-backward"][1], rtol=1e-8, atol=1e-12)
    assert (found["auto"][0][0].agreement is None) == (name != "agreement")


def test_the_whole_model_is_trained_all_the_same():
    model = net.mlp().double()
    twin = net.mlp().double()
    twin.load_state_dict(model.state_dict())
    train, exemplar = batches()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    record = fw.FORML(model, 12, scope="head").step(train, exemplar, optimizer)
    (record.weights * oracle.cross_entropy(twin(train.inputs), train.labels)).sum().backward()
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


def test_running_statistics_move_as_in_a_plain_step():
    torch.manual_seed(0)
    models = [net.conv_batch_norm() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    train, exemplar = (Batch(b.inputs.float(), b.labels) for b in (net.pictures(9), net.pictures(9, seed=4)))
    for model, method in zip(models, (fw.FORML(models[0], 9, scope="head"), fw.Uniform(models[1], 9)), strict=True):
        method.step(train, exemplar, torch.optim.SGD(model.parameters(), 0.1))
    for a, b in zip(models[0].buffers(), models[1].buffers(), strict=True):
        assert torch.equal(a, b)


def test_the_random_stream_moves_as_in_a_plain_step():
    train, exemplar = (Batch(b.inputs.float(), b.labels) for b in (net.vectors(9), net.vectors(9, seed=4)))
    ends = []
    for kind in (fw.Uniform, lambda model, n: fw.FORML(model, n, scope="head")):
        torch.manual_seed(0)
        model = net.dropout()
        kind(model, 9).step(train, exemplar, torch.optim.SGD(model.parameters(), 0.1))
        ends.append(torch.get_rng_state())
    assert torch.equal(*ends)


@pytest.mark.parametrize("options", [{"scope": "head"}, {"scope": "head", "every": 3}, {"scope": "3"}], ids=str)
def test_fit_goes_on_bit_for_bit(tmp_path, options):
    train, exemplar = (Batch(b.inputs.float(), b.labels) for b in (net.vectors(20), net.vectors(18, seed=4)))

    def trained(epochs, **where):
        torch.manual_seed(0)
        model = net.dropout()
        forml = fw.FORML(model, 20, **options)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        fw.fit(model, optimizer, forml, train, exemplar, epochs=epochs, batch_size=7, per_cell=2, **where)
        return [*model.parameters(), forml.scores]

    whole = trained(4)
    trained(2, out=tmp_path)
    resumed = trained(4, out=tmp_path, resume=True)
    assert all(torch.equal(a, b) for a, b in zip(whole, resumed, strict=True))


@pytest.mark.slow
def test_in_words_and_on_the_command_line(tmp_path):
    model = net.mlp()
    made = method_from("forml", {"scope": "head", "every": 2}, model, 5)
    assert made.scope == "head"
    assert method_from("forml", {"scope": 2, "look_ahead": None}, model, 5).scope == "2"
    words = ("train", "digits", "--method", "forml", "--epochs", "1", "--out", "run", "--option")
    found = fairweight(tmp_path, *words, "scope=layr")
    assert found.returncode == 2
    assert found.stderr.startswith("fairweight: scope='layr' is no submodule of the model; near it: layers")
    assert not (tmp_path / "run").exists()
    found = fairweight(tmp_path, *words, "scope=head")
    assert found.returncode == 0, found.stderr
    assert json.loads((tmp_path / "run" / "run.json").read_text())["spec"]["method_options"]["scope"] == "head"


def test_a_step_at_the_head_is_the_head_s_score_gradient():
    model = net.mlp().double()
    train, exemplar = batches()
    expected = score_gradient(
        model, train, exemplar, torch.zeros(12).double(), fw.MaxLossDiscrepancy(), 0.1, "auto", scope="head"
    )
    forml = fw.FORML(model, 12, fw.MaxLossDiscrepancy(), scope="head")
    record = forml.step(train, exemplar, torch.optim.SGD(model.parameters(), 0.1))
    assert oracle.error(record.gradient, expected) < 1e-13
    assert forml.scope == "4"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("options", [{"scope": "head"}, {"scope": "head", "every": 2}, {"scope": "2"}], ids=str)
def test_captured_as_a_cuda_graph(options, bf16):
    from fairweight.fast.cuda_graph import CapturedStep

    train = Batch(net.pictures(48).inputs.float(), net.pictures(48).labels, rows=torch.arange(48)).to("cuda")
    exemplar = Batch(net.pictures(12, seed=4).inputs.float(), net.pictures(12).labels).to("cuda")
    found = []
    for captured in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 3)).cuda()
        forml = fw.FORML(model, 48, agreement_every=0, **options)
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        take = CapturedStep(forml, optimizer)
        for _ in range(12):
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=bf16):
                if captured:
                    take(train, exemplar)
                else:
                    forml.step(train, exemplar, optimizer)
        if captured:
            assert take.refusal is None
            assert take.captures == forml.every
        found.append([forml.scores, *model.parameters(), *model.buffers()])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=0.02 if bf16 else 1e-5)
