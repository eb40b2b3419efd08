"""How a score acts on its sample."""

from __future__ import annotations

from fairweight.paper.tables import Row
from fairweight.paper.tables._forml import three_rows
from fairweight.paper.tables.celeba import Celeba


class WeightForm(Celeba):
    """CelebA: FORML's scores as weights of the losses, scales of the logits, or inverse squares with an L1 pull."""

    def rows(self) -> tuple[Row, ...]:
        """Each form by Algorithm 1, under the reverse look-ahead, and with the product's score step."""
        forms = {
            "baseline": ("Baseline", "softmax"),
            "logits": ("Logits", "logit-scale"),
            "inverse-square": ("Inverse Sq. L1", "inverse-square"),
        }
        rows: list[Row] = []
        for key, (title, form) in forms.items():
            default = self.base().with_(method="forml", method_options={"form": form})
            rows += three_rows(self.printed_forml(form=form), default, title, key=key, title=title)
        return (*rows, self.ends()[1])
