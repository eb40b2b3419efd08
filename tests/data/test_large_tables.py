"""Large and wide tables: processor time and memory beside pandas' own, in the same process."""

from __future__ import annotations

import logging
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from fairweight.data import Options, Split, TableOptions, load
from fairweight.data.table import leaks
from fairweight.data.table.read import read_frame
from fairweight.data.table.values import TrainColumn


def large(rows: int) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    columns = {f"x{place}": draw.normal(size=rows).round(4) for place in range(6)}
    columns |= {f"n{place}": draw.integers(0, 1000, rows) for place in range(2)}
    columns |= {"colour": draw.choice(["red", "green", "blue"], rows)}
    columns |= {"town": draw.choice([f"town {place}" for place in range(40)], rows)}
    label = columns["x0"] + draw.normal(size=rows) > 0
    return pd.DataFrame({**columns, "sex": draw.choice(["F", "M"], rows), "label": label.astype(int)})


def spent(act) -> float:
    started = time.process_time()
    act()
    return time.process_time() - started


PEAK = """
import resource, sys
import pandas as pd, pyarrow.csv
from pathlib import Path
from fairweight.data import TableOptions
from fairweight.data.table.read import read_frame
def peak():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1])
path = Path(sys.argv[2])
before = peak()
found = pd.read_csv(path) if sys.argv[1] == "pandas" else read_frame([path], TableOptions(), [])
print(peak() - before)
"""


@pytest.mark.slow
def test_a_large_table_is_read_in_twice_pandas_time_and_three_times_its_memory(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("fairweight.data.table.read._LARGE", 1_000_000)
    path = tmp_path / "large.csv"
    large(200_000).to_csv(path, index=False)
    read_frame([path], TableOptions(), [])  # both are warm
    pandas = min(spent(lambda: pd.read_csv(path)) for _ in range(3))
    with caplog.at_level(logging.INFO, "fairweight"):
        ours = min(spent(lambda: read_frame([path], TableOptions(), [])) for _ in range(3))
    assert ours <= 2 * pandas
    assert any("Reading large.csv: 14 MB" in message for message in caplog.messages)
    peaks = {}
    for who in ("pandas", "ours"):
        done = subprocess.run([sys.executable, "-c", PEAK, who, path], capture_output=True, text=True, check=True)
        peaks[who] = int(done.stdout)
    assert peaks["ours"] <= 3 * peaks["pandas"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["numbers", "words"])
def test_a_wide_table_is_loaded_in_time_that_grows_with_its_columns(kind):
    """2,000 columns take at most 20 seconds, and 400 a fifth of that."""
    draw = np.random.default_rng(0)
    if kind == "numbers":
        values = draw.normal(size=(2000, 398)).round(3).astype(str)
    else:
        values = draw.choice([f"word {place}" for place in range(300)], (2000, 398))
    frame = pd.DataFrame(values, columns=[f"f{place}" for place in range(398)])
    frame["sex"], frame["label"] = draw.choice(["F", "M"], 2000), draw.choice(["yes", "no"], 2000)
    assert spent(lambda: load(frame, label="label", group="sex", options=Options(split=Split(test=0.2)))) < 4


def _names_inside_slowly(codes, texts, truth, names):
    """Every row is looked at."""
    plain = [name.lower() for name in names]
    said = np.array([*(leaks._names_in_text(text.strip().lower(), plain) for text in texts), (-1, -1, -1)])
    return bool((said[codes] == truth[:, None]).mean(axis=0).max() >= leaks.ALMOST)


@pytest.mark.parametrize("wrong", [0, 1, 2, 5, 6, 30])
@pytest.mark.parametrize("way", ["{} first", "the last is {}", "x{}y", "nothing"])
def test_ruling_a_column_out_early_changes_no_answer(wrong, way):
    draw = np.random.default_rng(wrong)
    truth = draw.integers(0, 2, 1000)
    names = ["male", "female"]
    told = truth.copy()
    told[draw.choice(1000, wrong, replace=False)] ^= 1
    column = TrainColumn(pd.Series([way.format(names[answer]) for answer in told], dtype=object))
    codes = column.factors[0]
    expected = _names_inside_slowly(codes, column.texts, truth, names)
    assert leaks._text_contains_answer(codes, column.texts, truth, names) == expected
