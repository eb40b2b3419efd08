"""ProPublica's COMPAS."""

from __future__ import annotations

import io
from pathlib import Path

from fairweight.data.files import read_bytes
from fairweight.data.options import GroupOptions
from fairweight.data.rows import Rows
from fairweight.data.sets._local_set import LocalSet
from fairweight.data.source import Found, Request
from fairweight.errors import UnreadableFile

_FILE = "compas-scores-two-years.csv"
_INPUTS = (
    "age", "sex", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count", "c_charge_degree",
)  # fmt: skip


class Compas(LocalSet):
    """COMPAS: whether a defendant was charged again within two years; African-American and Caucasian defendants."""

    name = "compas"
    label = "two_year_recid"
    group = ("race",)
    needs = (_FILE,)

    def find(self, request: Request) -> Found:
        rows, note = self.search(request, _read)
        groups = GroupOptions()  # of another attribute, all values are compared
        if request.group is None:
            groups = GroupOptions(only=("African-American", "Caucasian"), rest="drop")
        return Found(self.name, {"train": rows}, self.label, self.group, groups=groups, notes=(note,))


def _read(folder: Path) -> tuple[Rows, str] | None:
    import pandas as pd

    path = folder / _FILE
    if not path.is_file():
        return None
    content = read_bytes(path)
    try:
        frame = pd.read_csv(io.BytesIO(content), dtype=str)
        days = pd.to_numeric(frame["days_b_screening_arrest"])
        # ProPublica's filter: the charge belongs to this screening, the outcome is known, and it is no traffic offence.
        usable = (
            days.between(-30, 30)
            & (frame["is_recid"] != "-1")
            & (frame["c_charge_degree"] != "O")
            & (frame["score_text"] != "N/A")
            & frame["score_text"].notna()
        )
        kept = frame.loc[usable, [*_INPUTS, "two_year_recid"]].reset_index(drop=True)
    except (KeyError, ValueError) as error:  # pandas' errors of parsing are ValueErrors
        raise UnreadableFile(f"{path} is not ProPublica's published file; copy it again.") from error
    note = f"ProPublica's filter keeps {len(kept):,} of {len(frame):,} rows; rows are counted after it."
    return Rows(kept), note
