"""Adult by one process and by two under torchrun: the same table.

FAIRWEIGHT_DATA=... python benchmarks/torchrun_adult.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fairweight.paper.records import keep
from fairweight.runs.provenance import provenance

ROOT = Path(__file__).parents[1]
ARGUMENTS = "train adult --method forml --epochs 3 --no-baseline --seed 0"
SHOWN = (
    "n",
    "accuracy",
    "balanced_accuracy",
    "worst_group_accuracy",
    "tprd",
    "max_fnr",
    "selection_rate_gap",
    "groups",
)


def trained(processes: int, folder: Path) -> dict[str, Any]:
    """The metrics of a run, its scores and the lines of its log."""
    import pandas as pd

    many = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)] if processes > 1 else []
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *many, "-m", "fairweight", *ARGUMENTS.split(), "--out", str(folder), "--json"]
    printed = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout  # noqa: S603
    json.loads(printed)  # one object: one process speaks
    metrics = json.loads((folder / "metrics.json").read_text())
    events = [json.loads(line)["event"] for line in (folder / "log.jsonl").read_text().splitlines()]
    return {"metrics": metrics, "scores": pd.read_parquet(folder / "weights.parquet")["score"], "events": events}


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        one, two = (trained(k, Path(scratch, str(k))) for k in (1, 2))
    table = {name: one["metrics"][name] for name in SHOWN}
    record = {
        "kind": "torchrun adult", "name": "torchrun_adult", "processes": [1, 2], "numbers": table,
        "same_table": all(one["metrics"][name] == two["metrics"][name] for name in SHOWN),
        "same_log_events": one["events"] == two["events"],
        "largest_score_difference": float((one["scores"] - two["scores"]).abs().max()),
        "score_std": float(one["scores"].std()), "precision": "float32",
        **provenance(), "command": f"torchrun --nproc-per-node 2 -m fairweight {ARGUMENTS}",
    }  # fmt: skip
    print(keep(record, ROOT / "records"))


if __name__ == "__main__":
    main()
