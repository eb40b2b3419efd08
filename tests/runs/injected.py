"""Killed at the n-th call that touches the disk: a shim under open, write, fsync, rename, unlink and mkdir.

    python -m tests.runs.injected WHAT EVERY

A process for each call is forked off, kills itself there with half of a write done, and is followed by one that does
the same work again, undisturbed; what that leaves must be what an undisturbed run leaves. Prints a JSON object.
"""

from __future__ import annotations

import builtins
import contextlib
import hashlib
import importlib
import io
import json
import logging
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

import fairweight as fw
from fairweight.apps.refit import prepare_refit
from fairweight.apps.train import Wanted, prepare, train
from fairweight.runs import pool, provenance, run, run_search  # noqa: F401 -- imported once, before the forks
from fairweight.runs.folder import LOG, METRICS, RUN
from fairweight.runs.run_place import check_folder
from fairweight.training.lock import claimed

TABLE = "people.csv"
_TIMES = ("seconds", "date", "command", "commit")
SETTINGS = {"epochs": 2, "batch_size": 32, "network": {"name": "mlp", "hidden": [4]}}


class Shim:
    """Counts calls under a folder, and dies at one of them."""

    def __init__(self, folder: Path, fatal: int | None = None) -> None:
        self.folder, self.fatal, self.calls = str(folder), fatal, 0

    def inside(self, path: Any) -> bool:
        return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(self.folder)

    def due(self) -> bool:
        self.calls += 1
        return self.calls - 1 == self.fatal

    def reached(self) -> None:
        if self.due():
            os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        real_open, real_fsync, real_save = io.open, os.fsync, safetensors.torch.save_file
        opened: set[int] = set()

        def open_(file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
            writes = self.inside(file) and set(mode) & set("wax+")
            if writes:
                self.reached()
            made = real_open(file, mode, *rest, **options)
            if writes:
                opened.add(made.fileno())
                made = Half(made, self)
            return made

        def fsync(entry: int) -> None:
            self.reached()
            real_fsync(entry)

        def save_file(tensors: Any, path: Any, **options: Any) -> None:
            if self.due():  # the library writes a file of its own beside, and renames it
                Path(path).with_name(".tmpHalf").write_bytes(b"half")
                os.kill(os.getpid(), signal.SIGKILL)
            real_save(tensors, path, **options)

        builtins.open = io.open = open_  # type: ignore[assignment]
        os.fsync = fsync
        safetensors.torch.save_file = save_file
        for name in ("replace", "rename", "unlink", "remove", "mkdir", "rmdir"):
            setattr(os, name, self.counted(getattr(os, name)))

    def counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *rest: Any, **options: Any) -> Any:
            if self.inside(path):
                self.reached()
            return real(path, *rest, **options)

        return call


class Half:
    """A file whose fatal write leaves half of what was to be written."""

    def __init__(self, file: Any, shim: Shim) -> None:
        self.file, self.shim = file, shim

    def write(self, content: Any) -> Any:
        if self.shim.due():
            self.file.write(content[: len(content) // 2])
            self.file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
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


def train_into(out: Path) -> None:
    prepared = prepare(Wanted(TABLE, "income", "sex", training=SETTINGS))
    with claimed(out):
        check_folder(out, prepared.spec, prepared.dataset)
        train(prepared, out)


def refit_into(out: Path) -> None:
    prepared, where = prepare_refit("first", out)
    with claimed(where):
        check_folder(where, prepared.spec, prepared.dataset)
        train(prepared, where, baseline=False)


def fit_into(out: Path) -> None:
    torch.manual_seed(0)
    draw = torch.Generator().manual_seed(1)
    inputs = torch.randn(40, 3, generator=draw)
    batch = fw.Batch(inputs, (inputs[:, 0] > 0).long(), groups=(inputs[:, 1] > 0).long())
    model = fw.MLP(3, 2, (4,))
    optimizer = torch.optim.Adam(model.parameters())
    fw.fit(
        model, optimizer, fw.FORML(model, 40), batch, batch, epochs=3, out=out, resume=True, batch_size=20, per_cell=2
    )
    (out / "model.txt").write_text(repr([p.tolist() for p in model.parameters()]))


WORK = {"train": train_into, "refit": refit_into, "fit": fit_into}


def left(folder: Path) -> dict[str, str]:
    """By file: its content, without times of day and seconds."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            continue
        name, content = str(path.relative_to(folder)), path.read_bytes()
        if path.name in (METRICS, RUN):
            content = json.dumps(_timeless(json.loads(content))).encode()
        elif path.name == LOG:
            lines = [_timeless(json.loads(line)) for line in content.decode().splitlines()]
            content = json.dumps([line for line in lines if line["event"] not in ("start", "resume")]).encode()
        elif path.name in ("manifest.json", "checkpoint.safetensors"):
            content = b""  # of the others, which are compared; and of the seconds
        elif path.suffix == ".safetensors":  # whose header has no fixed order
            tensors = safetensors.torch.load(content)
            content = repr([(key, tensors[key].tolist()) for key in sorted(tensors)]).encode()
        found[name] = hashlib.sha256(content).hexdigest()
    return found


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(entry) for key, entry in value.items() if key not in _TIMES}
    return [_timeless(entry) for entry in value] if isinstance(value, list) else value


def forked(work: Callable[[Path], None], out: Path, fatal: int | None) -> tuple[int, int, list[str]]:
    """Do the work in a process of its own; its status, how many calls there were, and what it has imported."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            logging.disable(logging.CRITICAL)
            warnings.simplefilter("ignore")
            shim = Shim(out, fatal)
            shim.install()
            work(out)
            os.write(write, json.dumps([shim.calls, sorted(sys.modules)]).encode())
            status = 0
        except BaseException as error:
            os.write(write, repr(error).encode())
        finally:
            os._exit(status)
    os.close(write)
    told = b""
    while part := os.read(read, 65536):
        told += part
    os.close(read)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 1:
        raise AssertionError(f"call {fatal}: {told.decode()}")
    return status, *json.loads(told or "[0, []]")


def main() -> None:
    what, every = sys.argv[1], int(sys.argv[2])
    work = WORK[what]
    here = Path.cwd()
    whole_at = Path(tempfile.mkdtemp(dir=here)) / "out"  # as deep as the others: a refit names its weights from there
    status, calls, modules = forked(work, whole_at, None)
    assert status == 0
    for name in modules:  # once, here, and not in every process
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    whole, failures = left(whole_at), []
    for fatal in range(0, calls, every):
        out = Path(tempfile.mkdtemp(dir=here)) / "out"
        status, _, _ = forked(work, out, fatal)
        assert status == -signal.SIGKILL, f"call {fatal} was not reached"
        forked(work, out, None)
        after = left(out)
        if after != whole:
            names = sorted(name for name in {**after, **whole} if after.get(name) != whole.get(name))
            failures.append([fatal, names])
    print(json.dumps({"calls": calls, "failures": failures}))


if __name__ == "__main__":
    main()
