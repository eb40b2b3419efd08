"""The sets that judgement.py is settled on: published tables, and harder ones drawn from them with a seed.

Every frame has the columns `label` (1: positive), `group` and `part` (train or test) beside its inputs. The group is
not among the inputs, so a model is blind to it unless it is handed over at prediction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairweight.data import Dataset, LabelOptions, Options, Request, Split, load, named_set
from fairweight.data.source import folders

LABEL, GROUP, PART = "label", "group", "part"
ROWS, TEST_ROWS = 8_000, 20_000  # at most, for learning and for the test
TEST_SHARE = 0.4  # of a set that is small: a gap is judged on few rows


@dataclass(frozen=True)
class Source:
    """A set's whole table, and how many of its rows are for learning (None: what the command asks for)."""

    read: Callable[[Path, np.random.Generator], pd.DataFrame]
    about: str
    rows: int | None = None


@dataclass(frozen=True)
class Task:
    """One set and seed, ready for every method: rows to learn from and test rows, as frames and as arrays."""

    name: str
    seed: int
    frame: pd.DataFrame
    fit_inputs: np.ndarray[Any, Any]  # [N, D]
    fit_labels: np.ndarray[Any, Any]  # [N]
    fit_groups: np.ndarray[Any, Any]  # [N]
    test_inputs: np.ndarray[Any, Any]  # [M, D]
    test_labels: np.ndarray[Any, Any]  # [M]
    test_groups: np.ndarray[Any, Any]  # [M]

    @property
    def test_rows(self) -> str:
        """Short name of the test rows, the same for every method of a seed."""
        text = self.frame[self.frame[PART] == "test"].to_csv(index=False)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def task(name: str, seed: int, data: Path, rows: int = ROWS) -> Task:
    """Draw the rows of one set and seed, and put them through the library's preprocessing."""
    frame = drawn(name, seed, data, rows)
    dataset = loaded(frame, seed)
    parts = [dataset.train, dataset.exemplar, dataset.validation]
    # A part's inputs, labels and groups are tensors in one order: peers learn from all three parts.
    x, y, a = (np.concatenate([getattr(part, key).numpy() for part in parts]) for key in ("inputs", "labels", "groups"))
    test = dataset.test
    return Task(name, seed, frame, x, y, a, test.inputs.numpy(), test.labels.numpy(), test.groups.numpy())


def loaded(frame: pd.DataFrame, seed: int, **options: Any) -> Dataset:
    """Load such a frame as `fairweight train` does."""
    wanted = Options(labels=LabelOptions(positive="1"), split=Split(column=PART), **options)
    return load(frame, label=LABEL, group=GROUP, seed=seed, options=wanted)


def drawn(name: str, seed: int, data: Path, rows: int = ROWS) -> pd.DataFrame:
    """Shuffle a set by the seed and mark its parts, stratified by cell: so many rows for learning, the rest test."""
    source = sources()[name]
    rng = np.random.default_rng([seed, *name.encode()])
    whole = source.read(data, rng)
    whole = whole.iloc[rng.permutation(len(whole))].reset_index(drop=True)
    wanted = source.rows or rows
    learn = min(wanted, round(len(whole) * (1 - TEST_SHARE)))
    test = min(TEST_ROWS, len(whole) - learn)
    cell = whole.groupby([LABEL, GROUP])
    place, size = cell.cumcount(), cell[LABEL].transform("size")
    # The first rows of each cell are test, the next are for learning, in the same share of every cell.
    share = (place + 0.5) / size
    part = np.select([share < test / len(whole), share < (test + learn) / len(whole)], ["test", "train"], "")
    return whole.assign(**{PART: part})[part != ""].reset_index(drop=True)


def marked(frame: pd.DataFrame, label: pd.Series, group: pd.Series, leave_out: tuple[str, ...]) -> pd.DataFrame:
    """Inputs with the label as 0 and 1, and the group as text."""
    inputs = frame.drop(columns=list(leave_out))
    return inputs.assign(**{LABEL: label.astype(int).to_numpy(), GROUP: group.astype(str).to_numpy()})


def _named(name: str, data: Path) -> pd.DataFrame:
    found = named_set(name).find(Request(None, None, folders(data), False, 0, Options()))
    return pd.concat([rows.frame for rows in found.parts.values()], ignore_index=True)


def adult(data: Path, rng: np.random.Generator) -> pd.DataFrame:
    """Adult by sex."""
    frame = _named("adult", data)
    return marked(frame, frame["income"] == ">50K", frame["sex"], ("income", "sex", "fnlwgt"))


