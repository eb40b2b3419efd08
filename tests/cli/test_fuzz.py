"""A fuzzer over files, options and commands: it trains or says one sentence, and never shows a traceback."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.command import fairweight
from tests.tables import people

from fairweight.cli._flags import DATA_FLAGS, TRAINING_FLAGS
from fairweight.data import Options, TableOptions, load
from fairweight.data.image.decode import Decoder, Form, Picture
from fairweight.errors import FairweightError

BOUNDED = settings(
    deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
CELLS = st.one_of(
    st.sampled_from(["", "1", "-2.5", "1.169,63", "1,5", "F", "M", "yes", "no", "?", "=1+1", "é", '"', "\x1b", "∞",
                     "2020-01-31", "1e999", "0x10", "12%", "$3", "(4)", "١", "a,b", "\r"]),
    st.text(max_size=6),
)  # fmt: skip
ODD = st.one_of(
    st.sampled_from(
        ["", "0", "-1", "nan", "inf", "1e400", "x", "a,b", "\x1b[31m", "/dev/zero", "..", "'", "p.csv", "é"]
    ),
    st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5),
    st.integers(-3, 3).map(str),
)
FLAGS = [flag for flag in (*DATA_FLAGS, *TRAINING_FLAGS) if flag.kind is not bool]
BEGINNINGS = [
    b"",
    b"PAR1",
    b"\x1f\x8b\x08\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\x89PNG\r\n\x1a\n",
    b"GIF89a",
    b"BM",
    b"II*\0",
]


def one_sentence(text: str) -> None:
    assert text.strip()
    assert "Traceback" not in text


@settings(BOUNDED, max_examples=120)
@given(
    st.binary(max_size=200), st.sampled_from(BEGINNINGS), st.sampled_from(["t.csv", "t.tsv", "t.parquet", "t.csv.gz"])
)
def test_any_bytes_as_a_file(content, start, name):
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_bytes(start + content)
        try:
            load(Path(folder) / name, label="a", group="b")
        except FairweightError as error:
            one_sentence(str(error))
        assert [path.name for path in Path(folder).iterdir()] == [name]


@settings(BOUNDED, max_examples=80)
@given(
    st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=30),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(
        [TableOptions(), TableOptions(decimal=","), TableOptions(numeric=("x",)), TableOptions(keep=("x",))]
    ),
)
def test_any_cells_as_a_table(rows, delimiter, options):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        lines = ["x,a,b".replace(",", delimiter), *(delimiter.join(row) for row in rows * 4)]
        path.write_text("\n".join(lines), encoding="utf-8", errors="replace", newline="")
        table = TableOptions(**{**vars(options), "delimiter": delimiter})
        try:
            found = load(path, label="a", group="b", options=Options(table=table))
        except FairweightError as error:
            one_sentence(str(error))
        else:
            assert bool(found.train.inputs.isfinite().all())
            assert found.preprocessing.read(path).inputs.isfinite().all()


@settings(BOUNDED, max_examples=120)
@given(st.binary(max_size=120), st.sampled_from(BEGINNINGS))
def test_any_bytes_as_an_image(content, start):
    import numpy as np

    try:
        Decoder(Form()).all(lambda shape: np.empty(shape, np.uint8), [Picture(start + content, "x.png")])
    except FairweightError as error:
        one_sentence(str(error))


@pytest.mark.slow
@settings(BOUNDED, max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(FLAGS), ODD), min_size=1, max_size=2))
def test_any_value_of_any_option(said):
    with tempfile.TemporaryDirectory() as folder:
        people(60).to_csv(Path(folder) / "p.csv", index=False)
        words = [word for flag, value in said for word in (flag.flag, value)]
        base = ("--label", "income", "--group", "sex", "--out", "out", "--method", "uniform", "--no-baseline")
        few = (
            () if any(flag.flag in ("--epochs", "--hidden") for flag, _ in said) else ("--epochs", "1", "--hidden", "2")
        )
        done = fairweight(folder, "train", "p.csv", *base, *few, *words)
        assert "Traceback" not in done.stderr
        assert done.returncode in (0, 2), done.stderr
        if done.returncode == 2:
            assert done.stderr.strip()
            assert [path.name for path in Path(folder).iterdir()] == ["p.csv"]
