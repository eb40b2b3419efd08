"""The passes of a step as one graph give what they give one by one."""

import copy
import logging

import pytest
import torch
from tests import networks
from torch import nn

import fairweight as fw
from fairweight.fast import step_graph


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), 1)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 4)

    def forward(self, tokens, scale):
        return {"logits": self.head(self.norm(self.layers(self.embed(tokens)).mean(1)) * scale[:, None])}


def conv():
    return nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 6, 3, bias=False), nn.GroupNorm(2, 6),
        nn.GELU(), nn.BatchNorm2d(6, momentum=0.3), nn.Flatten(), nn.Linear(96, 4),
    )  # fmt: skip


def images(n):
    return torch.randn(n, 3, 8, 8)


def sentences(n):
    return {"tokens": torch.randint(0, 11, (n, 5)), "scale": torch.rand(n) + 0.5}


CASES = {
    "mlp": (lambda: fw.MLP(7, 4, (9, 9)), lambda n: torch.randn(n, 7)),
    "conv": (conv, images),
    "resnet": (networks.short_resnet, images),
    "words": (Words, sentences),
    "one logit": (lambda: nn.Linear(7, 1), lambda n: torch.randn(n, 7)),
}


@pytest.fixture(autouse=True)
def _double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def pair(name, **options):
    """The same model and batches twice: passes one by one, and traced."""
    make, inputs = CASES[name]
    torch.manual_seed(0)
    model, classes = make(), 2 if name == "one logit" else 4
    batches = [fw.Batch(inputs(12), torch.arange(12) % classes, rows=torch.randperm(40)[:12]) for _ in range(3)]
    held = [
        fw.Batch(inputs(8), torch.arange(8) % classes, groups=torch.arange(8) // 4, shares=torch.rand(8))
        for _ in range(3)
    ]
    runs = []
    for trace in (False, True):
        net = copy.deepcopy(model)
        optimizer = torch.optim.SGD(
            [{"params": [p], "lr": 0.05 + 0.01 * k} for k, p in enumerate(net.parameters())], momentum=0.9
        )
        forml = fw.FORML(net, 40, gradient="forward", **{"agreement_every": 0, **options})
        if trace:
            forml.compile("eager")
        records = [forml.step(b, e, optimizer) for b, e in zip(batches, held, strict=True)]
        runs.append((net, forml, records))
    return runs


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"look_ahead": fw.LookAhead(reverse=True), "tie": "label"},
        {"objective": fw.MaxLossDiscrepancy(), "score_step": fw.PlainStep(50.0)},
        {"look_ahead": None},
        {"scope": "head"},
        {"agreement_every": 2},
    ],
    ids=["default", "reverse, tied", "paper", "at rest", "head", "looks"],
)
def test_traced_equals_one_by_one(name, options):
    (a, forml_a, records_a), (b, forml_b, records_b) = pair(name, **options)
    assert forml_b._traced.refusal is None
    assert forml_b._traced.traces == 1
    assert all(record.mode.startswith("forward, traced") for record in records_b)  # looks at agreement too
    for x, y in zip(records_a, records_b, strict=True):
        for key in (
            "loss",
            "losses",
            "weights",
            "objective",
            "exemplar_losses",
            "pull",
            "gradient",
            "margin",
            "correct",
            "agreement",
        ):
            torch.testing.assert_close(getattr(x, key), getattr(y, key), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(forml_a.scores, forml_b.scores, rtol=1e-9, atol=1e-12)
    for (key, x), y in zip(a.state_dict().items(), b.state_dict().values(), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-12, msg=key)


@pytest.mark.parametrize(("join", "tangents"), [(False, 3), (True, 2)])
def test_fewer_operations_than_one_by_one(join, tangents, monkeypatch):
    """The forward pass stands once in the graph, not once more in the tangent's."""
    monkeypatch.setattr(step_graph, "JOIN", join)  # a tangent's two convolutions as one
    (_, _, records), (_, forml, traced) = pair("conv")
    convolutions = sum("convolution.default" in str(n.target) for n in forml._traced.step.first.graph.nodes)
    # two layers: forward 2, exemplar 2; tangent 2 per layer, but the pictures do not move
    assert convolutions == 4 + tangents
    torch.testing.assert_close(records[-1].pull, traced[-1].pull, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "scope"), [("conv", "3"), ("resnet", "stages.1"), ("words", "layers"), ("mlp", "1")])
