"""Record where a number comes from: versions, device, commit, command."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("fairweight", "torch", "numpy", "scikit-learn", "pandas", "pyarrow")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that are installed."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def commit() -> str | None:
    """Commit of the source tree that runs, with a plus where files differ from it; None outside a checkout.

    FAIRWEIGHT_COMMIT names that of a tree that was copied without its history.
    """
    here = Path(__file__).resolve().parent

    def git(*words: str) -> str | None:
        command = ["git", "-C", str(here), *words]
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()  # noqa: S603
        except (OSError, subprocess.SubprocessError):
            return None

    top = git("rev-parse", "--show-toplevel")
    if top is None or here.parents[2] != Path(top):  # somebody else's repository, with fairweight installed in it
        return os.environ.get("FAIRWEIGHT_COMMIT") or None
    head = git("rev-parse", "--short", "HEAD")
    return None if head is None else head + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


def provenance(device: str = "cpu") -> dict[str, Any]:
    """Versions, commit, device, command and date, for a run.json or a record."""
    import torch

    cuda = device.startswith("cuda")
    threads = torch.get_num_threads()
    named = f"CPU, {threads} thread{'s' * (threads > 1)}, {platform.machine()}"
    program = Path(sys.argv[0]).name
    program = "fairweight" if program == "__main__.py" else program
    return {
        "versions": versions(),
        "commit": commit(),
        "device": torch.cuda.get_device_name(device) if cuda else named,
        "command": shlex.join([program, *sys.argv[1:]]),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def of_runs(runs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Devices, commits and versions of several run.json files: a run that was found made its numbers elsewhere."""
    every = list(runs)
    return {
        "devices": list(dict.fromkeys(str(run.get("device")) for run in every)),
        "commits": list(dict.fromkeys(str(run.get("commit") or "unknown") for run in every)),
        "versions": all_versions(run.get("versions", {}) for run in every),
    }


def all_versions(several: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Versions of each package that were used, in their order: "2.11.0, 2.13.0"."""
    by_package: dict[str, list[str]] = {}
    for name, version in (pair for one in several for pair in one.items()):
        by_package.setdefault(name, []).extend(version.split(", "))
    return {name: ", ".join(dict.fromkeys(used)) for name, used in by_package.items()}
