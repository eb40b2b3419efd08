"""CIFAR-100."""

from __future__ import annotations

from fairweight.paper.tables._cifar import CifarTable, sizes


class Cifar100(CifarTable):
    """CIFAR-100, ResNet-18, the class as the attribute, 200 epochs."""

    source = "cifar100"
    sizes = sizes(seeds=30, limit=600)
    exemplars = 50
    classes = 100
    rounds = 50
