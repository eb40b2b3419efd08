"""The step by other libraries that `bench` measures beside ours is the same step."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from fairweight.methods.forml import FORML
from fairweight.models.resnet import ResNet18
from fairweight.types import Batch


def stepped(kind: Any, network: torch.nn.Module, **options: Any) -> tuple[list[torch.Tensor], torch.Tensor, Any]:
    stream = torch.Generator().manual_seed(2)
    model = copy.deepcopy(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    train = Batch(torch.randn(16, 3, 16, 16, generator=stream).double(), torch.arange(16) % 5, rows=torch.arange(16))
    held = Batch(torch.randn(10, 3, 16, 16, generator=stream).double(), torch.arange(10) % 5)
    method = kind(model, 16, agreement_every=0, **options)
    gradients = [method.step(train, held, optimizer).gradient for _ in range(3)]
    return gradients, method.scores, model.state_dict()


@pytest.mark.parametrize("name", ["HigherStep", "TorchOptStep"])
def test_a_peer_takes_the_same_steps(script: Any, name: str) -> None:
    """Gradients, scores, parameters and running statistics over three steps."""
    peer = getattr(script("peers"), name)
    pytest.importorskip(peer.library, reason=f"{peer.library} is not installed; pip install {peer.library}")
    torch.manual_seed(0)
    network = ResNet18(5, width=4).double()
    ours, theirs = stepped(FORML, network, gradient="forward"), stepped(peer, network)
    for a, b in zip(ours[0], theirs[0], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-14)
    torch.testing.assert_close(ours[1], theirs[1], rtol=1e-9, atol=1e-12)
    for name, value in ours[2].items():
        torch.testing.assert_close(value, theirs[2][name], rtol=1e-9, atol=1e-12)


def test_what_is_not_installed_is_not_measured(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    peers = script("peers")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert peers.installed() == []


@pytest.mark.slow
def test_each_library_gets_a_row(script: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    peers = script("peers")
    if not peers.installed():
        pytest.skip("neither higher nor torchopt is installed")
    words = ["peers.py", "--batch", "6", "--exemplars", "10", "--width", "2", "--repeats", "1"]
    monkeypatch.setattr("sys.argv", words)
    peers.main()
    table = capsys.readouterr().out
    for way in peers.installed():
        assert way.name in table
