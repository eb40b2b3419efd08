"""The readable step by plain torch.compile beside the traced one: what the edits of the graph are worth.

    PYTHONPATH=src python benchmarks/whole_map_compiled.py --out whole_map.json            a GPU; torch alone

ResNet-18, batch 128 with 30 exemplars, bfloat16, each as a CUDA graph, in turns. `merged`: common subexpressions of the
forward and the forward-mode pass are merged by a pass that is handed to the compiler.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from per_layer import _captured, in_turn, timed
from torch import Tensor
from torch.func import functional_call

import fairweight as fw
from fairweight.fast.cuda_graph import CapturedStep
from fairweight.metagradient.whole_map import whole_map

SIZE, HELD = 128, 30


def batches() -> tuple[fw.Batch, fw.Batch]:
    def drawn(n: int) -> fw.Batch:
        x = torch.randn(n, 3, 32, 32, device="cuda").contiguous(memory_format=torch.channels_last)
        rows = torch.arange(n, device="cuda")
        return fw.Batch(x, rows % 10, None, rows)

    return drawn(SIZE), drawn(HELD)


def plain_compile(model: torch.nn.Module, batch: fw.Batch, held: fw.Batch, merged: bool) -> Any:
    """One function of tensors: the whole map with PlainStep inside, compiled."""
    from torch._functorch.compile_utils import fx_graph_cse
    from torch._inductor import config

    def merge(graph: Any) -> None:
        graph.__dict__.update(fx_graph_cse(graph).__dict__)  # the pass works in place

    named = dict(model.named_parameters())
    buffers = dict(model.named_buffers())
    loss, objective = fw.metagradient.classification_loss, fw.MeanLoss() + fw.LossVariance()

    def step(
        at: dict[str, Tensor], own: dict[str, Tensor], scores: Tensor, x: Tensor, y: Tensor, hx: Tensor, hy: Tensor
    ):
        def net(parameters: dict[str, Tensor], samples: fw.Batch) -> Tensor:
            copies = {name: b.clone() for name, b in own.items()}
            return functional_call(model, (parameters, copies), (samples.inputs,))

        train, exemplar = _Plain(x, y), _Plain(hx, hy)
        rates = dict.fromkeys(at, 1e-5)
        found = whole_map(
            net, loss, objective, at, scores, train, exemplar, rates, lambda g, p: torch.softmax(scores - 1e-5 * g, 0)
        )
        return found.gradient, found.losses, found.slope

    with config.patch(joint_custom_pre_pass=merge if merged else None):
        made = torch.compile(step, dynamic=False, fullgraph=True)
        args = (
            {n: p.detach() for n, p in named.items()}, buffers, torch.zeros(SIZE, device="cuda"),
            batch.inputs, batch.labels, held.inputs, held.labels,
        )  # fmt: skip
        with torch.no_grad():
            made(*args)
    return made, args


class _Plain:
    """A batch without checks, which torch.compile cannot follow."""

    def __init__(self, inputs: Tensor, labels: Tensor) -> None:
        self.inputs, self.labels, self.groups, self.shares = inputs, labels, None, None

    def compared(self) -> Tensor:
        return self.labels


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    torch.manual_seed(0)
    model = fw.ResNet18(10).cuda().to(memory_format=torch.channels_last)
    batch, held = batches()
    kept: dict[str, Any] = {}
    ready, document = {}, {"torch": torch.__version__, "device": torch.cuda.get_device_name(), "errors": {}}
    for name in ("plain", "traced", "whole map", "whole map, merged"):
        started = time.perf_counter()
        try:
            twin = copy.deepcopy(model)
            optimizer = torch.optim.SGD(twin.parameters(), lr=1e-5, momentum=0.9, nesterov=True, weight_decay=5e-4)
            if name in ("plain", "traced"):
                method = fw.Uniform(twin, SIZE) if name == "plain" else fw.FORML(twin, SIZE, agreement_every=0)
                method.compile()
                take = CapturedStep(method, optimizer)

                def step(take: Any = take, plain: bool = name == "plain") -> None:
                    with torch.autocast("cuda", dtype=torch.bfloat16):
                        take(batch, None if plain else held)

                for _ in range(8):
                    step()
                document["errors"][name] = take.refusal or (None if name == "plain" else method._traced.refusal)
            else:
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    made, args = plain_compile(twin, batch, held, merged="merged" in name)

                def once(made: Any = made, args: Any = args, twin: Any = twin, optimizer: Any = optimizer) -> None:
                    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
                        _, _, slopes = made(*args)
                    for key, p in twin.named_parameters():
                        p.grad = slopes[key]
                    optimizer.step()

                once()
                step = _captured(once).replay
            ready[name], kept[name] = step, (twin, optimizer, once if "map" in name else None)  # a replay keeps nothing
        except Exception as error:  # one way's failure must not lose the others' numbers
            document["errors"][name] = f"{type(error).__name__}: {str(error)[:500]}"
        print(name, f"{time.perf_counter() - started:.0f} s", document["errors"].get(name), flush=True)
    times: dict[str, list[float]] = {name: [] for name in ready}
    with in_turn("whole map"):
        for _ in range(15):
            for name, step in ready.items():
                times[name] += [timed(step, True) for _ in range(20)]
    document["median_ms"] = {name: statistics.median(found) for name, found in times.items()}
    document["n"] = {name: len(found) for name, found in times.items()}
    print(json.dumps(document, indent=1))
    if out:
        out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
