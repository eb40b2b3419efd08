"""A mean over seeds with its standard error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Mean:
    """A mean over seeds with its standard error."""

    value: float
    error: float  # standard deviation (n - 1) over the root of n; NaN for one value alone
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Of these values; NaN where there are none."""
        if not values:
            return cls(math.nan, math.nan, 0)
        mean = math.fsum(values) / len(values)
        spread = (
            math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)) if len(values) > 1 else math.nan
        )
        return cls(mean, spread / math.sqrt(len(values)), len(values))

    def to_dict(self) -> dict[str, float | int | None]:
        """Plain values, None for what cannot be said."""
        plain = {"mean": self.value, "standard_error": self.error}
        return {**{key: None if math.isnan(v) else v for key, v in plain.items()}, "n": self.n}

    def text(self, digits: int = 2) -> str:
        """For people: "8.79 ± 0.14"."""
        if self.n == 0:
            return "–"
        error = "" if math.isnan(self.error) else f" ± {self.error:.{digits}f}"
        return f"{self.value:.{digits}f}{error}"
