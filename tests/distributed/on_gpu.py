"""The step of several ranks on one GPU: python -m tests.distributed.on_gpu FOLDER

nccl refuses two ranks on one GPU. So it runs with a world of one, through the same exchanges; and two ranks share the
GPU by gloo. Each is compared with a process that knows of no ranks. Leaves distributed_gpu.json in the folder.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

SOME = ("forward", "per_layer", "auto_wrapped", "ties", "group_dro", "sharded_ties", "batch_norm", "focal",
        "micro_batches", "fit", "fully_sharded", "fully_sharded_layers")  # fmt: skip
TOLERANCE = 1e-10  # in float64: kernels of a GPU add up in another order


def worker(backend: str) -> None:
    """One rank, or with "none" the process that knows of none; leaves its numbers in FOLDER."""
    from tests.distributed.cases import DEVICE
    from tests.distributed.fit_cases import CASES

    import fairweight.methods.forml
    from fairweight.ranks import Ranks

    faulthandler.enable()
    rank = int(os.environ["RANK"])
    if DEVICE != "cpu":
        torch.cuda.set_device(0)
    if backend != "none":
        dist.init_process_group(backend)
        if dist.get_world_size() == 1:  # ranks are looked for where there are several
            assert dist.group.WORLD is not None
            alone = Ranks(dist.group.WORLD, 0, 1, torch.device(DEVICE))
            for home in (fairweight.methods, fairweight.methods.forml):
                home.find_ranks = lambda group, model: alone  # type: ignore[attr-defined]
    found: dict[str, Any] = {}
    for name in SOME:
        began = time.monotonic()
        try:
            numbers = {key: value.detach().cpu() for key, value in CASES[name]().items()}
            found[name] = {"numbers": numbers, "seconds": time.monotonic() - began}
        except Exception as error:
            found[name] = {"error": f"{type(error).__name__}: {error}"[:300]}
        torch.save(found, Path(os.environ["FOLDER"], f"{rank}.pt"))  # after each: a crash leaves those before it
    if backend != "none":
        dist.destroy_process_group()


def largest_difference(one: dict[str, Any], other: dict[str, Any]) -> float | str:
    """Over all numbers of a case, or what went wrong."""
    for found in (one, other):
        if "numbers" not in found:
            return str(found.get("error", "not reached"))
    pairs = [(value, other["numbers"][key]) for key, value in one["numbers"].items()]
    return max(float((a.double() - b.double()).nan_to_num().abs().max()) for a, b in pairs)


def main(folder: Path) -> None:
    from tests.distributed.launch import run

    os.environ.setdefault("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
    on_gpu = os.environ["DEVICE"] != "cpu"
    outcome: dict[str, Any] = {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(0) if on_gpu else "cpu",
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if on_gpu else None,
    }
    results: dict[str, list[dict[str, Any]]] = {}
    worlds = {"alone": ("none", 1), "nccl, 1 rank": ("nccl" if on_gpu else "gloo", 1), "gloo, 2 ranks": ("gloo", 2)}
    for name, (backend, size) in worlds.items():
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as scratch:
            try:
                run(size, Path(scratch), [sys.executable, "-m", "tests.distributed.on_gpu", "--rank", backend])
            except Exception as error:  # what came before still says something
                outcome[f"{name}: error"] = str(error)[-3000:]
            kept = [Path(scratch, f"{rank}.pt") for rank in range(size)]
            results[name] = [torch.load(path, weights_only=True) if path.is_file() else {} for path in kept]
        if name != "alone":
            one, other = results["alone"][0], results[name][-1]
            outcome[name] = {case: largest_difference(one.get(case, {}), other.get(case, {})) for case in SOME}
        outcome[f"{name}: seconds"] = round(time.monotonic() - began, 1)
        compared = outcome.get(name, {}).values()
        outcome[f"{name}: all equal"] = all(isinstance(d, float) and d < TOLERANCE for d in compared)
        (folder / "distributed_gpu.json").write_text(json.dumps(outcome, indent=1))
    print(json.dumps(outcome, indent=1))


if __name__ == "__main__":
    worker(sys.argv[2]) if sys.argv[1] == "--rank" else main(Path(sys.argv[1]))
