"""The site, built once for all tests that look at it."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, as `make site` builds it; processes that test side by side share it."""
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None:
        pytest.skip("mkdocs-material is not installed: pip install '.[docs]'")
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    folder = shared / "site"
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "index.html").is_file():
            words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
            environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "OMP_NUM_THREADS": "1"}
            done = subprocess.run(
                words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False
            )
            assert done.returncode == 0, done.stderr[-3000:]
    return folder
