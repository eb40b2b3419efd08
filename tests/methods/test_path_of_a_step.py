"""How many files and lines a step of FORML goes through: somebody reads them all."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import fairweight as fw

SOURCE = Path(fw.__file__).parent
MOST_LINES = 2000  # of those files, beside the plug-ins and the room of the gradient per layer
PLUG_INS = ("objectives/mean.py", "objectives/variance.py", "kinds/linear.py")  # one file each, whichever is chosen


class Net(nn.Module):
    """A model of one's own."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(20, 300), nn.ReLU(), nn.Linear(300, 2))

    def forward(self, x):
        return self.layers(x)


@pytest.mark.parametrize(
    ("gradient", "most", "beyond"), [("forward", 10, 0), ("double-backward", 10, 0), ("per-layer", 9, 4)]
)
def test_files_of_a_steady_step(gradient, most, beyond):
    """At most ten beside the plug-ins; the gradient per layer is a room of its own, of which a step sees four files.

    Together they have a bound of lines, so that the path stays one that is read in an afternoon.
    """
    torch.manual_seed(0)
    model, rows = Net(), torch.arange(32)
    batch = fw.Batch(torch.randn(32, 20), rows % 2, rows // 2 % 2, rows)
    exemplar = fw.Batch(torch.randn(20, 20), rows[:20] % 2, rows[:20] // 2 % 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    forml = fw.FORML(model, 100, gradient=gradient)
    for _ in range(3):  # the mode is chosen at the first, looked at again at the third, steps being 2
        forml.step(batch, exemplar, optimizer)
    seen = set()

    def watch(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(SOURCE)):
            seen.add(Path(frame.f_code.co_filename).relative_to(SOURCE).as_posix())

    sys.setprofile(watch)
    try:
        forml.step(batch, exemplar, optimizer)
    finally:
        sys.setprofile(None)
    core = {name for name in seen if not name.endswith(PLUG_INS)}
    layers = {name for name in core if "/per_layer/" in name}
    assert len(core - layers) <= most, sorted(core)
    assert len(layers) <= beyond, sorted(layers)
    lines = {name: len((SOURCE / name).read_text().splitlines()) for name in core - layers}
    assert sum(lines.values()) <= MOST_LINES, lines
