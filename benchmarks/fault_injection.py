"""Stop every call that touches the disk, one after the other: the same command, started again, comes to the same end.

    python benchmarks/fault_injection.py [train judged refit fit search trade-off audit predict ...] [--every 7]
        [--fault kill | full-disk] [--jobs 16] [--out faults.json]

A process for each call is forked off. With `kill` it ends itself there with SIGKILL, half of a write done; with
`full-disk` the call fails as on a full disk, and the program has to say so in a sentence. Then the same work is done
again, undisturbed: what that leaves must be what an undisturbed run leaves, and nothing else. In between a reader looks
at what is there: it must refuse it, or find what an undisturbed run gives.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import errno
import hashlib
import io
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import safetensors.torch
import torch

import fairweight as fw
from fairweight.cli import main as command_line
from fairweight.runs.folder import LOG, METRICS, RUN
from fairweight.runs.manifest import FILE as MANIFEST
from fairweight.training.checkpoint import FILE as CHECKPOINT

FAULTS = ("kill", "full-disk")
OF = ("people.csv", "--label", "income", "--group", "sex", "--device", "cpu")
SMALL = (*OF, "--epochs", "2", "--hidden", "4", "--batch-size", "32")
_TIMES = ("seconds", "date", "command", "commit", "reused")  # what tells of the process, not of the run
_CHANGING = ("replace", "rename", "unlink", "remove", "mkdir", "rmdir", "chmod", "utime", "truncate", "link", "symlink")


def people(rows: int = 160) -> pd.DataFrame:
    """A table that a small model learns something from, and a second group that it serves less well."""
    draw = np.random.default_rng(0)
    sex, age = draw.choice(["F", "M"], rows), draw.integers(18, 90, rows)
    job = draw.choice(["clerk", "cook", "nurse"], rows)
    high = (age - 50) / 20 + 1.5 * (sex == "M") + draw.normal(0, 1, rows) > 0.4
    return pd.DataFrame({"age": age, "job": job, "sex": sex, "income": np.where(high, "high", "low")})


class Shim:
    """Counts the calls under a folder that change the disk, and spoils one of them."""

    def __init__(self, folder: Path, spoil: int | None, fault: str) -> None:
        self.folder, self.spoil, self.fault = str(folder.resolve()), spoil, fault
        self.calls: list[str] = []
        self._open = io.open

    def inside(self, path: Any, options: dict[str, Any]) -> bool:
        if options.get("dir_fd") is not None:
            return True  # how a tree is deleted: by names within open folders
        return isinstance(path, str | os.PathLike) and os.path.abspath(os.fspath(path)).startswith(self.folder)  # noqa: PTH100

    def due(self, what: str) -> bool:
        self.calls.append(what)
        return len(self.calls) - 1 == self.spoil

    def strike(self) -> None:
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def reached(self, what: str) -> None:
        if self.due(what):
            self.strike()

    def install(self) -> None:
        real_os_open, real_fsync, real_sendfile = os.open, os.fsync, os.sendfile

        def open_(file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
            if not (set(mode) & set("wax+") and self.inside(file, {})):
                return self._open(file, mode, *rest, **options)
            self.reached("open")
            return Half(self._open(file, mode, *rest, **options), self)

        def os_open(path: Any, flags: int, *rest: Any, **options: Any) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and self.inside(path, options):
                self.reached("open")
            return real_os_open(path, flags, *rest, **options)

        def fsync(entry: int) -> None:
            self.reached("fsync")
            real_fsync(entry)

        def sendfile(*arguments: Any) -> int:
            self.reached("write")
            return real_sendfile(*arguments)

        builtins.open = io.open = open_  # type: ignore[assignment]
        os.open, os.fsync, os.sendfile = os_open, fsync, sendfile
        for name in _CHANGING:
            setattr(os, name, self.counted(name, getattr(os, name)))

    def counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *rest: Any, **options: Any) -> Any:
            if self.inside(path, options):
                self.reached(name)
            return real(path, *rest, **options)

        for support in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
            if real in support:
                support.add(call)
        return call


class Half:
    """A file whose fatal write leaves half of what was to be written."""

    def __init__(self, file: Any, shim: Shim) -> None:
        self.file, self.shim = file, shim

    def write(self, content: Any) -> Any:
        if self.shim.due("write"):
            self.file.write(content[: len(content) // 2])
            self.file.flush()
            self.shim.strike()
        return self.file.write(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> Half:
        self.file.__enter__()
        return self

    def __exit__(self, *rest: Any) -> None:
        self.file.__exit__(*rest)

    def __iter__(self) -> Any:
        return iter(self.file)


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
    fw.fit(model, optimizer, fw.FORML(model, 40), batch, batch, epochs=3, **options)
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


@dataclass(frozen=True)
class Ended:
    """How a process has ended: its status, what it printed on stderr, and the calls that it counted."""

    status: int
    said: str
    calls: list[str]


def forked(work: Callable[[], None], folder: Path, spoil: int | None = None, fault: str = "kill") -> Ended:
    """Do the work in a folder, in a process of its own, and spoil one of its calls."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status, err = 1, io.StringIO()
        try:
            logging.disable(logging.CRITICAL)
            warnings.simplefilter("ignore")
            os.chdir(folder)
            shim = Shim(folder, spoil, fault)
            shim.install()
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
                try:
                    work()
                    status = 0
                except SystemExit as end:
                    status = int(end.code or 0)
                except BaseException as error:
                    err.write(f"Traceback: {error!r}")
            os.write(write, json.dumps([err.getvalue()[-2000:], shim.calls]).encode())
        finally:
            os._exit(status)
    os.close(write)
    told = b""
    while part := os.read(read, 65536):
        told += part
    os.close(read)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Ended(status, *(json.loads(told) if told else ("", [])))


