"""How far a gap on wrong labels is from the one on true labels, and on labels mended beside trusted exemplars.

The predictions are those of models that were not trained on the row; the gap is that of the true positive rates of the
two largest groups, in points. `fairweight train` judges its candidates on such rows.

    python benchmarks/mended_gap.py --data-dir FOLDER --out runs/mended_gap
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from arena import Array, prepared_for, wrong_of
from arena_data import PART, make
from arena_tasks import carry_out, parser_of

from fairweight.apps.deliver import mended_labels
from fairweight.paper.records import keep
from fairweight.runs.held_out import PARTS, held_out_parts
from fairweight.runs.statistics import Mean, paired

TABLES, NOISES = ("adult", "bank", "credit"), ("group", "majority", "minority", "uniform10", "uniform20")


def gap(labels: Array, groups: Array, said: Array) -> float:
    """Difference of the true positive rates, with its sign."""
    first, second = np.bincount(groups).argsort()[::-1][:2]
    rates = [100 * float((said[(groups == g) & (labels == 1)] == 1).mean()) for g in (first, second)]
    return rates[0] - rates[1]


def job(task: dict[str, Any], out: str, data_dir: str) -> dict[str, Any]:
    made = make(task["name"], task["noise"], task["seed"], data_dir)
    dataset = prepared_for(made, Path(out) / f"{task['name']}.csv", task["seed"], "uniform").dataset
    opinion = held_out_parts(dataset, {"options": {"split": {"column": PART}}})[PARTS[0]][1].numpy()
    given, groups, said = dataset.train.labels.numpy(), dataset.train.groups.numpy(), opinion.argmax(axis=1)
    true, (mended, notes) = np.where(wrong_of(dataset, made), 1 - given, given), mended_labels(dataset, 0)
    labels = {"true": true, "given": given, "mended": given if mended is None else mended}
    found = {name: {"gap": gap(y, groups, said), "accuracy": 100 * float((y == said).mean())}
             for name, y in labels.items()}  # fmt: skip
    return {**found, "note": notes}


def rows_of(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each kind of noise: how far given and mended labels are from the true ones, over sets and seeds."""
    rows = []
    for noise in NOISES:
        found = {
            str(1000 * TABLES.index(task["name"]) + task["seed"]): found  # a number for each set and seed
            for task, found in ((entry["task"], entry["found"]) for entry in entries)
            if task["noise"] == noise
        }
        off = {
            f"{number} by {way} labels": {k: abs(v[way][number] - v["true"][number]) for k, v in found.items()}
            for number in ("gap", "accuracy")
            for way in ("given", "mended")
        }
        means = {name: Mean.of(list(values.values())).to_dict() for name, values in off.items()}
        change = {n: paired(off[f"{n} by mended labels"], off[f"{n} by given labels"]) for n in ("gap", "accuracy")}
        rows.append({"noise": noise, "off": means, "change": change, "seeds": found})
    return rows


def main() -> None:
    parser = parser_of(__doc__, "runs/mended_gap")
    parser.add_argument("--records", type=Path)
    asked = parser.parse_args()
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    tasks = [{"name": t, "noise": noise, "seed": seed} for seed in seeds for noise in NOISES for t in TABLES]
    carry_out(job, tasks, asked)
    if asked.records is not None:
        kept = json.loads((Path(asked.out) / "found.json").read_text())
        about = {"kind": "mended-gap", "name": "mended_gap", "setting": "600 exemplars drawn evenly, 6,000 train rows"}
        command = "python benchmarks/mended_gap.py"
        print(keep({**about, "rows": rows_of(kept["entries"]), **kept["about"], "command": command}, asked.records))


if __name__ == "__main__":
    main()
