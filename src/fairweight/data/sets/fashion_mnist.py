"""Fashion-MNIST."""

from fairweight.data.sets.mnist import Mnist


class FashionMnist(Mnist):
    """Fashion-MNIST: 60,000 + 10,000 pieces of clothing, 28x28 grey; the class stands for the group."""

    name = "fashion-mnist"
    repository = "zalando-datasets/fashion_mnist"
    prefix = "fashion_mnist/"
    class_names = (
        "T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    )  # fmt: skip
