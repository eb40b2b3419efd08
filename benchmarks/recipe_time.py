"""How long the 200 epochs of CIFAR-10 take, from the logs of the runs themselves.

python benchmarks/recipe_time.py --device NAME --commit SHA uniform=LOG forml=LOG forml-default=LOG:25

Names are those of the table's rows; a log is a run's log.jsonl. A number after it says how many of its first epochs
had the device to themselves; what the rest would have taken is then counted at their median.
"""

from __future__ import annotations

import argparse
import json
import statistics
from itertools import pairwise
from pathlib import Path
from typing import Any

from fairweight.paper.records import keep
from fairweight.runs.provenance import provenance

MINUTES = {"uniform": 5, "forml": 13, "forml-default": 13}  # at most so many are asked for

RECIPE = """\
# 200 epochs of CIFAR-10

ResNet-18, batch 128, bfloat16, data on the device, histories kept and a checkpoint written after every epoch, as
`fairweight reproduce cifar10 --rows uniform,forml,forml-default` runs it. The first epoch compiles. FORML is exact, as
printed with 30 exemplars a step, as the product has it with 100; it trains on the 45,000 samples that its exemplars
leave, Uniform on all 50,000.
"""


def timed(log: Path, alone: int | None) -> dict[str, Any]:
    """Seconds of a run: its first epoch, the median of the others, and all of them."""
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    start = next(line for line in lines if line["event"] == "start")
    at = [line["seconds"] for line in lines if line["event"] == "epoch"][:alone]
    each = [after - before for before, after in pairwise(at)]
    whole = len(at) == start["epochs"]
    total = at[-1] if whole else at[0] + (start["epochs"] - 1) * statistics.median(each)
    return {
        "epochs": start["epochs"],
        "measured": len(at),
        "samples": start["num_samples"],
        "first_epoch_s": at[0],
        "epoch_s": {"median": statistics.median(each), "quartiles": statistics.quantiles(each, n=4)[::2]},
        "total_s": total,
    }


def words(record: dict[str, Any]) -> list[str]:
    """One record, for the page."""
    lines = [
        "| | first epoch, s | an epoch, s | epochs measured | 200 epochs, minutes | asked for |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in record["rows"].items():
        low, high = row["epoch_s"]["quartiles"]
        each = f"{row['epoch_s']['median']:.2f} ({low:.2f} to {high:.2f})"
        total = f"{row['total_s'] / 60:.1f}" + ("" if row["measured"] == row["epochs"] else ", counted up")
        most = f"at most {MINUTES[name]}"
        lines.append(f"| {name} | {row['first_epoch_s']:.1f} | {each} | {row['measured']} | {total} | {most} |")
    told = f"{record['device']}; n = 1 run each, median (quartiles) over epochs; commit {record['commit']}."
    told += f" {record['remark']}\n" if record.get("remark") else "\n"
    return [RECIPE, "\n".join(lines) + "\n", told]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", metavar="NAME=LOG[:EPOCHS]")
    parser.add_argument("--device", required=True, help="what they ran on")
    parser.add_argument("--commit", required=True, help="and of which commit")
    parser.add_argument("--remark", default="", help="what a reader must know beside it")
    parser.add_argument("--records", default="records")
    asked = parser.parse_args()
    rows = {}
    for entry in asked.logs:
        name, _, rest = entry.partition("=")
        path, _, alone = rest.partition(":")
        rows[name] = timed(Path(path), int(alone) if alone else None)
    about = {"device": asked.device, "commit": asked.commit, "remark": asked.remark, "date": provenance("cpu")["date"]}
    print(f"Record: {keep({'kind': 'recipe time', 'name': 'recipe_time', 'rows': rows, **about}, asked.records)}")


if __name__ == "__main__":
    main()
