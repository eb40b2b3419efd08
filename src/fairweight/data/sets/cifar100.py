"""CIFAR-100."""

from __future__ import annotations

from fairweight.data._found import Found, Request
from fairweight.data.sets._cifar import Layout, find_cifar
from fairweight.data.sets._local import Place

_NEEDS = ("train.bin and test.bin (or the parquet shards train-*, test-*)",)


class Cifar100:
    """CIFAR-100: 50,000 + 10,000 photographs of a hundred things (or 20 kinds: coarse_label), 32x32."""

    label = "fine_label"
    group: tuple[str, ...] = ()
    needs = _NEEDS
    place = Place("cifar100", _NEEDS, "uoft-cs/cifar100")
    layout = Layout(
        binary={"train": ["train.bin"], "test": ["test.bin"]},
        python={"train": ["train"], "test": ["test"]},
        folders=("cifar-100-binary", "cifar-100-python"),
        labels=("coarse_label", "fine_label"),
        keys=("coarse_labels", "fine_labels"),
        names={},
    )

    def find(self, request: Request) -> Found:
        """Its two parts."""
        return find_cifar(self.place, self.layout, self.label, request)
