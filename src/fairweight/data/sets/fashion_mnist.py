"""Fashion-MNIST."""

from __future__ import annotations

from fairweight.data._found import Found, Request
from fairweight.data.sets._local import Place
from fairweight.data.sets._mnist import NEEDS, find_idx

_NAMES = ("T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")


class FashionMnist:
    """Fashion-MNIST: 60,000 + 10,000 pieces of clothing, 28x28 grey; the class stands for the group."""

    label = "label"
    group: tuple[str, ...] = ()
    needs = NEEDS
    place = Place("fashion-mnist", NEEDS, "zalando-datasets/fashion_mnist", "fashion_mnist/")

    def find(self, request: Request) -> Found:
        """Its two parts."""
        return find_idx(self.place, _NAMES, request)
