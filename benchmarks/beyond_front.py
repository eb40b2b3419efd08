"""Whether scores of single samples go beyond the front that a bias per class draws for free; clean labels.

cifar10: the rows and net of the study `class_fairness` (docs/choices.md): 15,000 rows, 5,000 exemplars held out,
30,000 other training rows that judge. mnist, small enough for one core: 1,200 rows, 1,200 exemplars, 57,600 other
training rows that judge; 784-128-10, 15 epochs, which all but fits its rows. No test rows. Two things that change
what the network learns, not where it cuts:
  recall         FORML, one score per sample, under the mean loss plus a smooth maximum over the classes' missed recalls
                 (m_c = 1 − mean e^−l over the exemplars of class c)
  cross-fitted   five short runs of the same, a quarter of the epochs, each on four fifths of the rows; a row's scores
                 averaged over the runs with it, sharpened 1, 2 or 4 times, then one full training on all rows with
                 those weights fixed. The sharpening is chosen on the exemplars: the most even recalls that cost at
                 most 0.2 points there

THE RULE, written before the first number: seeds 30 to 39. For each, the standard deviation of the recalls on the
judging rows minus that of plain training with a bias per class (fitted on the exemplars, added at 0, 0.25, 0.5 and 1),
interpolated at the same accuracy. Beyond the front: below 0, p < 0.05 by a paired t-test after Holm over the two.
TPRD is told beside it, and the accuracy less that of plain training.

    python benchmarks/beyond_front.py --set mnist --data FOLDER --done FILE.jsonl
    python benchmarks/beyond_front.py --set mnist --done FILE.jsonl --record
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fairweight import FORML, FitOptions, MeanLoss, fit
from fairweight.data import Dataset, Normalize
from fairweight.data.augment import Chain, Flip, Shift
from fairweight.methods import Reweighter
from fairweight.methods.given import Given
from fairweight.methods.score_step import AdaptiveStep
from fairweight.methods.uniform import Uniform
from fairweight.objectives import Objective
from fairweight.paper.moved_decisions import even_recalls
from fairweight.paper.records import keep
from fairweight.runs.build import build, optimizer_for, scheduler_for
from fairweight.runs.provenance import provenance
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import dataset_for
from fairweight.runs.statistics import holm, paired
from fairweight.training.predict import logits
from fairweight.types import Batch

ROOT = Path(__file__).parents[1]
SEEDS = tuple(range(30, 40))
SHARES = (0.25, 0.5, 1.0)  # of the bias per class that evens out recalls on the exemplars: the front to beat
CANDIDATES = ("recall", "cross-fitted")
FOLDS, SHORT, SHARP, BUDGET = 5, 4, (1.0, 2.0, 4.0), 0.2  # a short run has a quarter of the epochs
Make = Callable[[nn.Module, int], Reweighter]


def spec_for(of: str, seed: int) -> Spec:
    """What is trained, whatever the method; a core trains MNIST's in seconds, CIFAR-10's in a minute."""
    shared: dict[str, Any] = {"optimizer": "sgd", "lr": 0.1, "schedule": {"name": "cosine", "warm_up": 2}, "seed": seed}
    if of == "mnist":
        data = {"split": {"validation": 0.96, "test": 0.0}, "exemplar": {"source": "train", "size": 120}}
        return Spec("mnist", data=data, epochs=15, network={"name": "mlp", "hidden": [128]}, batch_size=50, **shared)
    data = {"split": {"validation": 0.6}, "exemplar": {"source": "train", "size": 500}}
    more = {"weight_decay": 5e-4, "autocast": "bfloat16", "augment": True}
    return Spec("cifar10", data=data, epochs=8, **more, **shared)


def model_for(spec: Spec, dataset: Dataset, width: int = 16) -> nn.Module:
    """The Spec's own net; for CIFAR-10, four convolutions with batch norm, strided early."""
    if spec.network:
        return build(spec, dataset, "cpu").model

    def block(inside: int, out: int, stride: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(inside, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU())

    seen, w = dataset.preprocessing, width
    net = nn.Sequential(
        block(3, w, 2), block(w, 2 * w, 2), block(2 * w, 4 * w, 1), block(4 * w, 4 * w, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * w, len(dataset.label_names)),
    )  # fmt: skip
    return nn.Sequential(Normalize(seen.mean, seen.std), net).to(memory_format=torch.channels_last)


def measured(scores: Tensor, labels: Tensor) -> dict[str, Any]:
    """In percent; worst: the lowest recall."""
    said = scores.argmax(dim=1)
    recalls = [100 * float((said[labels == k] == k).double().mean()) for k in range(scores.shape[1])]
    return {
        "accuracy": 100 * float((said == labels).double().mean()),
        "tprd": max(recalls) - min(recalls),
        "recall_std": statistics.pstdev(recalls),
        "worst": min(recalls),
        "recalls": recalls,
    }


class SmoothWorstRecall(Objective):
    """Smooth maximum over classes of 1 − mean e^−l, the share of a class that is missed, softly counted."""

    def __init__(self, sharpness: float = 10.0) -> None:
        self.sharpness = sharpness

    def __call__(self, losses: Tensor, groups: Tensor) -> Tensor:
        there, index = groups.unique(return_inverse=True)
        hit = torch.zeros(len(there), dtype=losses.dtype, device=losses.device).index_add(0, index, (-losses).exp())
        missed = 1 - hit / torch.bincount(index, minlength=len(there))
        return torch.logsumexp(self.sharpness * missed, dim=0) / self.sharpness


def recall(model: nn.Module, count: int) -> FORML:
    objective = MeanLoss() + SmoothWorstRecall()
    return FORML(model, count, objective=objective, score_step=AdaptiveStep(0.1))


def trained(spec: Spec, dataset: Dataset, make: Make) -> tuple[Tensor, Tensor, Reweighter]:
    """Logits on the exemplars and on the judging rows, and the method."""
    torch.manual_seed(spec.seed)
    model = model_for(spec, dataset)
    optimizer = optimizer_for(model, spec, "cpu")
    method = make(model, len(dataset.train))
    fit(
        model, optimizer, method, dataset.train, dataset.exemplar, spec.epochs,
        scheduler=scheduler_for(optimizer, spec), augment=Chain(Flip(), Shift(4)) if spec.augment else None,
        options=FitOptions(
            batch_size=spec.batch_size, per_cell=spec.per_cell, seed=spec.seed,
            autocast=None if spec.autocast is None else getattr(torch, spec.autocast),
        ),
    )  # fmt: skip
    return logits(model, dataset.exemplar), logits(model, dataset.validation), method


def averaged(spec: Spec, dataset: Dataset) -> Tensor:
    """Scores of short runs on four fifths of the rows each, averaged row by row."""  # [N]
    train = dataset.train
    assert isinstance(train, Batch)
    fold = torch.randperm(len(train), generator=torch.Generator().manual_seed(spec.seed)) % FOLDS
    total = torch.zeros(len(train))
    for k in range(FOLDS):
        index = torch.nonzero(fold != k).flatten()
        part = replace(dataset, train=replace(train.take(index), rows=None))
        _, _, method = trained(spec.with_(epochs=max(1, spec.epochs // SHORT), seed=10 * spec.seed + k), part, recall)
        assert method.scores is not None
        total[index] += method.scores - method.scores.mean()
    return total / (FOLDS - 1)


def one(of: str, seed: int, folder: str, epochs: int | None) -> dict[str, Any]:
    """Everything of one seed."""
    torch.set_num_threads(1)
    spec = spec_for(of, seed)
    spec = spec if epochs is None else spec.with_(epochs=epochs)
    dataset = dataset_for(spec, folder)
    held, judged = dataset.exemplar.labels, dataset.validation.labels
    seen, said, _ = trained(spec, dataset, Uniform)
    found = {"uniform": measured(said, judged)}
    bias = even_recalls(seen, held)
    found |= {f"uniform + {share:g} class bias": measured(said + share * bias, judged) for share in SHARES}
    _, by_recall, _ = trained(spec, dataset, recall)
    found["recall"] = measured(by_recall, judged)
    scores, plain = averaged(spec, dataset), measured(seen, held)
    tried = []
    for sharp in SHARP:
        weights = (sharp * scores).exp()
        there, here, _ = trained(spec, dataset, lambda m, n, w=weights: Given(m, n, weights=w))
        tried.append({"sharp": sharp, "exemplar": measured(there, held), "judged": measured(here, judged)})
    allowed = [t for t in tried if t["exemplar"]["accuracy"] >= plain["accuracy"] - BUDGET] or tried[:1]
    chosen = min(allowed, key=lambda t: t["exemplar"]["recall_std"])
    found["cross-fitted"] = {**chosen["judged"], "sharp": chosen["sharp"]}
    return {"seed": seed, "found": found, "tried": tried, **provenance()}


def beside_front(found: dict[str, Any], name: str, key: str) -> float:
    """The candidate's number minus the front's at the candidate's accuracy."""
    names = ["uniform", *(f"uniform + {share:g} class bias" for share in SHARES)]
    accuracies, values = np.array(sorted((found[n]["accuracy"], found[n][key]) for n in names)).T
    return float(found[name][key] - np.interp(found[name]["accuracy"], accuracies, values))


def record_of(of: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What the rule says of the seeds."""
    rows: dict[str, Any] = {}
    for name in CANDIDATES:
        rows[name] = {}
        for key in ("recall_std", "tprd"):
            apart = {str(run["seed"]): beside_front(run["found"], name, key) for run in runs}
            rows[name][key] = paired(apart, dict.fromkeys(apart, 0.0))
        there, plain = ({str(run["seed"]): run["found"][n]["accuracy"] for run in runs} for n in (name, "uniform"))
        rows[name]["accuracy"] = paired(there, plain)
    for name, p in zip(CANDIDATES, holm([rows[name]["recall_std"]["p"] for name in CANDIDATES]), strict=True):
        entry = rows[name]["recall_std"]
        entry["p_holm"] = p
        rows[name]["beyond"] = p is not None and p < 0.05 and entry["mean"] < 0
    about = {key: runs[0][key] for key in ("device", "commit", "versions", "date")}
    rule = " ".join((__doc__ or "").split("THE RULE, ")[1].split("    python")[0].split())
    command = f"python benchmarks/beyond_front.py --set {of} --data FOLDER --done FILE.jsonl"
    return {"kind": "beyond front", "name": f"beyond_front_{of}", "set": of, **about, "command": command, "rule": rule,
            "rows": rows, "runs": [{k: run[k] for k in ("seed", "found", "tried")} for run in runs]}  # fmt: skip


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--set", choices=("cifar10", "mnist"), required=True)
    words.add_argument("--data")
    words.add_argument("--seeds", type=int, nargs="*", default=list(SEEDS))
    words.add_argument("--epochs", type=int)
    words.add_argument("--processes", type=int, default=1)
    words.add_argument(
        "--done", type=Path, required=True, help="finished seeds, one JSON line each: goes on from there"
    )
    words.add_argument("--record", action="store_true", help="only make the record of what is done")
    given = words.parse_args()
    done = [json.loads(line) for line in given.done.read_text().splitlines()] if given.done.is_file() else []
    if given.record:
        made = record_of(given.set, done)
        print(json.dumps(made["rows"], indent=1))
        print(keep(made, ROOT / "records"))
        return
    left = [seed for seed in given.seeds if seed not in {run["seed"] for run in done}]
    with concurrent.futures.ProcessPoolExecutor(given.processes) as pool:
        waiting = [pool.submit(one, given.set, seed, given.data, given.epochs) for seed in left]
        for future in concurrent.futures.as_completed(waiting):
            with given.done.open("a") as file:
                file.write(json.dumps(future.result()) + "\n")
            print(f"seed {future.result()['seed']}", flush=True)


if __name__ == "__main__":
    main()
