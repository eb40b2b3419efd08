"""CIFAR-10."""

from fairweight.data.sets._cifar import CifarSet


class Cifar10(CifarSet):
    """CIFAR-10: 50,000 + 10,000 photographs of ten things, 32x32; the class stands for the group."""

    name = "cifar10"
    label = "label"
    needs = ("data_batch_1.bin to data_batch_5.bin, test_batch.bin (or the parquet shards train-*, test-*)",)
    repository = "uoft-cs/cifar10"
    batches = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}  # noqa: RUF012
    folder = "cifar-10-batches-bin"
    columns = ("label",)
    class_names = {  # noqa: RUF012
        "label": ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    }
