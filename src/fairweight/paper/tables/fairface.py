"""FairFace, where CelebA cannot be had."""

from __future__ import annotations

from fairweight.paper.tables import Row
from fairweight.paper.tables._faces import FaceTable


class Fairface(FaceTable):
    """A stand-in for CelebA: FairFace, 9,000 + 2,000 faces of 64x64, gender by race and age ≥ 30 by race."""

    protocol, printed = "fairface", False
    source, groups, batch_size, quick_per_cell = "fairface", 7, 128, 2

    def rows(self) -> tuple[Row, ...]:
        schedule = {"name": "cosine"} if self.options["schedule"] == "cosine" else {}
        data = {"split": {"validation": 0.1}, "exemplar": {"source": "validation"}}
        rows: tuple[Row, ...] = ()
        for label, key, title in (("gender", "gender-", "Gender: "), ("age>=30", "age-", "Age ≥ 30: ")):
            base = self.spec(label, "race", data, schedule=schedule, augment=True)
            rows += self.main_rows(base, key, title)
        return rows
