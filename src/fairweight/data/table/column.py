"""What happens to one column: the numbers that were fixed on train rows, and how they are applied."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from fairweight.data._texts import listing
from fairweight.data.table.values import days, numbers, words

if TYPE_CHECKING:
    import pandas as pd

    from fairweight.data.table.rows import Codes
    from fairweight.data.table.values import Numbers


@dataclass(frozen=True)
class Column:
    """A column of inputs: standardised numbers or days, or one place per category."""

    name: str
    kind: Literal["number", "date", "category"]
    form: str = ""  # of numbers or dates, as found in train
    fill: float = 0.0  # median of train: stands for what is missing
    mean: float = 0.0
    std: float = 1.0
    categories: tuple[str, ...] = ()
    other: bool = False  # whether rare categories share a place; new ones then go there
    missing: bool = False  # whether there is a place that says "was missing"

    def features(self) -> list[str]:
        """The names of its inputs."""
        if self.kind == "category":
            names = [f"{self.name}={value}" for value in self.categories]
            names += [f"{self.name}=(other)"] if self.other else []
        else:
            names = [self.name]
        return names + ([f"{self.name}=(missing)"] if self.missing else [])

    def apply(self, values: pd.Series[Any], notes: list[str], where: str) -> Numbers:
        """The inputs of these rows; what train never showed is named in a note."""  # [N, features]
        import numpy as np

        if self.kind == "category":
            return self._one_hot(*words(values), notes, where)
        found = self.raw(values)
        lost = np.isnan(found)
        strange = int((lost & values.notna().to_numpy(dtype=bool)).sum())
        if strange:
            notes.append(
                f"Column {self.name!r}: {strange:,} entries of {where} are no {self.kind} and count as missing."
            )
        if lost.any() and not self.missing:
            notes.append(
                f"Column {self.name!r} is missing in {int(lost.sum()):,} rows of {where} and never in train: "
                "the median of train stands in."
            )
        scaled = (np.where(lost, self.fill, found) - self.mean) / self.std
        return np.stack([scaled, lost.astype(np.float64)], axis=1) if self.missing else scaled[:, None]

    def raw(self, values: pd.Series[Any]) -> Numbers:
        """The numbers or days before scaling, NaN where there are none."""  # [N]
        return numbers(values, self.form) if self.kind == "number" else days(values, self.form)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Column:
        """The column that to_dict described."""
        return cls(**{**values, "categories": tuple(values["categories"])})

    def _one_hot(self, codes: Codes, texts: list[str], notes: list[str], where: str) -> Numbers:
        import numpy as np

        width = len(self.features())
        place = {value: index for index, value in enumerate(self.categories)}
        # One place beyond the last stands for "nowhere": new categories without a shared place are all zeros.
        elsewhere = len(self.categories) if self.other else width
        table = [place.get(text, elsewhere) for text in texts]
        index = np.array([*table, width - 1 if self.missing else width], dtype=np.int64)[codes]  # last: for code -1
        new = sorted(text for text in texts if text not in place)
        if new and not self.other:
            strange = int(((index == elsewhere) & (codes >= 0)).sum())
            notes.append(
                f"Column {self.name!r}: {strange:,} rows of {where} hold values that train never had "
                f"({listing(new, 4)}); all its inputs are 0 there."
            )
        if not self.missing and (lost := int((codes < 0).sum())):
            notes.append(
                f"Column {self.name!r} is missing in {lost:,} rows of {where} and never in train: all its inputs are 0."
            )
        return np.concatenate([np.eye(width), np.zeros((1, width))])[index]
