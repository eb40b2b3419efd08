"""Whether weights that were learned while exemplars were held out serve a second training, on all rows.

The data, net and seeds of benchmarks/class_fairness.py: validation alone, no test rows. For each seed: one score per
class at its chosen rate (`tied .003`) on 15,000 rows, 5,000 exemplars held out; then, on all 20,000 rows, Uniform, and
fresh trainings in which each class counts by the SHARE-th power of what was learned. Nothing is chosen here: a share
of 1 is what `fairweight refit` does, the others say which way the trade would go.

    python benchmarks/class_refit.py run --data-dir FOLDER [--seeds 0 1 2 10 11 12 13]
    python benchmarks/class_refit.py record
"""

from __future__ import annotations

import argparse
import functools
import json
import re
from pathlib import Path
from typing import Any

import torch
from class_fairness import MEASURES, ROOT, one_run, spec_for
from class_refit_page import FIRST, WHOLE
from torch import Tensor, nn

from fairweight.apps.refit import with_exemplars_inside
from fairweight.methods.given import Given
from fairweight.paper.records import keep
from fairweight.runs.provenance import provenance
from fairweight.runs.spec_data import dataset_for
from fairweight.runs.statistics import Mean

SEEDS = (0, 1, 2, 10, 11, 12, 13)
SHARES = (0.5, 1.0, 2.0)
TITLES = ("uniform", FIRST, WHOLE, *(f"refit, share {share:g}" for share in SHARES))


def trained(seed: int, data_dir: str) -> dict[str, dict[str, Any]]:
    """By title: what each training of one seed gives on validation."""
    spec = spec_for("cifar10", seed)
    held = dataset_for(spec, data_dir)
    found = {name: one_run(name, spec, held)[name] for name in ("uniform", FIRST)}
    whole = spec.with_(data=with_exemplars_inside(spec.data))
    dataset = dataset_for(whole, data_dir)
    found[WHOLE] = one_run("uniform", whole, dataset)["uniform"]
    by_class = torch.tensor(found[FIRST]["class_weights"])  # [10]
    for title, share in zip(TITLES[3:], SHARES, strict=True):
        each = by_class.pow(share)[dataset.train.labels]  # [N]
        make = functools.partial(_given, each)
        found[title] = one_run(title, whole, dataset, make)[title]
    return found


def _given(each: Tensor, name: str, model: nn.Module, count: int) -> Given:
    return Given(model, count, weights=each)


def run(asked: argparse.Namespace) -> None:
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    known = {row["seed"] for row in rows_of(asked.out)}
    for seed in asked.seeds:
        if seed in known:
            continue
        found = trained(seed, asked.data_dir)
        with asked.out.open("a") as file:
            file.write(json.dumps({"seed": seed, "found": found, **provenance()}) + "\n")
        for title, numbers in found.items():
            print(seed, f"{title:20s}", "  ".join(f"{m} {numbers[m]:.2f}" for m in MEASURES), flush=True)


def rows_of(file: Path) -> list[dict[str, Any]]:
    lines = file.read_text().splitlines() if file.is_file() else []
    return sorted((json.loads(line) for line in lines), key=lambda row: row["seed"])


def compared(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row per title: means, and differences by seed from Uniform on the same rows and on all."""
    made = []
    for title in TITLES:
        means = {m: Mean.of([row["found"][title][m] for row in rows]).to_dict() for m in MEASURES}
        beside = {
            other: {m: Mean.of([r["found"][title][m] - r["found"][other][m] for r in rows]).to_dict() for m in MEASURES}
            for other in ("uniform", WHOLE)
            if other != title
        }
        seeds = {str(row["seed"]): {m: row["found"][title][m] for m in MEASURES} for row in rows}
        made.append({"name": title, "n": len(rows), "means": means, "beside": beside, "seeds": seeds})
    return made


def record(asked: argparse.Namespace) -> None:
    rows = rows_of(asked.out)
    said = [re.sub(r"(--(?:data-dir|out|records)) \S+", r"\1 FOLDER", row["command"]) for row in rows]
    made = {
        "kind": "class refit",
        "name": "class_refit",
        "rows": compared(rows),
        "spec": spec_for("cifar10", 0).to_dict(),
        "wall_seconds": round(sum(f.get("seconds", 0.0) for row in rows for f in row["found"].values()), 1),
        **provenance(),
        "command": "python benchmarks/class_refit.py run --data-dir FOLDER",
        "commands": list(dict.fromkeys(said)),
        "commit": rows[0]["commit"],
        "commits": list(dict.fromkeys(row["commit"] for row in rows)),
        "device": rows[0]["device"],
        "date": max(row["date"] for row in rows),
    }
    print(f"Record: {keep(made, asked.records)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "record"))
    parser.add_argument("--data-dir")
    parser.add_argument("--seeds", type=int, nargs="*", default=list(SEEDS))
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "class_refit.jsonl")
    parser.add_argument("--records", type=Path, default=ROOT / "records")
    asked = parser.parse_args()
    {"run": run, "record": record}[asked.what](asked)


if __name__ == "__main__":
    main()
