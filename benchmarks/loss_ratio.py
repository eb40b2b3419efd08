"""Which reading of the paper's loss ratio gives the printed 2.9 for Uniform, and which the printed 2.61 for FORML.

The appendix averages each sample's loss over the epochs (EMA) and divides the mean of the samples with label 2 by that
of the others: 2.9 for Uniform, 2.61 for FORML, on MNIST with a fifth of the labels set to 2. It does not say the decay,
the epoch, whether the loss is weighted, or which samples. Runs: the rows Uniform and FORML of the table mnist, every
epoch's loss of every sample kept, so that all readings are of the same trainings.

THE RULE, written before the numbers: readings are every combination of
  samples   given: label 2 against others, of train. true: true label 2 against others, of train. wrong: wrong labels
            against right ones, of train. held out: label 2 against others, of the clean held-out samples (no average)
  decay     0 (the last epoch alone), 0.5, 0.9, 0.99, and 1 (the plain mean of the epochs)
  each      plain, or relative: each epoch's losses divided by their mean first
  epoch     1 to 9, or kept: the epoch of the best accuracy on clean or on corrupted held-out samples (early stopping)
A reading gives the printed number if the 95 % interval of its mean over seeds (Student's t) meets 2.85 to 2.95. FORML
by Algorithm 1, its score rate times 1e5 and 3e5 (at 1 its scores do not move), explains 2.61 if its weighted or plain
ratio under the same reading lies, as a share of Uniform's, within 0.87 to 0.93 (0.90 printed).

    python benchmarks/loss_ratio.py --data FOLDER --to FILE.jsonl --seeds 0 1 2 3 4
    python benchmarks/loss_ratio.py --to FILE.jsonl --scale 3e5 --epochs 3 --seeds 0 1 2 --data FOLDER
    python benchmarks/loss_ratio.py --to FILE.jsonl --record
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairweight.paper.plan import planned
from fairweight.paper.records import keep
from fairweight.runs.build import build
from fairweight.runs.provenance import provenance
from fairweight.runs.spec_data import dataset_for
from fairweight.runs.statistics import Mean
from fairweight.training.callbacks import Observer
from fairweight.training.fit import fit
from fairweight.training.history import Dynamics
from fairweight.training.options import FitOptions
from fairweight.training.predict import logits
from fairweight.types import Batch

ROOT = Path(__file__).parents[1]
DECAYS = (0.0, 0.5, 0.9, 0.99, 1.0)
PRINTED = (2.85, 2.95)


class EveryEpoch(Observer):
    """Keeps every sample's loss of each epoch, as met in training, and what the held-out samples say."""

    def __init__(self, dynamics: Dynamics, model: torch.nn.Module, held: Batch, spoiled: Tensor) -> None:
        self.dynamics, self.model, self.held, self.spoiled = dynamics, model, held, spoiled
        self.losses: list[Tensor] = []  # [N] per epoch
        self.weighted: list[Tensor] = []
        self.of_held: list[dict[str, float]] = []

    def on_epoch(self, epoch: int, summary: dict[str, Any]) -> None:
        seen = self.dynamics.table()
        self.losses.append(seen["ema_loss"].clone())  # decay 0: the last visit
        self.weighted.append(seen["ema_weighted_loss"].clone())
        found, labels = logits(self.model, self.held), self.held.labels
        losses = torch.nn.functional.cross_entropy(found, labels, reduction="none")
        said = found.argmax(dim=1)
        self.of_held.append(
            {
                "ratio": float(losses[labels == 2].mean() / losses[labels != 2].mean()),
                "clean": float((said == labels).double().mean()),
                "corrupted": float((said == self.spoiled).double().mean()),
            }
        )


def averaged(losses: Tensor, decay: float) -> Tensor:
    """EMA over epochs, each divided by the weight that it has gathered; decay 1: the plain mean."""  # [E, N] -> [N]
    ages = torch.arange(len(losses) - 1, -1, -1, dtype=torch.float64)
    weights = torch.ones(len(losses), dtype=torch.float64) if decay == 1 else torch.tensor(decay).double() ** ages
    return (weights[:, None] * losses.double()).sum(dim=0) / weights.sum()


