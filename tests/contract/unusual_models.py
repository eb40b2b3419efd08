"""Small models that use parameters in ways of their own: adapters, bags, complex numbers, writing in place, hooks."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

CLASSES = 3


class Lora(nn.Module):
    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.a = nn.Parameter(0.3 * torch.randn(2, layer.in_features))
        self.b = nn.Parameter(torch.zeros(layer.out_features, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + 2.0 * (x @ self.a.T @ self.b.T)


class Bags(nn.Module):
    """plain: by an embedding, which has second derivatives."""

    def __init__(self, mode: str, plain: bool = False) -> None:
        super().__init__()
        self.mode, self.plain = mode, plain
        self.bag, self.head = nn.EmbeddingBag(12, 6, mode=mode), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        if not self.plain:
            return self.head(torch.tanh(self.bag(x)))
        rows = F.embedding(x, self.bag.weight)
        return self.head(torch.tanh({"mean": rows.mean, "sum": rows.sum, "max": rows.amax}[self.mode](1)))


class Offsets(nn.Module):
    """Words of all samples end to end."""

    def __init__(self) -> None:
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(12, 6), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.bag(x.flatten(), torch.arange(0, x.numel(), x.shape[1]))))


class Bilinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix, self.head = nn.Bilinear(6, 6, 4), nn.Linear(4, CLASSES)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.head(torch.tanh(self.mix(a, b)))


class Siamese(nn.Module):
    """One encoder on two inputs, and on both end to end along the samples' axis."""

    def __init__(self, joined: bool) -> None:
        super().__init__()
        self.joined, self.encoder, self.head = joined, nn.Linear(6, 5), nn.Linear(10, CLASSES)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        if self.joined:
            a, b = torch.tanh(self.encoder(torch.cat([a, b]))).chunk(2)
        else:
            a, b = torch.tanh(self.encoder(a)), torch.tanh(self.encoder(b))
        return self.head(torch.cat([a * b, (a - b).abs()], dim=1))


class Spectral(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = parametrizations.spectral_norm(nn.Linear(6, 5))
        self.turn = parametrizations.orthogonal(nn.Linear(5, 5))
        self.head = parametrizations.weight_norm(nn.Linear(5, CLASSES))
        self.eval()  # spectral norm moves its vectors in training mode

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.turn(torch.tanh(self.inner(x)))))


class Instance(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 3), nn.InstanceNorm2d(4, affine=True)
        self.scale, self.head = nn.PReLU(4), nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.scale(self.norm(self.conv(x))).amax((2, 3)))


class Straight(torch.autograd.Function):
    """A sign whose gradient goes straight through."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        return x.sign()

    @staticmethod
    def backward(ctx, g):  # type: ignore[no-untyped-def]
        return g

    @staticmethod
    def jvp(ctx, t):  # type: ignore[no-untyped-def]
        return t


class Binary(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(6, 5), nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        weight = Straight.apply(self.inner.weight)
        return self.head(torch.tanh(F.linear(x, weight, self.inner.bias)))


class SometimesDeep(nn.Module):
    """Control flow by the values of the whole batch."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.head = nn.Linear(6, 5), nn.Linear(5, 5), nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        if len(x) > 8 and float(x[0, 0]) < 10:
            h = h + torch.sigmoid(self.b(h))
        return self.head(h)


class Frozen(nn.Module):
    """Parameters under no_grad in one use and not in another; a branch detached; a buffer made of parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.head = nn.Linear(6, 5), nn.Linear(6, 5), nn.Linear(5, CLASSES)
        self.register_buffer("mean", torch.zeros(5, 6))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            teacher = torch.tanh(self.a(x))
            self.mean = 0.9 * self.mean + 0.1 * self.b.weight
        h = torch.tanh(self.a(x)) * teacher + self.b(x).detach() + F.linear(x, self.mean) * torch.sigmoid(self.b(x))
        return self.head(h)


class WritesOver(nn.Module):
    """In place on inputs, on views and on outputs of layers; one view in two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.head = nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, CLASSES)
        self.shift = nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        x = x.clone()
        x[:, :3].mul_(0.5)
        left, right = x[:, :3], x[:, 3:]
        h = self.a(left) + self.b(left) + self.b(right)
        h.add_(self.shift).tanh_()
        y = self.c(h)
        y[:, 0] += self.shift[0]
        y *= 1.5
        y.clamp_(-2, 2)
        return self.head(y)


