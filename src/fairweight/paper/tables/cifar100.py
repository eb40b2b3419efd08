"""CIFAR-100."""

from __future__ import annotations

from typing import ClassVar

from fairweight.paper.tables.cifar10 import Cifar10


class Cifar100(Cifar10):
    """CIFAR-100, ResNet-18, the class as the attribute, 200 epochs."""

    source, exemplars, classes, rounds = "cifar100", 50, 100, 50
    hard: ClassVar = {}
