"""What a step of several ranks sends, how long that takes on paper, and what sharded scores cost a rank, measured.

python benchmarks/scaling.py steps FILE            on a GPU: a step of each network, plain and with FORML
python benchmarks/scaling.py scores FILE           10⁹ scores sharded over simulated ranks
python benchmarks/scaling.py record SCORES [STEPS] writes records/<date>_scaling; without STEPS, steps are extrapolated
"""

from __future__ import annotations

import json
import math
import resource
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RANKS = (1, 2, 8, 16, 64, 256, 1024)
HEADERS, HEADER = 8, 32 * 8  # exchanges in which each rank says whether it is well and how much it sends; their bytes
GATHERS, SUMS = 4, 2  # of numbers of samples; of parameters, beside the gradient
LABELS = 8  # bytes of a label, a group or a row
BILLION = 10**9


@dataclass(frozen=True)
class Links:
    """Effective speed of a GPU's links, and what an exchange costs at least; each doubling of machines adds a hop."""

    inside_gb_s: float = 300.0  # NVLink, of 450 in one direction
    between_gb_s: float = 40.0  # a 400 Gb/s adapter for each GPU, of 50
    inside_us: float = 15.0
    hop_us: float = 15.0
    per_machine: int = 8

    def of(self, ranks: int) -> tuple[float, float]:
        """Seconds of an exchange and bytes a second, by the slowest link that so many ranks need."""
        machines = math.ceil(ranks / self.per_machine)
        speed = self.inside_gb_s if machines == 1 else self.between_gb_s
        return (self.inside_us + self.hop_us * math.log2(machines)) / 1e6, speed * 1e9


@dataclass(frozen=True)
class Work:
    """One rank's part of a step."""

    parameters: int
    batch: int  # samples a rank
    exemplars: int  # a rank
    size: int = 4  # bytes of a number

    def gathered(self) -> int:
        """Bytes that a rank gives to all others: labels, groups, rows, losses, whether right, pulls."""
        return self.batch * (3 * LABELS + 2 * self.size + 1) + self.exemplars * (3 * LABELS + self.size)

    def summed(self) -> int:
        """Bytes that are summed over ranks beside the gradient: the slope, and the objective's gradient."""
        return SUMS * self.parameters * self.size

    def seconds(self, ranks: int, links: Links) -> tuple[float, float]:
        """Of plain data parallelism, and of what comes beside it; rings, nothing hidden behind the passes."""
        if ranks == 1:
            return 0.0, 0.0
        least, speed = links.of(ranks)
        around = 2 * (ranks - 1) / ranks / speed
        sent = (ranks - 1) * (self.gathered() + HEADERS * HEADER) / speed
        plain = self.parameters * self.size * around + least
        return plain, self.summed() * around + sent + (HEADERS + GATHERS + SUMS) * least


