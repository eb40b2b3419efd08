"""One rank: runs what it is asked for and leaves its numbers in a folder. python -m tests.distributed.worker ..."""

from __future__ import annotations

import datetime
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

SECONDS = 30  # that ranks wait for each other


def main(kind: str, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=SECONDS))
    rank = dist.get_rank()
    from tests.distributed.cases import FEW, traffic
    from tests.distributed.fit_cases import CASES
    from tests.distributed.refusals import REFUSED

    chosen = [name for name in CASES if (name in FEW) == (kind == "few")]
    found = {name: CASES[name]() for name in chosen}
    said = {}
    for name, run in REFUSED.items() if kind == "rest" else ():
        began = time.monotonic()
        try:
            run()
        except Exception as error:
            said[name] = [type(error).__name__, str(error), time.monotonic() - began]
    sent = traffic() if kind == "few" else {}
    torch.save({"cases": found, "refusals": said, "traffic": sent}, folder / f"{rank}.pt")
    dist.barrier()  # a rank that leaves while another still works may be aborted by torch
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(os.environ["FOLDER"]))
