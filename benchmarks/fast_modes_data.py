"""What benchmarks/fast_modes.py trains on: digits, MNIST or CIFAR-10, a fifth of the train labels set to one class.

python benchmarks/fast_modes_data.py --data FOLDER --out cifar10.npz      # a part of CIFAR-10 as one file of 48 MB
"""

from __future__ import annotations

import argparse
import gzip
import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from fairweight.data import Normalize
from fairweight.models.mlp import MLP
from fairweight.models.resnet import ResNet18
from fairweight.sampling import generator
from fairweight.types import Batch

WRONG = 2  # the label that a fifth of the train samples get, as in LB's experiment on MNIST


@dataclass(frozen=True)
class Setting:
    """How one set is divided and trained on; none of it was chosen here."""

    name: str
    model: Callable[[], nn.Module]
    words: str
    block: str  # the last block before the head, as a scope
    train: int
    held: int  # exemplars, and as many validation samples
    test: int
    epochs: int
    batch: int
    per_class: int
    images: bool = False  # augmented, bfloat16, Nesterov momentum, weight decay and a cosine schedule


def _resnet() -> nn.Module:
    return nn.Sequential(Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)), ResNet18(10))


SETTINGS = {
    "digits": Setting("digits", lambda: MLP(64, 10, (64, 64)), "MLP 64-64", "layers.3", 900, 200, 400, 20, 64, 5),
    "mnist": Setting(
        "mnist", lambda: MLP(784, 10, (256, 256)), "MLP 256-256", "layers.3", 12_800, 2_000, 10_000, 10, 128, 10
    ),
    "cifar10": Setting(
        "cifar10", _resnet, "ResNet-18, bfloat16", "stages.7,head", 20_000, 2_000, 5_000, 10, 128, 3, images=True
    ),
}


def quick(setting: Setting) -> Setting:
    """A shortened one, to see that everything runs."""
    return replace(setting, train=min(setting.train, 640), held=min(setting.held, 200), test=400, epochs=2)


@dataclass(frozen=True)
class Parts:
    """One seed's draw; labels of train are corrupted, the others are not."""

    train: Batch
    exemplar: Batch
    validation: Batch
    test: Batch

    def to(self, device: str) -> Parts:
        """All of it on a device."""
        return Parts(*(part.to(device) for part in (self.train, self.exemplar, self.validation, self.test)))


def drawn(setting: Setting, pixels: tuple[Tensor, Tensor, Tensor, Tensor], seed: int) -> Parts:
    """Train, exemplar and validation rows from the set's train part, drawn by the seed; the same test rows always."""
    x, y, test_x, test_y = pixels
    order = torch.randperm(len(x), generator=generator("fast modes", seed))
    held, rest = setting.held, setting.train
    exemplar, validation, train = order[:held], order[held : 2 * held], order[2 * held : 2 * held + rest]
    labels = y[train].clone()
    labels[torch.randperm(len(labels), generator=generator("wrong labels", seed))[: len(labels) // 5]] = WRONG
    return Parts(
        Batch(x[train], labels),
        Batch(x[exemplar], y[exemplar]),
        Batch(x[validation], y[validation]),
        Batch(test_x[: setting.test], test_y[: setting.test]),
    )


def read(setting: Setting, folder: Path) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Train images and labels, test images and labels."""
    if setting.name == "digits":
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(x))
        x, y = torch.tensor(x[order] / 16.0).float(), torch.tensor(y[order])
        return x[400:], y[400:], x[:400], y[:400]
    if setting.name == "mnist":
        parts = [
            _idx(folder / f"{part}-{kind}.gz")
            for part in ("train", "t10k")
            for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")
        ]
        images = [torch.tensor(parts[k]).flatten(1).float() / 255 for k in (0, 2)]
        return images[0], torch.tensor(parts[1]).long(), images[1], torch.tensor(parts[3]).long()
    return _unpacked(folder) if folder.suffix == ".npz" else _cifar(folder)


def _idx(path: Path) -> np.ndarray:
    raw = gzip.decompress(path.read_bytes())
    start = 4 + 4 * raw[3]
    shape = [int.from_bytes(raw[4 + 4 * k : 8 + 4 * k], "big") for k in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)


def _cifar(folder: Path) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    from fairweight.data import load

    found = load("cifar10", data_dir=folder)
    parts = [part for part in (found.train, found.validation, found.exemplar) if part is not None]
    read_in = [part.take(torch.arange(len(part))) for part in (*parts, found.test)]
    x = torch.cat([batch.inputs for batch in read_in[:-1]])  # type: ignore[misc]
    order = torch.cat([found.rows[name] for name in ("train", "validation", "exemplar") if name in found.rows])
    back = torch.argsort(order)  # the order of the source, whatever the split was
    y = torch.cat([batch.labels for batch in read_in[:-1]])
    return x[back], y[back], read_in[-1].inputs, read_in[-1].labels  # type: ignore[return-value]


def pack(setting: Setting, folder: Path, out: Path) -> None:
    """The rows that a setting can use, as lossless WebP in one file."""
    from PIL import Image

    x, y, test_x, test_y = _cifar(folder)
    count = setting.train + 2 * setting.held
    x, y = torch.cat([x[:count], test_x[: setting.test]]), torch.cat([y[:count], test_y[: setting.test]])
    files = []
    for image in x:
        buffer = io.BytesIO()
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(
            buffer, "WEBP", lossless=True, quality=0, method=2
        )  # effort, not loss
        files.append(buffer.getvalue())
    np.savez(
        out,
        bytes=np.frombuffer(b"".join(files), np.uint8),
        lengths=np.array([len(file) for file in files]),
        labels=y.numpy(),
        test=np.array(setting.test),
    )


def _unpacked(path: Path) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    from PIL import Image

    with np.load(path, allow_pickle=False) as stored:
        raw, ends = stored["bytes"].tobytes(), np.cumsum(stored["lengths"])
        labels, test = torch.tensor(stored["labels"]), int(stored["test"])
    images = []
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        with Image.open(io.BytesIO(raw[start:end])) as image:
            images.append(np.asarray(image.convert("RGB")))
    x = torch.tensor(np.stack(images)).permute(0, 3, 1, 2).contiguous()  # [N, 3, 32, 32] uint8
    return x[:-test], labels[:-test], x[-test:], labels[-test:]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    pack(SETTINGS["cifar10"], given.data, given.out)
