"""MNIST."""

from fairweight.data.sets._mnist import IdxSet


class Mnist(IdxSet):
    """MNIST: 60,000 + 10,000 handwritten digits, 28x28 grey; the digit stands for the group."""

    name = "mnist"
    repository = "ylecun/mnist"
    class_names = tuple("0123456789")
