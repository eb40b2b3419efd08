"""How long `fairweight --help` takes, and `import fairweight` once torch is there: a new process each time.

python benchmarks/start_up.py [--repeats 21]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from fairweight.paper.records import keep
from fairweight.runs.provenance import provenance

ROOT = Path(__file__).parents[1]
HELP_MAY_TAKE, IMPORT_MAY_TAKE = 0.5, 0.2  # seconds
BEYOND_TORCH = "import time, torch; t = time.perf_counter(); import fairweight; {}print(time.perf_counter() - t)"
OTHERS = "FairweightClassifier"  # reads scikit-learn, which takes a second of its own
EVERY_NAME = f"[getattr(fairweight, name) for name in fairweight.__all__ if name != '{OTHERS}']; "
TITLES = {
    "help": "`fairweight --help`, the whole process",
    "import": "`import fairweight` after `import torch`",
    "names": f"the same, and every public name asked for but `{OTHERS}`",
}

WORDS = """\
# Start-up

Modules are read when one of their names is first asked for: `--help` reads none of torch, and `import fairweight`
hardly anything, which is why names are asked for too; all but the one that reads scikit-learn. A first process, which
finds nothing in the file cache, is not counted.
"""


def help_takes() -> float:
    """Seconds of the clock for one call of the command."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "fairweight", "--help"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def import_takes(then: str = "") -> float:
    """Seconds for the import, and what is done then, as the process that does it says."""
    command = [sys.executable, "-c", BEYOND_TORCH.format(then)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)  # noqa: S603


def measured(repeats: int) -> dict[str, dict[str, Any]]:
    """In turns; the first of each is not counted."""
    times: dict[str, list[float]] = {key: [] for key in TITLES}
    for _ in range(repeats + 1):
        times["help"].append(help_takes())
        times["import"].append(import_takes())
        times["names"].append(import_takes(EVERY_NAME))
    return {
        key: {
            "median_s": statistics.median(found[1:]),
            "quartiles_s": statistics.quantiles(found[1:], n=4)[::2],
            "n": repeats,
        }
        for key, found in times.items()
    }


def words(record: dict[str, Any]) -> list[str]:
    """One record, for the page."""
    lines = ["| | seconds: median (quartiles) | n |", "|---|---|---|"]
    for key, row in record["rows"].items():
        low, high = row["quartiles_s"]
        lines.append(f"| {TITLES[key]} | {row['median_s']:.3f} ({low:.3f} to {high:.3f}) | {row['n']} |")
    told = f"`{record['command']}`; {record['device']}; torch {record['versions']['torch']}; commit {record['commit']}."
    return [WORDS, "\n".join(lines) + "\n", f"{told}\n"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--records", type=Path, default=ROOT / "records")
    asked = parser.parse_args()
    made = {"kind": "start up", "name": "start_up", "rows": measured(asked.repeats), **provenance("cpu")}
    made["command"] = f"python benchmarks/start_up.py --repeats {asked.repeats}"
    print(f"Record: {keep(made, asked.records)}")


if __name__ == "__main__":
    main()