def test_a_named_scope_traced_equals_one_by_one(name, scope):
    (_, forml_a, records_a), (_, forml_b, records_b) = pair(name, scope=scope)
    assert records_b[-1].mode == f"forward, traced, scope {forml_b.scope}"
    assert records_a[-1].mode.endswith(f", scope {forml_a.scope}")
    for x, y in zip(records_a, records_b, strict=True):
        torch.testing.assert_close(x.gradient, y.gradient, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(forml_a.scores, forml_b.scores, rtol=1e-9, atol=1e-12)


def test_the_head_needs_no_convolution_beyond_the_two_forward_passes():
    (_, _, _), (_, forml, _) = pair("conv", scope="head")
    names = [str(n.target) for n in forml._traced.step.first.graph.nodes]
    assert sum("convolution.default" in n for n in names) == 4  # two layers, train and exemplar
    assert not any("convolution_backward" in n for n in names)


def test_another_shape_runs_one_by_one():
    torch.manual_seed(0)
    model = fw.MLP(7, 4, (9,))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    forml = fw.FORML(model, 40, gradient="forward", agreement_every=0)
    forml.compile("eager")
    held = fw.Batch(torch.randn(8, 7), torch.arange(8) % 4)
    modes = []
    for size in (12, 12, 5, 12):
        batch = fw.Batch(torch.randn(size, 7), torch.arange(size) % 4, rows=torch.arange(size))
        modes.append(forml.step(batch, held, optimizer).mode)
    assert modes == ["forward, traced", "forward, traced", "forward", "forward, traced"]
    assert forml._traced.traces == 1


@pytest.mark.parametrize(
    ("model", "options", "reason"),
    [
        (lambda: nn.Sequential(nn.Linear(7, 8), nn.Dropout(0.3), nn.Linear(8, 4)), {}, "random numbers"),
        (lambda: nn.Linear(7, 4), {"form": "logit-scale"}, "softmax weights"),
        (lambda: nn.Linear(7, 4), {"look_ahead": fw.LookAhead(statistics="running")}, "the batch's statistics"),
        (
            lambda: nn.Linear(7, 4),
            {"objective": lambda losses, groups: losses[groups == groups.unique()[0]].mean()},
            "cannot be traced",
        ),
    ],
)
def test_what_cannot_be_traced_falls_back_and_says_so_once(model, options, reason, caplog):
    torch.manual_seed(0)
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    forml = fw.FORML(net, 12, gradient="forward", agreement_every=0, **options)
    batch = fw.Batch(torch.randn(12, 7), torch.arange(12) % 4)
    with caplog.at_level(logging.INFO, "fairweight"):
        forml.compile("eager")
        for _ in range(2):
            assert forml.step(batch, batch, optimizer).mode == "forward"
    said = [r for r in caplog.records if "one by one" in r.getMessage()]
    assert len(said) == 1
    assert reason in said[0].getMessage()


def test_nothing_moves_when_the_loss_is_not_finite():
    from fairweight.errors import LossNotFinite

    torch.manual_seed(0)
    net = conv()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    forml = fw.FORML(net, 12, gradient="forward", agreement_every=0)
    forml.compile("eager")
    good = fw.Batch(images(12), torch.arange(12) % 4)
    forml.step(good, good, optimizer)
    before = copy.deepcopy(net.state_dict()), forml.scores.clone()
    bad = fw.Batch(torch.full((12, 3, 8, 8), torch.nan), torch.arange(12) % 4)
    with pytest.raises(LossNotFinite):
        forml.step(bad, good, optimizer)
    assert torch.equal(forml.scores, before[1])
    for key, value in net.state_dict().items():
        assert torch.equal(value, before[0][key])


def test_the_old_spelling_still_works_and_says_what_to_call():
    with pytest.warns(DeprecationWarning, match="compile"):
        forml = fw.FORML(nn.Linear(7, 4), 12, gradient="forward", trace=True, agreement_every=0)
    batch = fw.Batch(torch.randn(12, 7), torch.arange(12) % 4)
    assert forml.step(batch, batch, torch.optim.SGD(forml.model.parameters(), 0.1)).mode == "forward, traced"


def test_the_readable_function_is_what_a_step_does():
    """The pure function of whole_map against one real step of FORML, batch norm and all."""
    from torch.func import functional_call

    from fairweight.metagradient.whole_map import whole_map

    torch.manual_seed(0)
    model = conv()
    batch, held = (fw.Batch(images(n), torch.arange(n) % 4, rows=torch.arange(n)) for n in (12, 8))
    forml = fw.FORML(model, 12, gradient="forward", score_step=fw.PlainStep(40.0), agreement_every=0)
    parameters = {name: p.detach().clone() for name, p in model.named_parameters()}
    buffers = {name: b.clone() for name, b in model.named_buffers()}

    def net(at, samples):
        return functional_call(model, (at, {name: b.clone() for name, b in buffers.items()}), (samples.inputs,))

    def reweigh(gradient, weights):
        return torch.softmax(-40.0 * 0.1 * gradient, dim=0)

    loss = fw.metagradient.classification_loss
    rates = dict.fromkeys(parameters, 0.1)
    told = whole_map(net, loss, forml.objective, parameters, forml.scores, batch, held, rates, reweigh)
    record = forml.backward(batch, held, torch.optim.SGD(model.parameters(), 0.1))
    torch.testing.assert_close(told.gradient, record.gradient, rtol=1e-10, atol=1e-14)
    torch.testing.assert_close(told.pull, record.pull, rtol=1e-10, atol=1e-14)
    for name, p in model.named_parameters():
        torch.testing.assert_close(told.slope[name], p.grad, rtol=1e-9, atol=1e-13)


def test_a_graph_that_does_not_run_leaves_the_step_to_its_passes():
    """What a backend makes of a graph may fail when it runs: no error of torch, the usual step."""

    def broken(graph, *_):
        def run(*_):
            raise RuntimeError("no kernel for this")

        return run

    model, rows = nn.Linear(3, 2), torch.arange(6)
    forml = fw.FORML(model, 6, agreement_every=0)
    forml.compile(broken)
    record = forml.step(
        fw.Batch(torch.randn(6, 3), rows % 2, None, rows),
        fw.Batch(torch.randn(4, 3), rows[:4] % 2),
        torch.optim.SGD(model.parameters(), 0.1),
    )
    assert "traced" not in record.mode
    assert "does not run (no kernel for this)" in forml._traced.refusal
