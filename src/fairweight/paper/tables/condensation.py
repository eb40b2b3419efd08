"""A smaller training set."""

from __future__ import annotations

from typing import Any

from fairweight.paper.tables import Row
from fairweight.paper.tables._forml import as_printed, as_product, max_loss, with_reverse
from fairweight.paper.tables.cifar100 import Cifar100
from fairweight.runs.spec import Spec


class Condensation(Cifar100):
    """CIFAR-100, trained again without the tenth that FORML values least; its exemplars: the 1,000 least-forgotten."""

    protocol = "condensation"

    def base(self) -> Spec:
        """Uniform on all of train, which is the same for every seed."""
        return super().base().with_(data_seed=0)

    def rows(self) -> tuple[Row, ...]:
        """The printed rows, and what else could choose the same number of samples."""
        base, drop = self.base(), self.number("drop")
        measured = base.with_(ema_decay=0.9)
        printed = self.chooser(measured, [base] * 2)

        def lowest(measure: str, *runs: Spec) -> dict[str, Any]:
            return {"drop": drop, "lowest": measure, "runs": [run.to_dict() for run in runs], "within": "all"}

        def row(key: str, title: str, rule: Any, theirs: str | None = None, **kind: Any) -> Row:
            spec = base.with_(rows={"train": rule})
            more = {"kind": "control", "against": ("uniform-50k", "random-45k"), **kind}
            return Row(key, title, spec, theirs, **more)

        by_forml, reverse, default = (
            lowest("ema_weighted_loss", run)
            for run in (printed, with_reverse(printed), as_product(printed, self.classes))
        )
        kept = {"drop": drop, "random": 0}
        return (
            Row("uniform-50k", "Uniform 50k", base, "Uniform 50k", against=()),
            Row("random-45k", "Random 45k", base.with_(rows={"train": kept}), "Random 45k", against=("uniform-50k",)),
            row("forml-45k", "FORML 45k, Algorithm 1", by_forml, "FORML 45k", kind="forml"),
            row("forml-45k-reverse", "FORML 45k, reverse look-ahead", reverse, "FORML 45k", kind="forml"),
            row("forml-45k-default", "FORML 45k, default of 0.1", default, kind="forml"),
            row("ema-loss-45k", "EMA of Uniform's loss 45k", lowest("ema_loss", measured)),
            row("forgetting-45k", "Forgetting events 45k", lowest("forgetting_events", base, base)),
            row("random-same-45k", "Random 45k, FORML's counts per class", {**kept, "like": by_forml}),
        )

    def chooser(self, base: Spec, forgetting: list[Spec]) -> Spec:
        """FORML on the least-forgotten exemplars, ten of each class: its history says what to drop."""
        exemplar = {
            "size": 1000 if self.size.limit is None else 300,
            "lowest": "forgetting_events",
            "runs": [run.to_dict() for run in forgetting],
            "balanced": True,
        }
        return as_printed(self, base, max_loss(self)).with_(rows={"exemplar": exemplar})