class Mixing(nn.Module):
    """Samples see each other in one branch alone, and only a little."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.a, self.b = how, nn.Linear(6, 5), nn.Linear(6, 5)
        self.head = nn.Linear(5, CLASSES)
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x: Tensor) -> Tensor:
        h, other = torch.tanh(self.a(x)), torch.tanh(self.b(x))
        if self.how == "mean":
            other = other + 0.01 * other.mean(0)
        elif self.how == "attention":
            other = (other @ other.T).softmax(-1) @ other
        elif self.how == "shuffled":
            other = other.roll(1, 0)
        elif self.how == "norm":
            other = 0.01 * self.norm(other)
        elif self.how == "largest":
            other = other / other.abs().max()
        elif self.how == "by values" and bool(x[:, 0].sum() > 0):
            other = other + 0.1 * other.flip(0)
        elif self.how == "part":
            here = (x[:, 0] > 0).nonzero().flatten()
            other = torch.zeros_like(h).index_add(0, here, torch.tanh(self.b(x[here])))
        elif self.how == "neighbours":
            other = other + torch.cat([torch.zeros_like(other[:1]), other[:-1]])
        return self.head(h + other)


class Scalars(nn.Module):
    """Parameters without an axis, of one entry, and one that is used as an exponent and an index."""

    def __init__(self) -> None:
        super().__init__()
        self.t, self.power = nn.Parameter(torch.tensor(0.7)), nn.Parameter(torch.tensor([1.5]))
        self.rows, self.head = nn.Parameter(torch.randn(4, 6)), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        pick = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
        h = (x.abs() + 0.5) ** self.power + self.rows[pick] * self.t
        return self.head(torch.tanh(h / self.t.exp())) * torch.sigmoid(self.t)


class Frequencies(nn.Module):
    """Complex parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(4, dtype=torch.complex64))
        self.head = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(torch.fft.irfft(torch.fft.rfft(x) * self.filter, n=6)))

    def double(self) -> Frequencies:
        super().double()
        self.filter = nn.Parameter(self.filter.detach().to(torch.complex128))
        return self


def _clamp(p: Tensor) -> None:
    p.grad.clamp_(-0.01, 0.01)


class Hooked(nn.Module):
    """Hooks on parameters, which change the gradient and act when it is there."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.head = nn.Linear(6, 5), nn.Linear(5, CLASSES)
        self.a.weight.register_hook(lambda slope: 2 * slope)
        self.a.bias.register_post_accumulate_grad_hook(_clamp)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.a(x)))


class OneLogit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 5), nn.Parameter(torch.randn(5))

    def forward(self, x: Tensor) -> Tensor:
        z = torch.tanh(self.a(x)) @ self.b
        return torch.stack([z, -z, z * z], dim=1)


class ManyForms(nn.Module):
    """The same product written in every way."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.u, self.c = (nn.Parameter(0.4 * torch.randn(6, 6)) for _ in range(3))
        self.v, self.head = nn.Parameter(torch.randn(6)), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = (
            torch.einsum("bi,ij->bj", x, self.w)
            + torch.baddbmm(x[:, None], x[:, None], self.u.expand(len(x), 6, 6))[:, 0]
        )
        h = torch.tanh(h) + (self.c @ x.T).T + torch.addmv(x.sum(1), x, self.v)[:, None]
        h = torch.addcmul(h, x, self.v, value=0.5) + torch.lerp(x, h, self.v) + torch.dist(self.w, self.u)
        return self.head(torch.where(x > 0, h, self.v) - self.v.softmax(0) + torch.outer(x[:, 0], self.v))
