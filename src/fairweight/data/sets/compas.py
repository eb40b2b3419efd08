"""ProPublica's COMPAS."""

from __future__ import annotations

from pathlib import Path

from fairweight.data._found import Found, Request, digest
from fairweight.data.options import GroupOptions
from fairweight.data.sets._local import Place
from fairweight.data.table.rows import FrameRows
from fairweight.errors import UnreadableFile

_FILE = "compas-scores-two-years.csv"
_INPUTS = (
    "age",
    "sex",
    "race",
    "juv_fel_count",
    "juv_misd_count",
    "juv_other_count",
    "priors_count",
    "c_charge_degree",
)


class Compas:
    """COMPAS: whether a defendant was charged again within two years; African-American and Caucasian defendants."""

    label = "two_year_recid"
    group = ("race",)
    needs = (_FILE,)
    place = Place("compas", (_FILE,))

    def find(self, request: Request) -> Found:
        """ProPublica's rows, as train: test rows are drawn."""
        rows, notes = self.place.search(request, _read)
        groups = GroupOptions(only=("African-American", "Caucasian"), rest="drop")
        # Who is asked about another attribute compares all of its values.
        own = groups if request.group is None else GroupOptions()
        return Found(
            "compas", {"train": rows}, self.label, self.group, groups=own, notes=notes, content={"train": digest(rows)}
        )


def _read(folder: Path) -> tuple[FrameRows, tuple[str, ...]] | None:
    import pandas as pd

    path = folder / _FILE
    if not path.is_file():
        return None
    try:
        frame = pd.read_csv(path, dtype=str)
        days = pd.to_numeric(frame["days_b_screening_arrest"])
        # ProPublica's filter: the charge belongs to this screening, the outcome is known, and it is no traffic offence.
        usual = (
            days.between(-30, 30)
            & (frame["is_recid"] != "-1")
            & (frame["c_charge_degree"] != "O")
            & (frame["score_text"] != "N/A")
            & frame["score_text"].notna()
        )
        kept = frame.loc[usual, [*_INPUTS, "two_year_recid"]].reset_index(drop=True)
    except (KeyError, ValueError, pd.errors.ParserError) as error:
        raise UnreadableFile(f"{path} is not ProPublica's published file; copy it again.") from error
    note = f"ProPublica's filter keeps {len(kept):,} of {len(frame):,} rows; rows are counted after it."
    return FrameRows(kept), (note,)
