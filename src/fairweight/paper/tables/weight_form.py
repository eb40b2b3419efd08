"""How a score acts on its sample."""

from __future__ import annotations

from fairweight.paper.tables import Row
from fairweight.paper.tables.celeba import Celeba


class WeightForm(Celeba):
    """CelebA: FORML's scores as weights of the losses, scales of the logits, or inverse squares with an L1 pull."""

    def rows(self) -> tuple[Row, ...]:
        """Each form by Algorithm 1, under the reverse look-ahead, and with the product's score step."""
        forms = {
            "baseline": ("Baseline", {"form": "softmax"}),
            "logits": ("Logits", {"form": "logit-scale"}),
            "inverse-square": ("Inverse Sq. L1", {"form": "inverse-square"}),
        }
        return (*self.ablation(forms), self.ends()[1])
