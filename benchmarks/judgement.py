r"""What `fairweight train` delivers beside plain models and peers, on the same rows of ten tables.

Every seed draws its own rows: peers learn from all that are not test, ours from the same file, and all are measured on
the same test rows. Finished runs lie in a folder, one JSON file each, and are never repeated.

    python benchmarks/judgement.py --data FOLDER --sets adult --seeds 10                 # one set, one seed
    python benchmarks/judgement.py --data FOLDER --seeds 10 11 12 --methods ours         # all sets, ours alone
    python benchmarks/judgement.py --record                                             # records/<date>_judgement

Peers: pip install lightgbm fairlearn fairret oxonfair. What is not installed is left out, and the record says so. The
sets were settled on seeds 0 and 1 by looking at plain LightGBM's gap; the record begins at seed 10.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import judgement_peers as peers
from judgement_numbers import CRITERIA, counts_of, numbers_of
from judgement_page import table, write_pictures
from judgement_record import record_of, restore
from judgement_sets import ROWS, SETS, Task, sources, task

from fairweight.runs.provenance import commit

ROOT = Path(__file__).resolve().parents[1]


def names_of(asked: list[str]) -> list[str]:
    """Names of methods, where `all`, `peers` and `every-ours` stand for several."""
    own, every = list(peers.OURS), list(peers.METHODS)
    groups = {"all": every, "peers": [name for name in every if name not in own], "every-ours": own}
    return list(dict.fromkeys(name for word in asked for name in groups.get(word, [word])))


def path_of(runs: Path, name: str, seed: int, method: str) -> Path:
    """Where a finished run lies."""
    return runs / name / f"seed{seed}_{method}.json"


def done(path: Path) -> bool:
    """Tell whether a run is there with numbers; one that failed is tried again."""
    return path.is_file() and "failed" not in json.loads(path.read_text())


def origin(found: Task, method: str) -> dict[str, Any]:
    """What a run is of, and where it comes from."""
    return {
        "set": found.name, "seed": found.seed, "method": method, "test_rows": found.test_rows,
        "n_fit": len(found.fit_labels), "commit": commit(), "versions": peers.versions(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }  # fmt: skip


def measure(found: Task, method: str) -> dict[str, Any]:
    """Run one method and measure it on test."""
    about = peers.METHODS[method]
    started, before = time.monotonic(), os.times()
    run = origin(found, method)
    with tempfile.TemporaryDirectory() as folder:
        try:
            said = about.run(found, Path(folder))
        except Exception as error:  # a peer may fail in any way: the record says so, the others go on
            return {**run, "failed": f"{type(error).__name__}: {error}"[:300]}
        verdict = peers.verdict_of(Path(folder)) if method in peers.OURS else {}
    run["seconds"] = round(time.monotonic() - started, 2)
    run["cpu_seconds"] = round(sum(os.times()[:4]) - sum(before[:4]), 2)  # children's too, true on a busy machine
    numbers = numbers_of(counts_of(found.test_labels, said, found.test_groups), found.seed)
    return {**run, **numbers, **({"verdict": verdict} if verdict else {})}


def run_all(given: argparse.Namespace) -> None:
    """Run what is missing, seed by seed, until the minutes are over."""
    until = time.monotonic() + 60 * given.minutes
    for seed in given.seeds:
        for name in given.sets:
            missing = [m for m in names_of(given.methods) if not done(path_of(given.runs, name, seed, m))]
            missing = [m for m in missing if peers.installed(peers.METHODS[m])]
            found = task(name, seed, given.data, given.rows) if missing else None
            for method in missing:
                if time.monotonic() > until:
                    return
                assert found is not None
                run = {**measure(found, method), "rows": given.rows}
                path = path_of(given.runs, name, seed, method)
                path.parent.mkdir(parents=True, exist_ok=True)
                part = path.with_suffix(f".{os.getpid()}.part")
                part.write_text(json.dumps(run))
                part.replace(path)
                told = run.get("failed") or f"{run['accuracy']:.2f}, gap {run['gaps'][CRITERIA[0]]['value']}"
                print(f"{name} seed {seed} {method}: {told} ({run.get('seconds', '–')} s)", flush=True)


def write_record(runs: Path, records: Path, device: str | None = None) -> Path:
    """Write the record, its table and its pictures."""
    found = [json.loads(path.read_text()) for path in sorted(runs.glob("*/*.json"))]
    record = record_of(found) | ({} if device is None else {"device": device})
    name = f"{record['date'][:10]}_judgement"
    taken = [path.name for path in records.glob(f"{name}*")]
    folder = records / (name if not taken else f"{name}-{len(taken) + 1}")  # a record is never written over
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(json.dumps(record, indent=None, separators=(",", ":")) + "\n")
    (folder / "table.md").write_text(table(record), encoding="utf-8")
    write_pictures(record, folder)
    return folder


def main() -> None:
    """Read the command line."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--data", type=Path, help="The folder that holds adult/, compas/ and tables/.")
    words.add_argument("--sets", nargs="+", default=list(SETS), choices=list(sources()))
    words.add_argument("--seeds", nargs="+", type=int, default=[10, 11, 12])
    words.add_argument("--methods", nargs="+", default=["all"], help="Names, or all, peers, every-ours.")
    words.add_argument("--rows", type=int, default=ROWS, help="Rows to learn from, at most.")
    words.add_argument("--runs", type=Path, default=Path("runs/judgement"), help="The folder of finished runs.")
    words.add_argument("--minutes", type=float, default=1e6, help="Begin no run after so many.")
    words.add_argument("--record", action="store_true", help="Only write the record from the finished runs.")
    words.add_argument("--records", type=Path, default=ROOT / "records")
    words.add_argument("--device", help="What the runs were made on, where that was not this machine.")
    words.add_argument("--restore", type=Path, help="A record.json whose runs are written into --runs.")
    given = words.parse_args()
    if given.restore:
        restore(json.loads(given.restore.read_text()), lambda *key: path_of(given.runs, *key))
    if given.record:
        print(write_record(given.runs, given.records, given.device))
    elif given.data:
        run_all(given)
    elif not given.restore:
        words.error("name the folder of data with --data, or ask for --record")


if __name__ == "__main__":
    main()
