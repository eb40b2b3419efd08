"""CIFAR-10."""

from __future__ import annotations

from fairweight.data._found import Found, Request
from fairweight.data.sets._cifar import Layout, find_cifar
from fairweight.data.sets._local import Place

_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_BATCHES = [f"data_batch_{number}" for number in range(1, 6)]
_NEEDS = ("data_batch_1.bin to data_batch_5.bin, test_batch.bin (or the parquet shards train-*, test-*)",)


class Cifar10:
    """CIFAR-10: 50,000 + 10,000 photographs of ten things, 32x32; the class stands for the group."""

    label = "label"
    group: tuple[str, ...] = ()
    needs = _NEEDS
    place = Place("cifar10", _NEEDS, "uoft-cs/cifar10")
    layout = Layout(
        binary={"train": [f"{name}.bin" for name in _BATCHES], "test": ["test_batch.bin"]},
        python={"train": _BATCHES, "test": ["test_batch"]},
        folders=("cifar-10-batches-bin", "cifar-10-batches-py"),
        labels=("label",),
        keys=("labels",),
        names={"label": _NAMES},
    )

    def find(self, request: Request) -> Found:
        """Its two parts."""
        return find_cifar(self.place, self.layout, self.label, request)
