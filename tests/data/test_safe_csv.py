"""No cell of a CSV file that we write runs in a spreadsheet."""

import csv
import io
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairweight
from fairweight.data.safe_csv import safe_cell, write_csv

RUN = "=+-@\t\r\n"


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.one_of(st.text(max_size=8), st.text(alphabet=RUN + " 1.e'\"x,", max_size=6)))
def test_no_text_begins_as_a_formula_does(text):
    frame = pd.DataFrame({"a": [text, "x"], text or "b": [1.0, -2.5]})
    out = io.StringIO()
    write_csv(frame, out)
    rows = list(csv.reader(io.StringIO(out.getvalue())))
    for cell in (rows[0][1], rows[1][0]):
        begins = cell.lstrip(" ")[:1]
        number = pd.to_numeric(pd.Series([cell.strip()]), errors="coerce").notna().all()
        assert begins not in RUN or not begins or number
        assert not any(ord(letter) < 32 for letter in cell)
    assert rows[2][1] == "-2.5"


@pytest.mark.parametrize("text", ["-1", "+1.5", "-1e5", "plain", "a=b", "it's", ""])
def test_numbers_and_plain_text_stay(text):
    assert safe_cell(text) == text


def test_every_csv_goes_through_it():
    source = Path(fairweight.__file__).parent
    direct = [path.name for path in source.rglob("*.py") if ".to_csv(" in path.read_text(encoding="utf-8")]
    assert sorted(direct) == ["clean.py", "safe_csv.py"]  # the first writes labels that a Spec reads back, as they are