def extrapolated(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Single-GPU steps of the two networks from measured ones, by their arithmetic at equal efficiency."""
    times = {
        name: {row["way"]: row["median_ms"] for row in found["models"][name]["results"] if row["regime"] == "compiled"}
        for name in ("ViT-S/16", "BERT-base")
    }
    vit, bert = times["ViT-S/16"], times["BERT-base"]
    image = 4.1 / 4.6  # multiplications of an image: 4.1 · 10⁹, of ViT-S/16's 4.6 · 10⁹; 128 images
    text = (1.0e9 / 85e6) * (16 * 512) / (64 * 128)  # parameters beside embeddings, and words of a batch
    return {
        "ResNet-50": {
            "parameters": 25_557_032, "batch": 128, "exemplars": 32, "plain_ms": image * vit["plain"],
            "forml_ms": 2.57 * image * vit["plain"],
            "from": "ViT-S/16, by 4.1 of its 4.6 · 10⁹ multiplications an image; 2.57 × plain, as measured with batch "
            "norm on ResNet-18",
        },
        "transformer of 1B": {
            "parameters": 1_000_000_000, "batch": 16, "exemplars": 8, "plain_ms": text * bert["plain"],
            "forml_ms": text * bert["per-layer"],
            "from": "BERT-base, by its 85 · 10⁶ parameters in layers and 64 · 128 words a batch; here 16 · 512 words",
        },
    }  # fmt: skip


def rows(steps: dict[str, dict[str, Any]], links: Links) -> list[dict[str, Any]]:
    """One for each network and number of ranks."""
    found = []
    for name, step in steps.items():
        work = Work(step["parameters"], step["batch"], step["exemplars"])
        for ranks in RANKS:
            plain, beyond = (1e3 * s for s in work.seconds(ranks, links))
            found.append({
                "network": name, "ranks": ranks, "summed_mb": work.summed() / 1e6 if ranks > 1 else 0.0,
                "gathered_mb": (ranks - 1) * work.gathered() / 1e6,
                "plain_ms": step["plain_ms"] + plain, "forml_ms": step["forml_ms"] + plain + beyond,
                "efficiency": step["forml_ms"] / (step["forml_ms"] + plain + beyond),
                "plain_efficiency": step["plain_ms"] / (step["plain_ms"] + plain),
            })  # fmt: skip
    return found


def measured_scores(number: int = BILLION, batch: int = 32_768, repeats: int = 50) -> list[dict[str, Any]]:
    """One rank's part of so many scores: memory, and the processor time to read and move those of a global batch."""
    import torch

    import fairweight as fw
    from fairweight.ranks import Ranks, Shard

    class Simulated(Ranks):
        """The ranks of a group, of which one is here: what others would add is 0."""

        def sum(self, values: Any) -> Any:
            return dict(values)

    found = []
    for ranks in (1024, 64, 8):  # the largest last: a process keeps the most it ever had
        forml = fw.FORML(torch.nn.Linear(2, 2), 1, process_group=None)
        group: Any = None
        before = _resident()
        forml.num_samples = number
        forml._shard = Shard(number, Simulated(group, 3, ranks, torch.device("cpu")))
        forml._own = torch.zeros(len(forml._shard))
        forml._own += 0.0  # touched: memory that nobody wrote to is not there
        held = _resident() - before
        seconds = []
        for step in range(repeats + 10):
            drawn = torch.randint(number, (batch,), generator=torch.Generator().manual_seed(step))
            samples = fw.Batch(drawn, drawn, None, drawn)
            gradient = torch.randn(batch) / batch
            began = time.process_time()
            forml._move(samples, gradient, forml._batch_scores(samples), 0.1)
            forml._batch_scores(samples)
            seconds += [time.process_time() - began] if step >= 10 else []
        low, middle, high = statistics.quantiles(seconds, n=4)
        found.append({
            "ranks": ranks, "scores": len(forml._own), "memory_mb": held / 1e6, "median_ms": 1e3 * middle,
            "quartiles_ms": [1e3 * low, 1e3 * high], "n": repeats, "batch": batch,
        })  # fmt: skip
        del forml
    return found


def _resident() -> int:
    """Bytes that this process holds now, or where the system does not say, has held at most."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measured_steps(device: str = "cuda", repeats: int = 20, *, small: bool = False) -> dict[str, dict[str, Any]]:
    """Plain and FORML steps, not compiled, bfloat16; small: the same by tiny networks."""
    import torch
    from per_layer_models import ResNet50, encoder

    import fairweight as fw

    cases: dict[str, tuple[Any, Any, int, int, int]] = {
        "ResNet-50": (lambda: ResNet50(), lambda n: torch.randn(n, 3, 224, 224, device=device), 1000, 128, 32),
        "transformer of 1B": (
            lambda: encoder(2048, 20), lambda n: torch.randint(1, 32_000, (n, 512), device=device), 2, 16, 8,
        ),
    }  # fmt: skip
    if small:
        cases = {
            "ResNet-50": (lambda: ResNet50(4), lambda n: torch.randn(n, 3, 32, 32, device=device), 1000, 4, 4),
            "transformer of 1B": (
                lambda: encoder(32, 2),
                lambda n: torch.randint(1, 99, (n, 8), device=device),
                2,
                4,
                4,
            ),
        }
    found = {}
    for name, (make, draw, classes, batch, exemplars) in cases.items():
        torch.manual_seed(0)
        model = make().to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        train, held = (
            fw.Batch(draw(n), torch.randint(classes, (n,), device=device), torch.arange(n, device=device) % 2,
                     torch.arange(n, device=device)) for n in (batch, exemplars)
        )  # fmt: skip
        times = {}
        for way, method in (("plain", fw.Uniform(model, batch)), ("forml", fw.FORML(model, batch, agreement_every=0))):
            seconds = []
            for step in range(repeats + 4):
                began = time.perf_counter()
                with torch.autocast(torch.device(device).type, dtype=torch.bfloat16):
                    method.step(train, held, optimizer)
                if device.startswith("cuda"):
                    torch.cuda.synchronize()
                if step >= 4:
                    seconds.append(time.perf_counter() - began)
            times[way] = [1e3 * s for s in statistics.quantiles(seconds, n=4)]
        found[name] = {
            "parameters": sum(p.numel() for p in model.parameters()), "batch": batch, "exemplars": exemplars,
            "plain_ms": times["plain"][1], "forml_ms": times["forml"][1], "quartiles_ms": times, "n": repeats,
            "from": f"measured, not compiled, bfloat16, {torch.cuda.get_device_name() if device != 'cpu' else 'CPU'}, "
            f"torch {torch.__version__}",
        }  # fmt: skip
        del model, optimizer, method
    return found


def record(scores: list[dict[str, Any]], steps: dict[str, dict[str, Any]] | None) -> dict[str, Any]:
    """All of it, as it is kept."""
    from newest_record import newest

    from fairweight.runs.provenance import provenance

    links, source = Links(), None
    if steps is None:
        source, found = newest(ROOT / "records", "per_layer_h200")
        steps = extrapolated(found)
    return {
        "kind": "scaling", "name": "scaling", "links": asdict(links), "steps": steps, "steps_from": source,
        "rows": rows(steps, links), "scores": scores, "command": "python benchmarks/scaling.py", **provenance(),
    }  # fmt: skip


def main(said: list[str]) -> None:
    what, *files = said
    if what in ("steps", "scores"):
        made: Any = measured_steps() if what == "steps" else measured_scores()
        Path(files[0]).write_text(json.dumps(made, indent=1))
        return
    from fairweight.paper.records import keep

    scores, *steps = (json.loads(Path(file).read_text()) for file in files)
    print(keep(record(scores, steps[0] if steps else None), ROOT / "records"))


if __name__ == "__main__":
    main(sys.argv[1:])
