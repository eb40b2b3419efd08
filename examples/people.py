"""Writes people.csv: 6,000 made-up loan applications, in which good applicants of group b look different.

python examples/people.py
"""

import numpy as np
import pandas as pd


def people(size: int = 6_000, seed: int = 0) -> pd.DataFrame:
    """One row per applicant: four inputs, a group, and whether the loan was paid back."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], size, p=[0.75, 0.25])
    age = rng.integers(20, 70, size)
    income = rng.gamma(4, 9, size)
    savings = rng.gamma(1.5, 4, size)
    region = np.where(rng.random(size) < np.where(group == "b", 0.85, 0.15), "south", "north")
    earns = (income > 38) & (age % 10 != 0) | (age > 60)  # how group a pays back
    saves = (savings > 8) & (age > 25)  # how group b does
    chance = np.where(np.where(group == "a", earns, saves), 0.9, 0.12)
    paid = rng.random(size) < chance
    columns = {"age": age, "income": income.round(1), "savings": savings.round(1), "region": region, "group": group}
    return pd.DataFrame({**columns, "paid": np.where(paid, "yes", "no")})


if __name__ == "__main__":
    people().to_csv("people.csv", index=False)
