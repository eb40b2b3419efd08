"""MNIST."""

from __future__ import annotations

from fairweight.data._found import Found, Request
from fairweight.data.sets._local import Place
from fairweight.data.sets._mnist import NEEDS, find_idx


class Mnist:
    """MNIST: 60,000 + 10,000 handwritten digits, 28x28 grey; the digit stands for the group."""

    label = "label"
    group: tuple[str, ...] = ()
    needs = NEEDS
    place = Place("mnist", NEEDS, "ylecun/mnist")

    def find(self, request: Request) -> Found:
        """Its two parts."""
        return find_idx(self.place, tuple("0123456789"), request)
