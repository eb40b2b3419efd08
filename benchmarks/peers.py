"""FORML's exact step written with higher and TorchOpt, measured beside the ways of `fairweight bench`.

    python benchmarks/peers.py --device cpu --repeats 5

Prints the table of `fairweight bench` on ResNet-18 with a row for each of the libraries that is installed.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairweight.apps.bench import Way, bench, text
from fairweight.metagradient import ForwardPass, Mode, Solution, forward
from fairweight.metagradient.model import call
from fairweight.metagradient.solve import evaluate
from fairweight.methods import current_lr
from fairweight.methods.forml import FORML
from fairweight.models.resnet import ResNet18
from fairweight.runs.build import laid_out
from fairweight.runs.own_model import example_batches
from fairweight.runs.provenance import provenance
from fairweight.types import Batch


class _Peer(FORML):
    """The virtual step by a library; then, as its users write it, the real step with a forward pass of its own."""

    library = ""

    def virtual(self, batch: Batch, exemplar: Batch, scores: Tensor, lr: float) -> Solution:
        """The gradient of the objective after the virtual step, in the scores."""
        raise NotImplementedError

    def forward(
        self, batch: Batch, exemplar: Batch | None, optimizer: torch.optim.Optimizer, *, check: bool = True
    ) -> ForwardPass:
        """The virtual step first, then a forward pass for the real one."""
        assert exemplar is not None
        self.mode = Mode(self.library)
        scores = self._batch_scores(batch).clone().requires_grad_()
        with torch.enable_grad():
            found = self.virtual(batch, exemplar, scores, current_lr(optimizer))
        return replace(forward(self.model, batch, self.loss, check=check), solution=found)

    def _after(self, model: Any, exemplar: Batch, scores: Tensor) -> Solution:
        held = self.loss(call(model, exemplar.inputs, len(exemplar)), exemplar.labels)
        value = evaluate(self.objective, held, exemplar)
        (gradient,) = torch.autograd.grad(value, scores)
        return Solution(gradient.detach(), value.detach(), held.detach())

    def _weighted(self, model: Any, batch: Batch, scores: Tensor) -> Tensor:
        losses = self.loss(call(model, batch.inputs, len(batch)), batch.labels)
        return (self.form.weights(scores) * losses).sum()


class HigherStep(_Peer):
    """With higher: a functional copy of the model and a differentiable optimizer."""

    library = "higher"

    def virtual(self, batch: Batch, exemplar: Batch, scores: Tensor, lr: float) -> Solution:
        """Inside its inner-loop context."""
        higher: Any = importlib.import_module("higher")
        plain = torch.optim.SGD(self.model.parameters(), lr=lr)
        with higher.innerloop_ctx(self.model, plain) as (twin, steps):
            steps.step(self._weighted(twin, batch, scores))
            return self._after(twin, exemplar, scores)


class TorchOptStep(_Peer):
    """With TorchOpt: the model's parameters are moved differentiably, and put back."""

    library = "torchopt"

    def virtual(self, batch: Batch, exemplar: Batch, scores: Tensor, lr: float) -> Solution:
        """Between extracting and recovering the state."""
        torchopt: Any = importlib.import_module("torchopt")
        kept = torchopt.extract_state_dict(self.model, by="reference")
        buffers = [b.clone() for b in self.model.buffers()]
        steps = torchopt.MetaSGD(self.model, lr=lr)
        try:
            steps.step(self._weighted(self.model, batch, scores))
            return self._after(self.model, exemplar, scores)
        finally:
            torchopt.stop_gradient(self.model)
            torchopt.recover_state_dict(self.model, kept)
            with torch.no_grad():
                for buffer, value in zip(self.model.buffers(), buffers, strict=True):
                    buffer.copy_(value)


def installed() -> list[Way]:
    """The steps whose library is there."""
    return [
        Way(f"double backward by {peer.library}", lambda net, n, peer=peer: peer(net, n, agreement_every=0), "eager")
        for peer in (HigherStep, TorchOptStep)
        if importlib.util.find_spec(peer.library) is not None
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cuda", "cpu"))
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--exemplars", type=int, default=30)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    torch.manual_seed(0)
    net = laid_out(ResNet18(10, width=asked.width), asked.device)
    inputs = (torch.randn(count, 3, 32, 32, device=asked.device) for count in (asked.batch, asked.exemplars))
    train, held = example_batches(net, *inputs, asked.batch, asked.exemplars)
    results = bench(net, train, held, repeats=asked.repeats, bf16=asked.bf16, more=installed())
    print(text(results))
    if asked.out is not None:
        record = {
            "kind": "bench",
            "model": f"ResNet18(width={asked.width})",
            "batch": asked.batch,
            "exemplars": asked.exemplars,
            "bf16": asked.bf16,
            "results": [asdict(timing) for timing in results],
            **provenance(asked.device),
        }
        asked.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
