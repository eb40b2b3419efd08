"""Metric-optimized example weights."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairweight.constraints import SEED, constrained, either, whole
from fairweight.errors import BadInput, NotBegun, UnknownName
from fairweight.metagradient.passes import classification_loss
from fairweight.methods._fixed_weights import KnownWeights, Through, by_row
from fairweight.types import Batch, Loss, Samples

_log = logging.getLogger("fairweight")
HIDDEN = 100  # units of the autoencoder's outer layers
BATCH_SIZE = 100  # of its training
CHUNK = 1024  # rows encoded at a time


@constrained(dimension=whole(1), embedding_steps=whole(1), seed=either(SEED))
class MOEW(KnownWeights):
    """Weighs each sample by σ(α·z), z its one-hot label or an embedding of (x, y), for one α in a run.

    alpha: one number per label, or per column of the embedding; None counts all alike
    (`AlphaSearch` in runs/search finds it over many runs). embedding: "label"; "autoencoder", fitted at begin
    with `dimension` numbers a sample; or a tensor [N, d] by row, such as `autoencode` gives, to share over many runs.
    """

    paper = "Zhao, Fard, Narasimhan, Gupta 2019, arXiv 1805.10582"
    _kept = ("alpha", "_each")
    search: ClassVar = {"name": "alpha", "rounds": 3, "per_round": 4}  # affordable; the paper's has 10 rounds of 20

    def __init__(
        self,
        model: nn.Module,
        num_samples: int,
        *,
        alpha: Sequence[float] | Tensor | None = None,
        embedding: Literal["label", "autoencoder"] | Tensor = "label",
        dimension: int = 10,
        embedding_steps: int = 10_000,
        seed: int | None = None,
        through: Through = "loss",
        loss: Loss = classification_loss,
    ) -> None:
        super().__init__(model, num_samples, through=through, loss=loss)
        if isinstance(embedding, str) and embedding not in ("label", "autoencoder"):
            raise UnknownName(f"MOEW(embedding={embedding!r}): choose 'label', 'autoencoder', or give a tensor.")
        self.embedding: str = embedding if isinstance(embedding, str) else "given"
        self.dimension, self.embedding_steps = dimension, embedding_steps
        self.seed = torch.initial_seed() if seed is None else seed
        self.alpha = None if alpha is None else torch.as_tensor(alpha, dtype=torch.float32).to(self.device)  # [d]
        if self.alpha is not None and (self.alpha.ndim != 1 or not bool(self.alpha.isfinite().all())):
            raise BadInput("MOEW(alpha=...): give one finite number per label, or per column of the embedding.")
        if isinstance(embedding, Tensor):
            if embedding.ndim != 2 or len(embedding) != num_samples:
                raise BadInput(
                    f"MOEW(embedding=...) has shape {tuple(embedding.shape)}; give [{num_samples}, d], one line a row."
                )
            self._embed(embedding)

    def begin(self, train: Samples, exemplar: Samples | None = None) -> None:
        super().begin(train, exemplar)
        if self.alpha is None:
            _log.warning(
                "MOEW was given no alpha, so every sample counts alike; AlphaSearch finds one over many trainings, as "
                "`fairweight train --method moew` does."
            )
        if self.embedding == "autoencoder" and self.alpha is not None and self._each is None:
            z = autoencode(train, self.dimension, steps=self.embedding_steps, seed=self.seed, device=self.device)
            self._embed(by_row(z, train, self, other=0.0))

    def check_values(self, batch: Batch, exemplar: Batch | None) -> None:
        super().check_values(batch, exemplar)
        if self.alpha is not None and self.embedding == "label" and int(batch.labels.max()) >= len(self.alpha):
            raise BadInput(
                f"The batch has label {int(batch.labels.max())} and MOEW's alpha {len(self.alpha)} numbers; "
                "give one per label."
            )

    def relative(self, batch: Batch) -> Tensor:
        """σ(α·z) of each sample."""  # [B]
        if self.alpha is not None and self.embedding == "label":
            return torch.sigmoid(self.alpha)[batch.labels]
        if self.alpha is not None and self._each is None:
            raise NotBegun("MOEW(embedding='autoencoder') embeds the training set; call begin(train) first (fit does).")
        return super().relative(batch)

    def _embed(self, z: Tensor) -> None:
        if self.alpha is None:
            return
        if z.shape[1] != len(self.alpha):
            raise BadInput(f"MOEW's alpha has {len(self.alpha)} numbers and the embedding {z.shape[1]} columns.")
        self._each = torch.sigmoid(z.to(self.device, torch.float32) @ self.alpha)


def autoencode(
    train: Samples, dimension: int = 10, *, steps: int = 10_000, seed: int = 0, device: torch.device | str = "cpu"
) -> Tensor:
    """The narrow layer, sigmoid, of an autoencoder of (inputs, one-hot label); MOEW's embedding.

    Inputs are standardised by column. Draws from a stream of its own: the caller's is left alone.
    """  # [N, d]
    classes = int(train.labels.max()) + 1
    mean, spread = _scale(train, torch.device(device))
    d = len(mean)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        embed = nn.Sequential(nn.Linear(d + classes, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, dimension), nn.Sigmoid())
        restore = nn.Sequential(nn.Linear(dimension, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, d + classes))
        stream = torch.default_generator.clone_state()
    embed, restore = embed.to(device), restore.to(device)

    def joined(batch: Batch) -> Tensor:
        x = (_flat(batch).to(mean) - mean) / spread
        return torch.cat([x, F.one_hot(batch.labels.to(mean.device), classes).to(x.dtype)], dim=1)

    optimizer = torch.optim.Adam([*embed.parameters(), *restore.parameters()], lr=1e-3)
    with torch.enable_grad():
        for _ in range(steps):
            rows = torch.randint(len(train), (min(BATCH_SIZE, len(train)),), generator=stream)
            xy = joined(train.take(rows.to(train.labels.device)))
            made = restore(embed(xy))
            loss = F.mse_loss(made[:, :d], xy[:, :d]) + F.mse_loss(made[:, d:], xy[:, d:])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    with torch.no_grad():
        return torch.cat([embed(joined(batch)) for batch in _chunks(train)])


def _chunks(train: Samples) -> Iterator[Batch]:
    for places in torch.split(torch.arange(len(train), device=train.labels.device), CHUNK):
        yield train.take(places)


def _flat(batch: Batch) -> Tensor:
    if not isinstance(batch.inputs, Tensor):
        raise BadInput(
            f"The autoencoder reads one tensor per batch and was given {type(batch.inputs).__name__}; use "
            "embedding='label', or give an embedding tensor [samples, numbers] of your own."
        )
    return batch.inputs.reshape(len(batch), -1).float()


def _scale(train: Samples, device: torch.device) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of every column; a constant column is left as it is."""  # [D], [D]
    total = square = torch.zeros((), dtype=torch.float64, device=device)
    for batch in _chunks(train):
        x = _flat(batch).to(device).double()
        total, square = total + x.sum(dim=0), square + x.square().sum(dim=0)
    mean = total / len(train)
    spread = (square / len(train) - mean.square()).clamp_min(0).sqrt()
    return mean.float(), torch.where(spread > 1e-6, spread, 1.0).float()