def prepared(name: str, at: Path) -> Path:
    """A folder in which the work can be done."""
    at.mkdir()
    people().to_csv(at / "people.csv", index=False)
    for words in WORK[name].before:
        done = forked(lambda words=words: command(*words), at)  # type: ignore[misc]
        assert done.status == 0, done.said
    return at


def problems(name: str, fault: str, every: int, first: int = 0) -> dict[str, Any]:
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
        tried = range(first, len(whole_run.calls), every)
        for call in tried:
            at = top / "spoiled"
            shutil.copytree(fresh, at)
            struck = forked(work.do, at, call, fault)
            bad = _bad_end(struck, fault)
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
    kinds = {kind: whole_run.calls.count(kind) for kind in sorted(set(whole_run.calls))}
    return {"calls": len(whole_run.calls), "kinds": kinds, "tried": len(tried), "wrong": wrong}


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


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what is printed back; where the command fails, show the end of it."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            yield
    except SystemExit as end:
        raise SystemExit(said.getvalue()[-500:]) from end


def show(found: Mapping[str, Any]) -> None:
    """One line for each piece of work and fault, and what went wrong."""
    for name, by_fault in found.items():
        for fault, one in by_fault.items():
            print(f"{name}, {fault}: {one['tried']} of {one['calls']} calls, {len(one['wrong'])} wrong", flush=True)
            for line in one["wrong"][:20]:
                print("   ", *line, flush=True)


def shared_out(script: str, words: list[str], jobs: int) -> list[dict[str, Any]]:
    """What each of so many processes with its share of the work has found."""
    with tempfile.TemporaryDirectory() as inside:
        files = [Path(inside) / f"{job}.json" for job in range(jobs)]
        shares = [["--first", str(job), "--every", str(jobs), "--out", str(file)] for job, file in enumerate(files)]
        processes = [
            subprocess.Popen([sys.executable, script, *words, *share], stdout=subprocess.DEVNULL)  # noqa: S603
            for share in shares
        ]
        for process in processes:
            process.wait()
        parts = [json.loads(file.read_text()) for file in files if file.is_file()]
    if len(parts) < jobs:
        print(f"{jobs - len(parts)} of {jobs} processes were lost: what they would have tried was not.", flush=True)
    return parts


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
    asked.add_argument("--jobs", type=int, default=1)
    asked.add_argument("--out", type=Path)
    options = asked.parse_args()
    faults = FAULTS if options.fault is None else (options.fault,)
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    if options.jobs > 1:
        found = shared_out(
            [*options.work, *(word for fault in [options.fault] if fault for word in ("--fault", fault))], options.jobs
        )
    else:
        for name in options.work or WORK:
            found[name] = {fault: problems(name, fault, options.every, options.first) for fault in faults}
            show({name: found[name]})
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(any(one["wrong"] for by_fault in found.values() for one in by_fault.values()))


if __name__ == "__main__":
    main()
