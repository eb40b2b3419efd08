"""LB on MNIST with a fifth of the labels set to 2, in the setting of its authors' notebook: a training per multiplier.

784-512-512-512-10, weights from a truncated normal of sd 0.1, biases 0.1, Adam 1e-3, 10,000 steps of batch 50 drawn
with replacement in proportion to the weights, loss −log(p + 1e-6), predicted rate of label 2 on train to be 0.1, all
60,000 samples, re-initialised for every multiplier. The state is kept after each training: a run that was stopped goes
on. --rate 3 moves the multiplier three times as far per training: by 1 it is still on its way after 15.

    python benchmarks/label_bias_mnist.py --data FOLDER --out FOLDER --device cuda --seeds 0 1 2 3 4
    python benchmarks/label_bias_mnist.py --merge FOLDER FOLDER --out records/DATE_label_bias_mnist

--merge adds the seeds of those folders to the record at --out and compares with the notebook's log (see
label_bias_record.py for the test).
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from label_bias_record import FILE, lines, merge, one_run
from torch import Tensor, nn

from fairweight.errors import FairweightError
from fairweight.fast.cuda_graph import CapturedStep
from fairweight.methods.label_bias import LabelBias
from fairweight.runs.provenance import provenance
from fairweight.runs.search import Candidate, Finished, drive
from fairweight.runs.search.multiplier import MultiplierSearch
from fairweight.sampling import generator
from fairweight.training.state import write_atomically
from fairweight.types import Batch

BIASED = 2  # the label that a fifth of the samples were given
TARGET = 0.1  # its share among the true labels, known to the notebook
NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def idx(path: Path) -> np.ndarray:
    packed = path.with_name(f"{path.name}.gz")
    raw = path.read_bytes() if path.exists() else gzip.decompress(packed.read_bytes())
    start = 4 + 4 * raw[3]
    shape = [int.from_bytes(raw[4 + 4 * k : 8 + 4 * k], "big") for k in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)


def mnist(folder: Path, device: torch.device) -> tuple[Batch, Batch, Tensor]:
    """Train with corrupted labels, test, and the true labels of train; resident on the device."""
    x, y, x_test, y_test = (idx(folder / name) for name in NAMES)
    chosen = np.random.RandomState(12345).choice(len(y), len(y) // 5, replace=False)  # as the notebook does
    labels = y.copy()
    labels[chosen] = BIASED

    def made(images: np.ndarray, classes: np.ndarray) -> Batch:
        flat = torch.from_numpy(images.reshape(len(images), -1).astype(np.float32) / 255)
        return Batch(flat.to(device), torch.from_numpy(classes.astype(np.int64)).to(device))

    return made(x, labels), made(x_test, y_test), torch.from_numpy(y.astype(np.int64)).to(device)


def network(layers: int, width: int, seed: int, device: torch.device) -> nn.Module:
    stream = generator("label-bias-net", seed)
    widths = [784] + [width] * layers + [10]
    parts: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layer = nn.Linear(inputs, outputs)
        nn.init.trunc_normal_(layer.weight, std=0.1, a=-0.2, b=0.2, generator=stream)  # cut at 2 sd
        nn.init.constant_(layer.bias, 0.1)
        parts += [layer, nn.ReLU()]
    return nn.Sequential(*parts[:-1]).to(device)


def notebook_loss(logits: Tensor, labels: Tensor) -> Tensor:
    p = torch.softmax(logits, dim=1).gather(1, labels[:, None]).squeeze(1)
    return -(p + 1e-6).log()  # [B]


def predictions(model: nn.Module, samples: Batch) -> Tensor:
    with torch.no_grad():
        return torch.cat([model(part).argmax(dim=1) for part in samples.inputs.split(10_000)])


def recalls(said: Tensor, labels: Tensor) -> Tensor:
    return torch.stack([(said[labels == k] == k).float().mean() for k in range(10)])


def train_once(
    candidate: Candidate, data: tuple[Batch, Batch, Tensor], options: argparse.Namespace, run_seed: int
) -> dict[str, Any]:
    """One training at fixed multipliers; what the search and the record want to know of it."""
    train, test, _ = data
    began = time.monotonic()
    device = train.labels.device
    seed = 1000 * run_seed + candidate.number  # re-initialised and redrawn every time
    model = network(options.layers, options.width, seed, device)
    method = LabelBias(
        model,
        len(train),
        constraint="rate",
        target={BIASED: TARGET},
        through="sampling",
        online=False,
        loss=notebook_loss,
        **candidate.options,
    )
    method.begin(train)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=device.type == "cuda")
    captured = CapturedStep(method, optimizer) if device.type == "cuda" and options.graph else None
    weights = method.sampling_weights().double().cpu()
    size = options.steps * options.batch_size
    rows = torch.multinomial(weights, size, replacement=True, generator=generator("label-bias-draws", seed)).to(device)
    trace = []
    for step in range(options.steps):
        batch = train.take(rows[step * options.batch_size : (step + 1) * options.batch_size])
        if captured is not None:
            captured(batch, None)
        else:
            method.step(batch, None, optimizer, check=step == 0)
        if (step + 1) % options.look_every == 0 or step + 1 == options.steps:
            accuracy = float((predictions(model, test) == test.labels).float().mean())
            trace.append([step + 1, round(100 * accuracy, 3)])
    said = predictions(model, train)
    by_class = recalls(predictions(model, test), test.labels)
    multipliers = method.multipliers
    return {
        "violation": method.violation(train, said).tolist(),
        "multiplier": float(multipliers[BIASED]),
        "mass": float(weights[train.labels.cpu() == BIASED].sum() / weights.sum()),
        "predicted_rate": float((said == BIASED).float().mean()),
        "test_accuracy": trace[-1][1],
        "test_tprd": round(100 * float(by_class.max() - by_class.min()), 3),
        "test_max_fnr": round(100 * float(1 - by_class.min()), 3),
        "trace": trace,  # [step, test accuracy]
        "seconds": round(time.monotonic() - began, 1),
        "captured": captured is not None and captured.refusal is None,
    }


def run_seed(
    seed: int, data: tuple[Batch, Batch, Tensor], options: argparse.Namespace, settings: dict[str, Any]
) -> list[dict[str, Any]]:
    """All trainings of one seed; goes on from its state in the folder."""

    def tell(finished: Finished, done: int, total: int) -> None:
        r = finished.result
        print(
            f"seed {seed}  {done}/{total}  λ {r['multiplier']:+.5f}  mass {r['mass']:.5f}  predicted "
            f"{r['predicted_rate']:.4f}  test {r['test_accuracy']:.2f}  {r['seconds']:.0f} s",
            flush=True,
        )

    # one state per setting: a shorter try-out is never continued as the real thing
    name = "search_" + "_".join(f"{key}{value}" for key, value in {**settings, "seed": seed}.items()) + ".json"
    search = MultiplierSearch(options.iterations, rate=options.rate)
    torch.manual_seed(seed)
    drive(search, lambda c: train_once(c, data, options, seed), options.out / name, report=tell)
    return [dict(f.result) for f in search.finished][: options.iterations]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with the four idx files, packed or not")
    parser.add_argument("--out", type=Path, required=True, help="folder for the states and record.json")
    parser.add_argument("--merge", type=Path, nargs="+", metavar="FOLDER", help="train nothing: one record from these")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--iterations", type=int, default=15)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--layers", type=int, default=3, help="hidden layers: 3 in the notebook, 2 in FORML's text")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--rate", type=float, default=1.0, help="how far a violation moves the multiplier")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--look-every", type=int, default=1000)
    parser.add_argument("--graph", action=argparse.BooleanOptionalAction, default=True, help="CUDA graph on a GPU")
    options = parser.parse_args()
    if options.merge:
        print("\n".join(lines(merge(options.merge, options.out))))
        return
    if options.data is None:
        parser.error("--data is required to train")
    data = mnist(options.data, torch.device(options.device))
    train, test, true = data
    settings = {k: getattr(options, k) for k in ("steps", "batch_size", "layers", "width", "rate", "look_every")}
    told = {
        "train": len(train),
        "test": len(test),
        "wrong_labels": round(float((train.labels != true).float().mean()), 6),
        "share_of_the_label": round(float((train.labels == BIASED).float().mean()), 6),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    places = {str(options.data), str(options.out)}  # where they lie on this machine tells nobody anything
    words = ["FOLDER" if word in places else word for word in sys.argv[1:]]
    source = {**provenance(options.device), "command": " ".join(["python benchmarks/label_bias_mnist.py", *words])}
    seeds: dict[int, list[dict[str, Any]]] = {}
    for seed in options.seeds:
        seeds[seed] = run_seed(seed, data, options, settings)
        record = one_run(settings, seeds, told, source)
        write_atomically(options.out / FILE, (json.dumps(record, indent=1) + "\n").encode())
        accuracies = [r["test_accuracy"] for r in seeds[seed]]
        print(
            f"seed {seed}: unweighted {accuracies[0]:.2f}, last {accuracies[-1]:.2f}; {options.out / FILE}", flush=True
        )


if __name__ == "__main__":
    try:
        main()
    except FairweightError as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from error
