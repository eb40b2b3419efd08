"""Stop every call that touches the disk, one after the other: the same command, started again, comes to the same end.

    python benchmarks/fault_injection.py [train judged refit fit search trade-off audit predict ...] [--every 7]
        [--fault kill | full-disk] [--seconds 600] [--jobs 16] [--out faults.json]

A process for each call is forked off, in a drawn order. With `kill` it ends itself there with SIGKILL, half of a write
done; with `full-disk` the disk is full from that call on: the program has to say so in a sentence, and no half-written
file or lock may stay. Then the same work is done again, undisturbed: what that leaves must be what an undisturbed run
leaves, and nothing else. In between a reader looks at what is there: it must refuse it, or find what an undisturbed run
gives. --seconds: try no further call of a piece of work after that time; the counts say how many were tried.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import math
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import safetensors.torch
import torch
from spoiled_disk import FAULTS, NEED_ROOM, Ended, forked, quiet, shared_out

import fairweight as fw
from fairweight.cli import main as command_line
from fairweight.errors import FairweightError
from fairweight.runs.folder import METRICS, RUN
from fairweight.runs.manifest import FILE as MANIFEST
from fairweight.training.checkpoint import FILE as CHECKPOINT
from fairweight.training.log import FILE as LOG

OF = ("people.csv", "--label", "income", "--group", "sex", "--device", "cpu")
SMALL = (*OF, "--epochs", "2", "--hidden", "4", "--batch-size", "32")
_TIMES = ("seconds", "date", "command", "commit", "reused")  # what tells of the process, not of the run


def people(rows: int = 160) -> pd.DataFrame:
    """A table that a small model learns something from, and a second group that it serves less well."""
    draw = np.random.default_rng(0)
    sex, age = draw.choice(["F", "M"], rows), draw.integers(18, 90, rows)
    job = draw.choice(["clerk", "cook", "nurse"], rows)
    high = (age - 50) / 20 + 1.5 * (sex == "M") + draw.normal(0, 1, rows) > 0.4
    return pd.DataFrame({"age": age, "job": job, "sex": sex, "income": np.where(high, "high", "low")})


def command(*words: str) -> None:
    """The command line, in this process."""
    sys.argv = ["fairweight", *words]
    try:
        command_line()
    except SystemExit as end:
        if end.code:
            raise


def fit_with_checkpoints() -> None:
    """The Python API: a loop that writes checkpoints, and what the user writes after it."""
    torch.manual_seed(0)
    inputs = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
    batch = fw.Batch(inputs, (inputs[:, 0] > 0).long(), groups=(inputs[:, 1] > 0).long())
    model = fw.MLP(3, 2, (4,))
    optimizer = torch.optim.Adam(model.parameters())
    options: dict[str, Any] = {"out": Path("out"), "resume": True, "batch_size": 20, "per_cell": 2}
    try:
        fw.fit(model, optimizer, fw.FORML(model, 40), batch, batch, epochs=3, **options)
    except FairweightError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    with contextlib.suppress(OSError):  # the user's own
        Path("out/model.txt").write_text(repr([p.tolist() for p in model.parameters()]))


@dataclass(frozen=True)
class Work:
    """What is stopped: commands that come before it, the work itself, and a reader of what it leaves."""

    words: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    reader: tuple[str, ...] = ()

    def do(self) -> None:
        """Do it, in this process and folder."""
        if self.words:
            command(*self.words)
        else:
            fit_with_checkpoints()


def _predict(run: str) -> tuple[str, ...]:
    return ("predict", run, "people.csv", "--out", "said.csv")


FIRST = ("train", *SMALL, "--method", "forml", "--no-baseline", "--out", "first")
WORK = {
    "train": Work(("train", *SMALL, "--method", "forml", "--out", "out"), (), _predict("out")),
    "judged": Work(
        ("train", *OF, "--learner", "linear", "--candidates", "reweighing", "--budget", "20", "--out", "out"),
        (),
        _predict("out"),
    ),
    "refit": Work(("refit", "first", "--out", "out", "--device", "cpu"), (FIRST,), _predict("out")),
    "fit": Work(()),
    "search": Work(
        (
            "train",
            *SMALL,
            "--method",
            "label-bias",
            "--search",
            "name=multiplier",
            "--search",
            "iterations=2",
            "--no-baseline",
            "--out",
            "out",
        ),
        (),
        _predict("out"),
    ),
    "trade-off": Work(
        ("train", *SMALL, "--method", "forml", "--trade-off", "--strengths", "0.3,3", "--out", "out"),
        (),
        _predict("out"),
    ),
    "audit": Work(("audit", "first"), (FIRST,), _predict("first")),
    "suspects": Work(("suspects", "first"), (FIRST,), _predict("first")),
    "condense": Work(("condense", "first", "--drop", "10%", "--out", "out"), (FIRST,)),
    "predict": Work(_predict("first"), (FIRST,)),
    "compare": Work(
        ("compare", *OF, "--epochs", "2", "--methods", "uniform", "--seeds", "2", "--jobs", "1", "--out", "out"),
    ),
}


def left(folder: Path, but: str = "") -> dict[str, str]:
    """By file, but for one: its content, without times of day and seconds."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or str(path.relative_to(folder)) == but:
            continue
        content = path.read_bytes()
        if path.name in (METRICS, RUN, "search.json", "trade_off.json", "kept.json"):
            content = json.dumps(_timeless(json.loads(content))).encode()
        elif path.name == LOG:
            lines = [_timeless(json.loads(line)) for line in content.decode().splitlines()]
            content = json.dumps([line for line in lines if line["event"] not in ("start", "resume")]).encode()
        elif path.name in (MANIFEST, CHECKPOINT, "report.html", "MODEL_CARD.md"):
            content = b""  # of the others, which are compared; of seconds; with the date
        elif path.suffix == ".safetensors":  # whose header has no fixed order
            tensors = safetensors.torch.load(content)
            content = repr([(key, tensors[key].tolist()) for key in sorted(tensors)]).encode()
        found[str(path.relative_to(folder))] = hashlib.sha256(content).hexdigest()
    return found


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(entry) for key, entry in value.items() if key not in _TIMES}
    return [_timeless(entry) for entry in value] if isinstance(value, list) else value


