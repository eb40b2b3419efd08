"""A run whose last rank is killed once, in the middle of its second epoch; torchrun starts the ranks again.

torchrun --nproc-per-node 2 --max-restarts 1 -m tests.distributed.killed FOLDER
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from tests.distributed.cases import OBJECTIVE, N, Numbers, data, net, numbers

import fairweight as fw
from fairweight.ranks import join


class Killed(fw.Observer):
    """Ends its process like a machine that loses power, unless ranks were started before."""

    def on_step(self, step: int, record: fw.StepRecord) -> None:
        restarted = int(os.environ["TORCHELASTIC_RESTART_COUNT"]) > 0
        if step == 6 and not restarted and dist.get_rank() == dist.get_world_size() - 1:
            os.kill(os.getpid(), signal.SIGKILL)


def trained(folder: Path, observers: list[fw.Observer]) -> Numbers:
    train, exemplar = data()
    model = torch.nn.Sequential(net(), torch.nn.BatchNorm1d(3).double(), torch.nn.Dropout(0.2))
    forml = fw.FORML(model, N, OBJECTIVE, scores="sharded")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    options = fw.FitOptions(batch_size=16, per_cell=2, seed=3, checkpoint_every=0.0)
    fw.fit(model, optimizer, forml, train, exemplar, 3, observers, out=folder, resume=True, options=options)
    return numbers(model, forml)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    join("gloo", 60)
    found = {"killed": trained(folder / "killed", [Killed()]), "whole": trained(folder / "whole", [])}
    if dist.get_rank() == 0:
        torch.save(found, folder / "found.pt")
    dist.barrier()  # a rank that leaves while another still works is aborted by torch now and then,
    dist.destroy_process_group()
    os._exit(0)  # and on a busy machine even then, when the interpreter ends: all is written by now


if __name__ == "__main__":
    main(Path(sys.argv[1]))
