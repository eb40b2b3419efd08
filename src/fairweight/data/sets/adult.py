"""UCI Adult."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from fairweight.data.files import read_bytes
from fairweight.data.rows import Rows
from fairweight.data.sets._local_set import LocalSet
from fairweight.data.source import Found, Request
from fairweight.errors import UnreadableFile

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip


class Adult(LocalSet):
    """UCI Adult: whether a person earned more than 50,000 in 1994; groups by sex, 32,561 + 16,281 rows."""

    name = "adult"
    label = "income"
    group = ("sex",)
    needs = ("adult.data", "adult.test")

    def find(self, request: Request) -> Found:
        note = "Left out: 'fnlwgt', which says how many people a row stands for, not who they are."
        parts = self.search(request, self._read)
        return Found(self.name, parts, self.label, self.group, exclude=("fnlwgt",), notes=(note,))

    def _read(self, folder: Path) -> dict[str, Rows] | None:
        files = {"train": folder / "adult.data", "test": folder / "adult.test"}
        complete = all(path.is_file() for path in files.values())
        return {name: Rows(_frame(path)) for name, path in files.items()} if complete else None


def _frame(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        # adult.test begins with a remark ("|1x3 Cross validator") and ends its labels with a dot.
        frame = pd.read_csv(
            io.BytesIO(read_bytes(path)), header=None, names=list(_COLUMNS), comment="|", skipinitialspace=True,
            na_values=["?"], dtype=str, index_col=False,
        )  # fmt: skip
        frame["income"] = frame["income"].str.rstrip(".")
    except (pd.errors.ParserError, UnicodeDecodeError, pd.errors.EmptyDataError, AttributeError):
        frame = pd.DataFrame({"income": [None]})
    if not frame["income"].isin(["<=50K", ">50K"]).all():
        raise UnreadableFile(f"{path} is not the published file of UCI Adult; copy it again.")
    return frame