def prepared(name: str, at: Path) -> Path:
    """A folder in which the work can be done."""
    at.mkdir()
    people().to_csv(at / "people.csv", index=False)
    for words in WORK[name].before:
        done = forked(lambda words=words: command(*words), at)  # type: ignore[misc]
        assert done.status == 0, done.said
    return at


def problems(
    name: str, fault: str, every: int, first: int = 0, seconds: float = math.inf, skip: int = 0
) -> dict[str, Any]:
    """Spoil every so-many-th call of a piece of work; how many there are of each kind, and what went wrong."""
    work = WORK[name]
    with tempfile.TemporaryDirectory() as inside:
        top = Path(inside)
        fresh, whole_at = prepared(name, top / "fresh"), top / "whole"
        shutil.copytree(fresh, whole_at)
        with contextlib.chdir(whole_at), quiet():
            work.do()  # in this process: what the processes below would each have to import is there
        shutil.rmtree(whole_at)
        shutil.copytree(fresh, whole_at)
        whole_run = forked(work.do, whole_at)
        assert whole_run.status == 0, whole_run.said
        whole = left(whole_at)
        good = _read(work, whole_at)
        wrong: list[list[Any]] = []
        calls = [k for k, kind in enumerate(whole_run.calls) if fault == "kill" or kind in NEED_ROOM]
        chosen, tried, began = calls[first::every], 0, time.monotonic()
        random.Random(0).shuffle(chosen)  # noqa: S311
        for call in chosen[skip:]:
            if time.monotonic() - began > seconds:
                break
            tried += 1
            at = top / "spoiled"
            shutil.copytree(fresh, at)
            struck = forked(work.do, at, call, fault)
            bad = _bad_end(struck, fault)
            if fault == "full-disk" and (half := [path.name for path in at.rglob(".*") if path.is_file()]):
                bad = bad or f"left behind: {half[:4]}"
            found = _read(work, at)
            if found not in (None, good):
                bad = bad or "a reader was given something else"
            again = forked(work.do, at)
            if again.status:
                bad = bad or f"did not go on: {again.said[-300:]}"
            after = left(at)
            after.pop("said.csv", None) if name != "predict" else None
            names = sorted(key for key in {**after, **whole} if after.get(key) != whole.get(key))
            if names:
                bad = bad or f"differs: {', '.join(names[:5])}"
            if bad:
                wrong.append([call, whole_run.calls[call], bad])
            shutil.rmtree(at)
    named = [whole_run.calls[call] for call in calls]
    kinds = {kind: named.count(kind) for kind in sorted(set(named))}
    return {"calls": len(calls), "kinds": kinds, "tried": tried, "wrong": sorted(wrong)}


