"""CIFAR-10."""

from __future__ import annotations

from typing import ClassVar

from fairweight.paper.tables._cifar import CifarTable, sizes


class Cifar10(CifarTable):
    """CIFAR-10, ResNet-18, the class as the attribute, 200 epochs."""

    source = "cifar10"
    sizes = sizes(seeds=30, limit=600)
    exemplars = 500
    classes = 10
    rounds = 20
    hard: ClassVar = {2: 0.5, 3: 1.0, 4: 0.0, 5: 0.5}  # bird, cat, deer, dog: cats count twice as much as ships
