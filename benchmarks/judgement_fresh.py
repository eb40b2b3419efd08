"""What `fairweight train` hands over on fresh seeds, beside its own plain model: a record of finished searches.

    python benchmarks/judgement_study.py --data FOLDER --plan ours --out ours.json
    python benchmarks/judgement_fresh.py ours.json --device TEXT

No peer takes part; the record `judgement` has them.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairweight.paper.records import keep
from fairweight.runs.provenance import all_versions, provenance
from fairweight.runs.statistics import Mean

ROOT = Path(__file__).parents[1]


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of one set, or of all: in points, changes on test from plain training by the same search."""
    before, after = ([100 * run["verdict"][f"gap_{when}"]["value"] for run in runs] for when in ("before", "after"))
    gap = [b - a for a, b in zip(before, after, strict=True)]
    accuracy = [100 * (run["verdict"]["accuracy_after"] - run["verdict"]["accuracy_before"]) for run in runs]
    both = zip(gap, accuracy, strict=True)
    return {
        "n": len(runs),
        "seeds": sorted({run["seed"] for run in runs}),
        "left_plain": sum(not run["verdict"]["chosen"].startswith("plain") for run in runs),
        "gap_before": Mean.of(before).to_dict(),
        "gap": Mean.of(gap).to_dict(),
        "accuracy": Mean.of(accuracy).to_dict(),
        "gap_larger": sum(g > 0 for g in gap),
        "worse_in_both": sum(g > 0 > a for g, a in both),
        "chosen": dict(Counter(run["verdict"]["chosen"] for run in runs).most_common()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--device", help="What the runs were made on, where that was not this machine.")
    parser.add_argument("--records", type=Path, default=ROOT / "records")
    asked = parser.parse_args()
    every = [run for file in asked.files for run in json.loads(file.read_text()) if run["method"] == "ours"]
    origin = provenance()
    record = {
        "kind": "judgement fresh",
        "name": "judgement_fresh",
        **origin,
        "device": asked.device or origin["device"],
        "commits": sorted({run["commit"] for run in every}),
        "versions": {**origin["versions"], **all_versions(run["versions"] for run in every)},
        "command": "python benchmarks/judgement_study.py --data FOLDER --plan ours --out ours.json",
        "rows_to_learn_from": sorted({run["rows"] for run in every}),
        "sets": {
            name: summary([r for r in every if r["set"] == name]) for name in dict.fromkeys(r["set"] for r in every)
        },
        "all": summary(every),
        "runs": [{key: run[key] for key in ("set", "seed", "verdict", "seconds", "cpu_seconds")} for run in every],
    }
    print(f"Record: {keep(record, asked.records)}")


if __name__ == "__main__":
    main()
