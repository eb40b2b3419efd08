"""Start ranks on this machine, and give back what each left."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]


def ranks(size: int, folder: Path, arguments: Sequence[str], module: str = "tests.distributed.worker") -> list[Any]:
    """What every rank saved, in their order; raises the output of one that fails."""
    run(size, folder, [sys.executable, "-m", module, *arguments])
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(size)]


def run(size: int, folder: Path, command: Sequence[str], timeout: float = 120.0) -> list[str]:
    """Run a command once for each rank; what each has printed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = []
    for rank in range(size):
        env = {
            **os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank),
            "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1",
            "FOLDER": str(folder), "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        }  # fmt: skip
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        started.append(subprocess.Popen(command, env=env, cwd=ROOT, **pipes))  # type: ignore[call-overload]
    try:
        said = [process.communicate(timeout=timeout)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    for process, text in zip(started, said, strict=True):
        assert process.returncode == 0, f"ended with {process.returncode}: {text[-3000:]}"
    return said
