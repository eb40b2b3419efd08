"""A small table of people, with everything that a table has."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROWS = 400


def people(rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """Numbers, categories, a date and an id; sex by itself, race to cross it with."""
    draw = np.random.default_rng(seed)
    age = draw.integers(18, 90, rows)
    hours = draw.normal(40, 10, rows).round(1)
    job = draw.choice(["clerk", "cook", "nurse", "pilot"], rows)
    sex = draw.choice(["F", "M"], rows)
    score = (age - 50) / 20 + (hours - 40) / 10 + (job == "pilot") + 0.8 * (sex == "M") + draw.normal(0, 1, rows)
    joined = pd.Timestamp("2001-01-01") + pd.to_timedelta(draw.integers(0, 3000, rows), unit="D")
    return pd.DataFrame(
        {
            "id": np.arange(rows) + 1000,
            "age": age,
            "hours": hours,
            "job": job,
            "joined": joined.strftime("%Y-%m-%d"),
            "sex": sex,
            "race": draw.choice(["a", "b"], rows),
            "income": np.where(score > 0.4, "high", "low"),
        }
    )


def real(name: str) -> Path:
    """The data folder that holds a real set; a test that needs an absent one is skipped."""
    named = os.environ.get("FAIRWEIGHT_DATA")
    folders = [Path(entry) for entry in named.split(os.pathsep)] if named else []
    for folder in [*folders, Path(__file__).resolve().parents[1].parent / "shared" / "data"]:
        if (folder / name).is_dir():
            return folder
    pytest.skip(f"the real set {name} is not in FAIRWEIGHT_DATA or ../shared/data")