def _bad_end(struck: Ended, fault: str) -> str | None:
    if fault == "kill":
        return None if struck.status == -signal.SIGKILL else f"was not reached: {struck.status} {struck.said[-300:]}"
    if "Traceback" in struck.said:
        return f"a traceback: {struck.said[-300:]}"
    return None if struck.status in (0, 2) else f"status {struck.status}: {struck.said[-300:]}"


def _read(work: Work, at: Path) -> str | None:
    """What a reader is given there; None where it is refused."""
    if not work.reader:
        return None
    done = forked(lambda: command(*work.reader), at)
    said = at / "said.csv"
    if done.status not in (0, 2) or "Traceback" in done.said:
        return f"status {done.status}: {done.said[-300:]}"
    found = said.read_text() if done.status == 0 else None
    said.unlink(missing_ok=True)
    return found


def show(found: Mapping[str, Any]) -> None:
    """One line for each piece of work and fault, and what went wrong."""
    for name, by_fault in found.items():
        for fault, one in by_fault.items():
            print(f"{name}, {fault}: {one['tried']} of {one['calls']} calls, {len(one['wrong'])} wrong", flush=True)
            for line in one["wrong"][:20]:
                print("   ", *line, flush=True)


def _together(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        name: {
            fault: {
                **one,
                "tried": sum(part[name][fault]["tried"] for part in parts),
                "wrong": sorted(line for part in parts for line in part[name][fault]["wrong"]),
            }
            for fault, one in by_fault.items()
        }
        for name, by_fault in parts[0].items()
    }


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    asked.add_argument("work", nargs="*", choices=[*WORK, []], default=[])
    asked.add_argument("--every", type=int, default=1)
    asked.add_argument("--first", type=int, default=0)
    asked.add_argument("--fault", choices=FAULTS, help="Default: all.")
    asked.add_argument("--seconds", type=float, default=math.inf)
    asked.add_argument("--skip", type=int, default=0, help="How many of the drawn order were tried before.")
    asked.add_argument("--jobs", type=int, default=1)
    asked.add_argument("--out", type=Path)
    options = asked.parse_args()
    faults = FAULTS if options.fault is None else (options.fault,)
    how = options.every, options.first, options.seconds, options.skip
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    if options.jobs > 1:
        words = [*options.work, *(("--fault", options.fault) if options.fault else ())]
        found = _together(shared_out(__file__, [*words, "--seconds", str(options.seconds)], options.jobs))
        show(found)
    else:
        for name in options.work or WORK:
            found[name] = {fault: problems(name, fault, *how) for fault in faults}
            show({name: found[name]})
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(any(one["wrong"] for by_fault in found.values() for one in by_fault.values()))


if __name__ == "__main__":
    main()