def one(seed: int, folder: str, scale: float | None, epochs: int) -> dict[str, Any]:
    """All readings of one training; scale: of FORML's score rate, None: Uniform."""
    torch.set_num_threads(1)
    started = time.process_time()
    options = {"selection": "last"} | ({} if scale is None else {"scale": f"{scale:g}"})
    rows = {row.key: row for row in planned("mnist", options=options).all_rows}
    spec = rows["uniform" if scale is None else "forml"].spec_for(seed)
    dataset = dataset_for(spec, folder)
    built, train, held = build(spec, dataset, "cpu"), dataset.train, dataset.validation
    assert isinstance(train, Batch)
    assert isinstance(held, Batch)
    assert dataset.true_labels is not None
    spoiled, chance = held.labels.clone(), torch.Generator().manual_seed(seed)
    spoiled[torch.randperm(len(spoiled), generator=chance)[: len(spoiled) // 5]] = 2
    dynamics = Dynamics(len(train), decay=0.0)
    seen = EveryEpoch(dynamics, built.model, held, spoiled)
    fit(
        built.model, built.optimizer, built.reweighter, train, dataset.exemplar, epochs, [seen], dynamics=dynamics,
        options=FitOptions(batch_size=spec.batch_size, per_cell=spec.per_cell, seed=seed),
    )  # fmt: skip
    given, true = train.labels, dataset.true_labels
    samples = {"given": given == 2, "true": true == 2, "wrong": given != true}
    ratios = {}
    losses = {"loss": torch.stack(seen.losses), "weighted": torch.stack(seen.weighted)}
    for name, each, decay, epoch in itertools.product(losses, ("plain", "relative"), DECAYS, range(1, epochs + 1)):
        until = losses[name][:epoch]
        until = until / until.mean(dim=1, keepdim=True) if each == "relative" else until
        mean = averaged(until, decay)
        for whose, those in samples.items():
            ratios[f"{name}, {whose}, {each}, decay {decay:g}, epoch {epoch}"] = float(
                mean[those].mean() / mean[~those].mean()
            )
    for epoch, found in enumerate(seen.of_held, start=1):
        ratios[f"loss, held out, plain, decay 0, epoch {epoch}"] = found["ratio"]
    kept = {by: 1 + max(range(epochs), key=lambda k: seen.of_held[k][by]) for by in ("clean", "corrupted")}
    std = None if built.reweighter.scores is None else float(built.reweighter.scores.std())
    about = {"seed": seed, "scale": scale, "epochs": epochs, "kept": kept, "score_std": std}
    return {**about, "ratios": ratios, "seconds": round(time.process_time() - started, 1), **provenance()}


def interval(values: list[float]) -> dict[str, Any]:
    """Mean over seeds with its 95 % interval."""
    from scipy import stats

    mean = Mean.of(values)
    reach = float(stats.t.ppf(0.975, mean.n - 1)) * mean.error
    return {**mean.to_dict(), "interval": [mean.value - reach, mean.value + reach]}


def record_of(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Means of all readings, those that give the printed number, and FORML's share of Uniform's."""
    uniform = {run["seed"]: run for run in runs if run["scale"] is None}
    readings: dict[str, Any] = {}
    for name in next(iter(uniform.values()))["ratios"]:
        readings[name] = interval([run["ratios"][name] for run in uniform.values()])
        if name.endswith("epoch 9"):
            for by in ("clean", "corrupted"):
                at = [run["ratios"][f"{name[:-1]}{run['kept'][by]}"] for run in uniform.values()]
                readings[f"{name[:-1]}kept by {by} held-out samples"] = interval(at)
    gives = [n for n, r in readings.items() if r["interval"][0] <= PRINTED[1] and r["interval"][1] >= PRINTED[0]]
    shares: dict[str, Any] = {}
    for scale in sorted({run["scale"] for run in runs if run["scale"] is not None}):
        those = [run for run in runs if run["scale"] == scale]
        for name in those[0]["ratios"]:
            pairs = [(run["ratios"][name], uniform[run["seed"]]["ratios"][name]) for run in those]
            shares.setdefault(f"{scale:g}", {})[name] = interval([a / b for a, b in pairs])
    rule = " ".join((__doc__ or "").split("THE RULE, ")[1].split("    python")[0].split())
    return {
        "kind": "loss ratio", "name": "loss_ratio", "date": max(run["date"] for run in runs), "rule": rule,
        "command": "python benchmarks/loss_ratio.py --data FOLDER --to FILE.jsonl", "device": runs[0]["device"],
        "commits": sorted({run["commit"] for run in runs}), "versions": runs[0]["versions"],
        "kept": {str(seed): run["kept"] for seed, run in uniform.items()}, "printed": {"uniform": 2.9, "forml": 2.61},
        "gives": gives, "readings": readings, "shares": shares,
        "runs": [{k: run[k] for k in ("seed", "scale", "epochs", "score_std", "seconds")} for run in runs],
    }  # fmt: skip


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--data")
    words.add_argument("--to", type=Path, required=True, help="finished trainings, one JSON line each")
    words.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    words.add_argument("--scale", type=float)
    words.add_argument("--epochs", type=int, default=9)
    words.add_argument("--record", action="store_true", help="only make the record of what is done")
    asked = words.parse_args()
    done = [json.loads(line) for line in asked.to.read_text().splitlines()] if asked.to.is_file() else []
    if asked.record:
        print(keep(record_of(done), ROOT / "records"))
        return
    for seed in asked.seeds:
        if not any((run["seed"], run["scale"]) == (seed, asked.scale) for run in done):
            with asked.to.open("a") as file:
                file.write(json.dumps(one(seed, asked.data, asked.scale, asked.epochs)) + "\n")
            print(f"seed {seed}", flush=True)


if __name__ == "__main__":
    main()
