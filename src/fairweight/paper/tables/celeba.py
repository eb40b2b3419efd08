"""CelebA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fairweight.paper.tables import Row
from fairweight.paper.tables._faces import FaceTable
from fairweight.paper.tables._forml import as_printed, three_rows
from fairweight.runs.spec import Spec


class Celeba(FaceTable):
    """CelebA, Attractive by Male, ResNet-18, Adam, 10 epochs, 128x128."""

    protocol = "celeba"
    without: ClassVar[tuple[str, ...]] = ("max_loss",)
    source, groups, batch_size, quick_per_cell = "celeba", 2, 256, 4
    label, group = "Attractive", "Male"

    def rows(self) -> tuple[Row, ...]:
        return self.main_rows(self.base())

    def base(self) -> Spec:
        """Uniform; the split is published, so seeds differ in the training alone."""
        image = {"crop": 178, "size": 32 if self.quick else 128}
        data = {"image": image, "exemplar": {"source": "validation"}}
        return self.spec(self.label, self.group, data, data_seed=0)

    def printed_forml(self, objective: Any = None, **options: Any) -> Spec:
        """FORML as Algorithm 1 prints it."""
        return as_printed(self, self.base(), objective or self.objective(), **options)

    def ablation(self, variants: Mapping[str, tuple[str, dict[str, Any]]]) -> list[Row]:
        """FORML with other options, by key and printed title: Algorithm 1, the reverse look-ahead, our score step."""
        rows: list[Row] = []
        for key, (title, options) in variants.items():
            default = self.base().with_(method="forml", method_options=options)
            rows += three_rows(self.printed_forml(**options), default, title, key=key, title=title)
        return rows

    def ends(self) -> tuple[Row, Row]:
        """The product's default and Uniform, beside the rows of an ablation."""
        base = self.base()
        return (
            Row("forml-default", "FORML, default of 0.1", self.default_forml(base), None, "forml"),
            Row("uniform", "Uniform", base, None, "control", against=()),
        )
