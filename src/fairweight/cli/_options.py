"""Options that every verb has, and what they need."""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairweight.errors import BadInput

if TYPE_CHECKING:
    from fairweight.apps.train import Watching

SMALL = 500_000  # parameters of a network that one thread serves best

Out = Annotated[Path, typer.Option("--out", help="Folder for what is written.")]
Seed = Annotated[int, typer.Option("--seed", help="Where randomness starts.")]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1 ..., or auto.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def device_of(asked: str) -> str:
    """The device to use; refused where it is not there."""
    import torch

    if asked == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        found = torch.device(asked)
    except RuntimeError:
        raise BadInput(f"--device {asked}: choose cpu, cuda, cuda:0 ..., or auto.") from None
    if found.type == "cuda" and (not torch.cuda.is_available() or (found.index or 0) >= torch.cuda.device_count()):
        raise BadInput(f"--device {asked} is not on this machine; use --device cpu, or auto.")
    return asked


def spare_threads(parameters: int, device: str) -> None:
    """One thread for a small network on a CPU: more cost more than they save, ten times so on a busy machine."""
    import torch

    if device == "cpu" and parameters < SMALL and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


class _StderrNow(logging.Handler):
    """Writes to what sys.stderr is at that moment: while a bar is shown, that is what keeps lines above it."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr, flush=True)


def show_log() -> None:
    """Messages of the library on stderr, one line each."""
    handler = _StderrNow()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("fairweight")
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)


def epochs_shown(json: bool) -> Watching:
    """A bar of epochs for each training; none where one JSON object is all that is printed."""
    from fairweight.training.callbacks import Progress

    return lambda title: () if json else (Progress(title),)


def print_json(values: dict[str, Any]) -> None:
    """One JSON object on stdout."""
    print(json.dumps(values, indent=2))
