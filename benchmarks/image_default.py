"""Whether the default for images harms clean data: Uniform, the default of 0.1 and scores that heed agreement.

The rule, written before any of these runs: `AdaptiveStep(heed=1)`, which the study `class_fairness` chose on
validation rows of a small CIFAR-10, becomes the default for images if it costs no more than 0.1 points of accuracy
beyond noise beside Uniform on the same rows on CIFAR-100 and FairFace, and MNIST with wrong labels stays as good.
`heed=2` is shown beside it and cannot be chosen. Seeds took part in no earlier study.

    python benchmarks/image_default.py run --data-dir FOLDER --out POOL --device cuda --jobs 6
    python benchmarks/image_default.py record --out POOL
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from fairweight.paper.plan import planned
from fairweight.paper.records import keep
from fairweight.runs.folder import RUN, RunFolder
from fairweight.runs.pool import run_each
from fairweight.runs.provenance import of_runs, provenance
from fairweight.runs.spec import Spec
from fairweight.runs.statistics import Mean, numbers_of

ROOT = Path(__file__).parent.parent
SEEDS = (20, 21, 22, 23, 24)
MEASURES = ("tprd", "accuracy")
HEEDED = {"heeding": 1.0, "heeding twice": 2.0}
SETS = {  # a table's name, its size, the row of Uniform on the same rows and of 0.1's default
    "fairface gender": ("fairface", "paper", "gender-uniform", "gender-forml-default"),
    "fairface age": ("fairface", "paper", "age-uniform", "age-forml-default"),
    "cifar100": ("cifar100", "short", "uniform-same", "forml-default"),
}


def specs(name: str, seed: int) -> Iterator[tuple[str, Spec]]:
    """By title, the runs of one set and seed."""
    table, size, plain, default = SETS[name]
    rows = {row.key: row for row in planned(table, size=size).all_rows}
    yield "uniform", rows[plain].spec_for(seed)
    made = rows[default].spec_for(seed)
    yield "default of 0.1", made
    for title, heed in HEEDED.items():
        step = {"name": "adaptive", **made.method_options.get("score_step", {}), "heed": heed}
        yield title, made.with_(method_options={**made.method_options, "score_step": step, "agreement_every": 20})


def run(asked: argparse.Namespace) -> None:
    wanted = [spec for seed in SEEDS for name in asked.sets for t, spec in specs(name, seed) if t in asked.titles]
    options = {"device": asked.device, "jobs": asked.jobs, "data_dir": asked.data_dir}
    with closing(run_each(wanted, asked.out, **options)) as outcomes:
        for outcome in outcomes:
            print(outcome.spec.folder_name, outcome.error or "done", flush=True)


def record(asked: argparse.Namespace) -> None:
    """What is finished, as a record."""
    rows: list[dict[str, Any]] = []
    folders = []
    for name in SETS:
        seeds: dict[str, dict[int, dict[str, float]]] = {}
        for seed in SEEDS:
            for title, spec in specs(name, seed):
                folder = RunFolder(asked.out / spec.folder_name)
                if folder.finished:
                    folders.append(folder)
                    numbers = numbers_of(folder)
                    seeds.setdefault(title, {})[seed] = {measure: numbers[measure] for measure in MEASURES}
        for title, found in seeds.items():
            both = sorted(set(found) & set(seeds.get("uniform", {})))
            beside = {m: Mean.of([found[s][m] - seeds["uniform"][s][m] for s in both]).to_dict() for m in MEASURES}
            means = {m: Mean.of([found[s][m] for s in found]).to_dict() for m in MEASURES}
            rows.append({"set": name, "name": title, "n": len(found), "means": means, "beside": beside, "seeds": found})
    made = {
        "kind": "image default",
        "name": "image_default",
        "rows": rows,
        **provenance(),
        "command": "python benchmarks/image_default.py run --data-dir FOLDER --out POOL --device cuda --jobs 6",
        **of_runs(folder.read(RUN) for folder in folders),
    }
    if asked.json:
        asked.json.write_text(json.dumps(made, indent=1))
    else:
        print(f"Record: {keep(made, asked.records)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "record"))
    parser.add_argument("--sets", nargs="*", choices=tuple(SETS), default=list(SETS))
    parser.add_argument("--titles", nargs="*", default=["uniform", "heeding", "default of 0.1", "heeding twice"])
    parser.add_argument("--data-dir")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "image_default")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--records", type=Path, default=ROOT / "records")
    parser.add_argument("--json", type=Path, help="Write the record there instead.")
    asked = parser.parse_args()
    {"run": run, "record": record}[asked.what](asked)


if __name__ == "__main__":
    main()
