"""Adult and COMPAS as the tabular benchmark reads them: which rows are test rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from fairweight.data import Dataset, GroupOptions, Options, Request, Split, TableOptions, load, named_set
from fairweight.data.source import folders

if TYPE_CHECKING:
    import pandas as pd

PART = "part of the benchmark"  # a column that says which rows are put aside
ASIDE = 0.2  # of the rows of COMPAS, drawn once
Rows = Literal["own", "drawn", "aside"]


@dataclass(frozen=True)
class Source:
    """A set, whether the model sees its groups, and where its test rows come from.

    own: as `fairweight train NAME` has them. drawn: by every seed, from all rows. aside: put aside once.
    """

    name: str
    group_in_inputs: bool
    rows: Rows = "own"

    def load(self, folder: str, seed: int) -> Dataset:
        """The data of one seed."""
        seen = self.group_in_inputs
        if self.rows == "own":
            return load(
                self.name, data_dir=folder, seed=seed, options=Options(table=TableOptions(group_in_inputs=seen))
            )
        options = Options(
            table=TableOptions(group_in_inputs=seen, drop=("fnlwgt",) if self.name == "adult" else ()),
            groups=GroupOptions(only=("African-American", "Caucasian"), rest="drop") if self.name == "compas" else None,
            split=Split(column=PART) if self.rows == "aside" else None,
        )
        known = named_set(self.name)
        return load(self.frame(folder), label=known.label, group=known.group, seed=seed, options=options)

    def frame(self, folder: str) -> pd.DataFrame:
        """The rows to divide."""
        import pandas as pd

        request = Request(None, None, folders(folder), False, 0, Options())
        parts = {name: rows.frame for name, rows in named_set(self.name).find(request).parts.items()}
        if self.rows == "drawn":
            return pd.concat(parts.values(), ignore_index=True)
        if self.name == "adult":  # its published test file is what is put aside
            return pd.concat([frame.assign(**{PART: name}) for name, frame in parts.items()], ignore_index=True)
        whole = parts["train"]
        aside = np.random.default_rng(0).random(len(whole)) < ASIDE
        return whole.assign(**{PART: np.where(aside, "test", "train")})


SETTINGS = {
    "adult": Source("adult", False),
    "adult, test rows drawn by every seed": Source("adult", False, "drawn"),
    "adult, sex in the inputs": Source("adult", True),
    "compas": Source("compas", False),
    "compas, race in the inputs": Source("compas", True),
    "compas, race in the inputs, test rows put aside": Source("compas", True, "aside"),
}