def compas(data: Path, rng: np.random.Generator) -> pd.DataFrame:
    """COMPAS by race."""
    frame = _named("compas", data)
    frame = frame[frame["race"].isin(["African-American", "Caucasian"])]
    return marked(frame, frame["two_year_recid"].astype(str) == "1", frame["race"], ("two_year_recid", "race"))


def bank(data: Path, rng: np.random.Generator) -> pd.DataFrame:
    """Bank marketing by marital status, without what is known only after the call."""
    frame = pd.read_csv(data / "tables" / "bank.csv")
    return marked(frame, frame["y"] == "yes", frame["marital"], ("y", "marital", "duration"))


def credit(data: Path, rng: np.random.Generator) -> pd.DataFrame:
    """Credit card default by sex."""
    frame = pd.read_csv(data / "tables" / "credit.csv")
    sex = frame["SEX"].map({1: "male", 2: "female"})
    return marked(frame, frame["default payment"] == 1, sex, ("default payment", "SEX"))


def communities(data: Path, rng: np.random.Generator) -> pd.DataFrame:
    """Communities and crime; positive is the good outcome, since of the other label one group has seven rows."""
    frame = pd.read_csv(data / "tables" / "communities.csv")
    out = ("class", "Black", "ViolentCrimesPerPop", "communityname", "state", "fold")
    black = frame["Black"].map({0: "few", 1: "many"})
    return marked(frame, frame["class"] == 0, black, tuple(name for name in out if name in frame))


def student(data: Path, rng: np.random.Generator) -> pd.DataFrame:
    """Student performance by sex."""
    frame = pd.read_csv(data / "tables" / "student.csv")
    return marked(frame, frame["class"] == "High", frame["sex"], ("class", "sex"))


def thinned(frame: pd.DataFrame, positives: float, rng: np.random.Generator) -> pd.DataFrame:
    """Leave out rows of one label, at random in every group, until this share is positive."""
    label = frame[LABEL].to_numpy()
    share = label.mean()
    rare = 1 if positives < share else 0
    other = (label != rare).sum()
    aim = positives if rare == 1 else 1 - positives
    keep = other * aim / (1 - aim) / (label == rare).sum()
    return frame[(label != rare) | (rng.random(len(frame)) < keep)].reset_index(drop=True)


def rare(data: Path, rng: np.random.Generator) -> pd.DataFrame:
    """Adult by age with 6 % positives; by sex, plain training would have no gap left to close."""
    frame = _named("adult", data)
    age = pd.Series(np.where(frame["age"].astype(int) >= 35, "35 or older", "younger"))
    return thinned(marked(frame, frame["income"] == ">50K", age, ("income", "age", "fnlwgt")), 0.06, rng)


def common(data: Path, rng: np.random.Generator) -> pd.DataFrame:
    """Adult with 90 % positives."""
    return thinned(adult(data, rng), 0.9, rng)


def wide(data: Path, rng: np.random.Generator) -> pd.DataFrame:
    """Credit with the products of its amounts and shuffled copies of all columns, which say nothing: 200 columns."""
    frame = credit(data, rng)
    inputs = frame.drop(columns=[LABEL, GROUP]).astype(float)
    amounts = [name for name in inputs if "AMT" in name]
    more = {
        f"{a} x {b}": np.sign(inputs[a] * inputs[b]) * np.sqrt((inputs[a] * inputs[b]).abs())
        for place, a in enumerate(amounts)
        for b in amounts[place:]
    }
    for copy in range(5):
        more |= {f"shuffled {copy} {name}": rng.permutation(inputs[name].to_numpy()) for name in inputs}
    return pd.concat([frame, pd.DataFrame(more)], axis=1)


SETS = {
    "adult": Source(adult, "Adult by sex, 24 % positive"),
    "compas": Source(compas, "COMPAS by race, 47 % positive"),
    "bank": Source(bank, "bank marketing by marital status, 12 % positive"),
    "credit": Source(credit, "credit card default by sex, 22 % positive"),
    "communities": Source(
        communities, "communities and crime by share of black inhabitants, 94 % positive, 99 columns"
    ),
    "student": Source(student, "student performance by sex, 85 % positive, 649 rows"),
    "rare": Source(rare, "Adult by age, thinned to 6 % positive"),
    "common": Source(common, "Adult by sex, thinned to 90 % positive"),
    "small": Source(adult, "Adult by sex, 1,000 rows to learn from", rows=1_000),
    "wide": Source(wide, "credit by sex with products and shuffled columns: 210 columns, 2,000 rows", rows=2_000),
}


def sources() -> dict[str, Source]:
    """Every set: those that the rule was settled on, and those that took no part in it."""
    from judgement_outside import OUTSIDE

    return {**SETS, **OUTSIDE}
