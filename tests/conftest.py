"""Every test starts from the same random state, whatever ran before it, and sees a terminal of the same width."""

import os

import pytest
import torch

from fairweight.runs.spec import Spec

DATA = {"limit": 400, "split": {"test": 0.3, "validation": 0.0}, "exemplar": {"source": "train", "size": 4}}
os.environ["COLUMNS"] = "80"


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture
def tiny() -> Spec:
    """Uniform on some digits: two epochs of a small network."""
    return Spec(
        "digits",
        data=DATA,
        network={"name": "mlp", "hidden": [16]},
        method="uniform",
        epochs=2,
        batch_size=64,
        per_cell=2,
    )
