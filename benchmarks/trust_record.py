"""Keep what the attacks have found as a record, with how long large and wide tables take to read.

    python benchmarks/trust_record.py faults*.json hostile*.json [--notes found.txt] [--reading-of RECORD]

The files are what fault_injection.py and hostile_input.py write with --out. --notes: a file with a line for each thing
that was found and mended on the way. --reading-of: an earlier record, whose times of reading are taken over.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairweight.paper.records import keep
from fairweight.runs.provenance import provenance

ROOT = Path(__file__).parents[1]


def tables(folder: Path) -> None:
    """A million rows of twelve columns, and two thousand columns of two thousand rows."""
    draw, rows = np.random.default_rng(0), 1_000_000
    columns: dict[str, Any] = {f"x{place}": draw.normal(size=rows).round(4) for place in range(6)}
    columns |= {f"n{place}": draw.integers(0, 1000, rows) for place in range(2)}
    columns |= {
        "colour": draw.choice(["red", "green"], rows),
        "town": draw.choice([f"town {k}" for k in range(40)], rows),
    }
    columns |= {"sex": draw.choice(["F", "M"], rows), "income": draw.choice(["high", "low"], rows)}
    wide: dict[str, Any] = {f"c{place}": draw.normal(size=2000).round(3) for place in range(1998)}
    wide |= {"sex": draw.choice(["F", "M"], 2000), "income": draw.choice(["high", "low"], 2000)}
    pd.DataFrame(columns).to_csv(folder / "long.csv", index=False)
    pd.DataFrame(wide).to_csv(folder / "wide.csv", index=False)


def spent(who: str, path: Path) -> tuple[float, float]:
    """Seconds of the processor and megabytes of memory beyond what was taken before, in a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--one", who, str(path)], capture_output=True, check=True)  # noqa: S603
    seconds, megabytes = json.loads(done.stdout)
    return float(seconds), float(megabytes)


def one(who: str, path: Path) -> None:
    if who == "tables":
        tables(path)
        return
    from fairweight.data import TableOptions, load
    from fairweight.data.table.read import read_frame

    small = path.with_name("small.csv")
    small.write_text("a,b\n1,x\n" * 3)
    acts = {
        "pandas": lambda place: pd.read_csv(place),
        "read": lambda place: read_frame([place], TableOptions(), []),
        "load": lambda place: load(place, label="income", group="sex"),
    }
    if who != "load":
        acts[who](small)  # what is imported on the way
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    acts[who](path)
    took = time.process_time() - started
    print(json.dumps([took, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024]))


def reading(repeats: int = 3) -> dict[str, Any]:
    """CPU seconds and memory of pandas' own reading, of ours, and of everything before training."""
    with tempfile.TemporaryDirectory() as inside:
        # made elsewhere: a process begins with the memory that its parent once had
        subprocess.run([sys.executable, __file__, "--one", "tables", inside], check=True)  # noqa: S603
        paths = {name: Path(inside) / f"{name}.csv" for name in ("long", "wide")}
        asked = (("long", "pandas"), ("long", "read"), ("long", "load"), ("wide", "load"))
        found = {f"{table}, {who}": [spent(who, paths[table]) for _ in range(repeats)] for table, who in asked}
    return {
        name: {
            "cpu_s": statistics.median(seconds for seconds, _ in several),
            "cpu_s_range": [min(s for s, _ in several), max(s for s, _ in several)],
            "memory_mb": statistics.median(size for _, size in several),
            "n": len(several),
        }
        for name, several in found.items()
    }


def _taken_over(record: dict[str, Any]) -> dict[str, Any]:
    return {"measured_at": record["reading"].get("measured_at", record["commit"]), **record["reading"]}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    asked.add_argument("files", nargs="*", type=Path)
    asked.add_argument("--notes", type=Path)
    asked.add_argument("--reading-of", type=Path)
    asked.add_argument("--records", type=Path, default=ROOT / "records")
    asked.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = asked.parse_args()
    if given.one:
        one(given.one[0], Path(given.one[1]))
        return
    measured = reading() if given.reading_of is None else _taken_over(json.loads(given.reading_of.read_text()))
    attacks: dict[str, Any] = {}
    for file in given.files:
        attacks |= json.loads(file.read_text())
    made = {"kind": "trust", "name": "trust", "attacks": attacks, "reading": measured, **provenance("cpu")}
    if given.notes is not None:
        made["found_and_mended"] = given.notes.read_text().splitlines()
    made["command"] = (
        "python benchmarks/fault_injection.py --out faults.json; "
        "python benchmarks/hostile_input.py --out hostile.json; "
        "python benchmarks/trust_record.py faults.json hostile.json"
    )
    print(f"Record: {keep(made, given.records)}")


if __name__ == "__main__":
    main()
