"""CIFAR-100."""

from fairweight.data.sets.cifar10 import Cifar10


class Cifar100(Cifar10):
    """CIFAR-100: 50,000 + 10,000 photographs of a hundred things (or 20 kinds: coarse_label), 32x32."""

    name = "cifar100"
    label = "fine_label"
    needs = ("train.bin and test.bin (or the parquet shards train-*, test-*)",)
    repository = "uoft-cs/cifar100"
    batches = {"train": ["train"], "test": ["test"]}  # noqa: RUF012
    folder = "cifar-100-binary"
    columns = ("coarse_label", "fine_label")
    class_names = {}  # noqa: RUF012 -- they lie beside the images
