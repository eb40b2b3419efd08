"""A verb under torchrun: its processes train together, and the first of them writes and speaks."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairweight.ranks import Ranks

SECONDS = 1800  # that ranks wait for each other: one may read data much longer than the others


def started_by_torchrun() -> bool:
    """True if torchrun has started several processes."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


def leave(status: int) -> None:
    """End a rank at once, after its output is written: torch may abort one while its interpreter ends."""
    if started_by_torchrun():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def leave_to_the_first(why: str) -> None:
    """End every rank but the first, which says why: this is the work of one process."""
    if started_by_torchrun():
        if os.environ["RANK"] != "0":
            leave(0)
        print(f"fairweight: {why}", file=sys.stderr)


def device_of_rank(device: str) -> str:
    """The GPU of this rank, where a GPU is asked for and not a certain one."""
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if device == "cuda" and started_by_torchrun() else device


@contextmanager
def together(device: str) -> Iterator[Ranks | None]:
    """Join the processes that torchrun has started; all but the first are silent, and an error in one ends all."""
    if not started_by_torchrun():
        yield None
        return
    import torch
    import torch.distributed as dist

    from fairweight.ranks import Ranks, join

    gpu = device.startswith("cuda")
    if gpu:
        torch.cuda.set_device(device)
    join("nccl" if gpu else "gloo", SECONDS)
    try:
        ranks = Ranks.find("auto", device)
        assert ranks is not None
        with ExitStack() as stack:
            if not ranks.first:
                null = stack.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
                stack.enter_context(redirect_stdout(null))
                stack.enter_context(redirect_stderr(null))
            stack.enter_context(ranks.together())
            yield ranks
            if dist.is_initialized():
                ranks.agree()
    except Exception:
        if dist.is_initialized() and dist.get_rank() != 0:  # the first one says it
            sys.exit(2)
        raise
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def part(ranks: Ranks, why: str) -> None:
    """Let the first rank go on alone, where one process is all it takes."""
    import torch.distributed as dist

    ranks.agree()
    dist.destroy_process_group()
    leave_to_the_first(why)


@contextmanager
def own_folder(ranks: Ranks | None, folder: Path) -> Iterator[Path]:
    """The folder itself for the first rank; for the others a copy that is thrown away, so that all see the same."""
    if ranks is None:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="fairweight_rank_") as scratch:
        of_rank = folder if ranks.first else Path(scratch) / folder.name
        ranks.agree()
        if not ranks.first and folder.is_dir():
            shutil.copytree(folder, of_rank)
        ranks.agree()  # from here on the first one writes
        yield of_rank
