"""Batch norm's own tangent rule beside torch's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp

import fairweight as fw
from fairweight.fast.batch_norm_tangent import NormTangents
from fairweight.fast.step_graph import TracedStep
from fairweight.metagradient.forward import load_tables
from fairweight.objectives.mean import MeanLoss


@pytest.fixture(autouse=True)
def tables() -> None:
    """torch warns about its own code when it first differentiates forward."""
    load_tables()


SHAPES = {"rows": (7, 3), "series": (4, 3, 5), "images": (4, 3, 5, 6), "volumes": (3, 3, 2, 4, 2)}
NORMS = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("moved", ["input", "parameters", "both"])
def test_the_tangent_is_torchs(shape: tuple[int, ...], affine: bool, moved: str) -> None:
    stream = torch.Generator().manual_seed(0)
    norm = NORMS[len(shape)](3, affine=affine).double()
    if affine:
        with torch.no_grad():
            norm.weight.normal_(generator=stream)
            norm.bias.normal_(generator=stream)
    x, dx = (torch.randn(shape, generator=stream, dtype=torch.float64) for _ in range(2))
    x = 3 * x + 40  # far from 0: a rule that subtracts large sums would show
    own = {name: p.detach() for name, p in norm.named_parameters()}
    along = {name: torch.randn(p.shape, generator=stream, dtype=torch.float64) for name, p in own.items()}
    if moved == "input":
        along = {name: torch.zeros_like(p) for name, p in own.items()}
    elif moved == "parameters":
        dx = torch.zeros_like(dx)

    def run(parameters: dict[str, Tensor], inputs: Tensor) -> Tensor:
        buffers = {name: b.clone() for name, b in norm.named_buffers()}
        return functional_call(norm, (parameters, buffers), (inputs,)).pow(2)

    expected = jvp(run, (own, x), (along, dx))
    with NormTangents():
        found = jvp(run, (own, x), (along, dx))
    torch.testing.assert_close(found[0], expected[0], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found[1], expected[1], rtol=1e-9, atol=1e-9)


def test_in_eval_mode_and_outside_a_forward_mode_pass_nothing_changes() -> None:
    norm = nn.BatchNorm1d(3)
    x = torch.randn(6, 3)
    with NormTangents():
        assert torch.equal(norm(x), nn.BatchNorm1d(3)(x))
        assert torch.equal(norm.eval()(x), norm(x))


@pytest.mark.slow
def test_a_traced_step_normalises_once_for_train_and_once_for_exemplars() -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 6), nn.BatchNorm1d(6))
    batch, held = (fw.Batch(torch.randn(n, 4), torch.arange(n) % 6) for n in (12, 6))
    graphs = []
    TracedStep(
        model,
        dict(model.named_parameters()),
        batch,
        held,
        _loss,
        MeanLoss(),
        [name for name, _ in model.named_parameters()],
        lambda graph: graphs.append(graph) or graph,
    )
    counted = sum(n.target is torch.ops.aten.native_batch_norm.default for g in graphs for n in g.graph.nodes)
    assert counted == 4  # two layers, train and exemplars: the tangents and the second backward add none


def _loss(logits: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits, labels, reduction="none")
