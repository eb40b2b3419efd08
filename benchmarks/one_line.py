"""Each real set by one line at full size: what `fairweight train NAME` takes and ends with.

    python benchmarks/one_line.py --data FOLDER --out FOLDER [--device cuda] [adult compas mnist fairface]

Runs that are finished in --out are taken as they are; the record of the day keeps the sets that it has already.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from fairweight.runs.provenance import provenance

ROOT = Path(__file__).resolve().parents[1]
WORDS = {
    "adult": ["--label", "income", "--group", "sex"],
    "compas": ["--group-in-inputs"],
    "fairface": ["--label", "gender", "--group", "race"],
    "mnist": ["--corrupt", "one-class:label=2,fraction=0.2"],
}
NUMBERS = ("accuracy", "tprd", "max_fnr")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("names", nargs="*", help=f"Of: {', '.join(WORDS)}; default: all.")
    words.add_argument("--data", required=True, help="Folders with the sets, as in FAIRWEIGHT_DATA.")
    words.add_argument("--out", type=Path, required=True)
    words.add_argument("--device", default="auto")
    given = words.parse_args()
    path, rows = None, {}
    for name in given.names or list(WORDS):
        command = ["train", name, *WORDS[name], "--device", given.device]
        started = time.monotonic()
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "fairweight", *command, "--out", str(given.out / name), "--json"],
            env={**os.environ, "FAIRWEIGHT_DATA": given.data}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        seconds = time.monotonic() - started
        found = json.loads(done.stdout)
        training = [found["metrics"]["run"]["seconds"], found["baseline"]["metrics"]["run"]["seconds"]]
        rows[name] = {
            "command": " ".join(["fairweight", *command]),
            "wall_seconds": None if found["reused"] else round(seconds, 1),
            "training_seconds": {"method": round(training[0], 1), "uniform": round(training[1], 1)},
            "n": found["metrics"]["n"],
            "method": {key: found["metrics"][key] for key in NUMBERS},
            "uniform": {key: found["baseline"]["metrics"][key] for key in NUMBERS},
            "differences": found["differences"]["numbers"],
            "sentence": found["differences"]["sentence"],
            "device": json.loads((given.out / name / "run.json").read_text())["device"],
        }
        print(f"{name}: {rows[name]['sentence']}", flush=True)
        origin = {**provenance(), "command": "python benchmarks/one_line.py --data FOLDER --out FOLDER"}
        path = ROOT / "records" / f"{origin['date'][:10]}_one_line" / "record.json"
        before = json.loads(path.read_text())["rows"] if path.is_file() else {}
        path.parent.mkdir(parents=True, exist_ok=True)
        record = {"kind": "one line", "name": "one_line", **origin, "rows": {**before, **rows}}
        path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
