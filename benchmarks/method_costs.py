"""What each method of a comparison costs, in processor time: put into its record in place of the time on the clock.

A comparison that shares its cores with other work says little by the clock. Here each row's Spec is trained again for
a few epochs on one thread, every method once per round, and the least processor time of an epoch counts; a search
takes that times its trainings.

    OMP_NUM_THREADS=1 python benchmarks/method_costs.py records/DATE_compare-mnist --data FOLDER
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from fairweight.runs.run import run
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import dataset_for
from fairweight.training.callbacks import Observer
from fairweight.training.state import write_atomically

WARM = 1  # epochs that are not counted


class EpochTimes(Observer):
    """Processor time between the ends of epochs."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_epoch(self, epoch: int, summary: dict[str, Any]) -> str | None:
        self.ends.append(time.process_time())
        return None

    @property
    def least(self) -> float:
        counted = self.ends[WARM - 1 :]
        return min(after - before for before, after in itertools.pairwise(counted))


def measured(record: dict[str, Any], data: Path | None, rounds: int, epochs: int) -> dict[str, float]:
    """Each row's cost in multiples of Uniform's."""
    seed = record["seeds"][0]
    least = {row["key"]: math.inf for row in record["rows"]}
    for _ in range(rounds):
        for row in record["rows"]:
            # several epochs, so that what starts later, such as the second part of JTT, is among them
            spec = Spec.from_dict(row["spec"]).with_(seed=seed, search={}, epochs=WARM + epochs, early_stopping={})
            dataset, times = dataset_for(spec, data), EpochTimes()
            with tempfile.TemporaryDirectory() as folder:
                run(spec, Path(folder) / "run", dataset=dataset, observers=[times])
            least[row["key"]] = min(least[row["key"]], times.least)
            print(f"{row['key']:20s} {times.least:.3f} s an epoch", flush=True)
    trainings = {row["key"]: row["beside"].get("trainings", {}).get("mean") or 1 for row in record["rows"]}
    return {key: round(trainings[key] * seconds / least["uniform"], 3) for key, seconds in least.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=Path, nargs="+", help="folders of records of fairweight compare")
    parser.add_argument("--data", type=Path, help="folder of named sets")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for folder in options.record:
        path = folder / "record.json"
        record = json.loads(path.read_text(encoding="utf-8"))
        record["cost"] = measured(record, options.data, options.rounds, options.epochs)
        record["cost_measured"] = (
            f"processor time of an epoch on one thread, the least of {options.rounds * options.epochs}, times the "
            "number of trainings (benchmarks/method_costs.py)"
        )
        write_atomically(path, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())


if __name__ == "__main__":
    main()
