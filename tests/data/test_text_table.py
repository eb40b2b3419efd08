"""Arrow's reader of text columns gives the frame that pandas' reader gives, or leaves the file to it."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairweight.data import TableOptions
from fairweight.data.table.read import read_frame, read_with_arrow, read_with_pandas
from fairweight.errors import UnreadableFile

CELLS = st.one_of(
    st.sampled_from(["", "NA", "nan", "?", " ?", " a", "a ", '"', '"a"', '"a,b"', '"a\nb"', 'a"b', '""', '" x"', ' "x"',
                     '"x"y', "\t", "a\tb", "1.5", "-3", "None", "é", '"a""b"', "'", '"NA"', "\r", "None ", "\x1c"]),
    st.text(alphabet='ab ",;\n\r\t?é1.', max_size=5),
)  # fmt: skip
ROWS = st.lists(st.lists(CELLS, min_size=1, max_size=4), min_size=1, max_size=5)


@settings(max_examples=250, deadline=None, derandomize=True)
@given(ROWS, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans(), st.sampled_from([",", ";", "\t"]))
def test_the_fast_reader_equals_the_slow_one(rows, end, closed, delimiter):
    content = (end.join(delimiter.join(row) for row in rows) + end * closed).encode()
    columns = len(rows[0])
    fast = read_with_arrow(content, delimiter, columns, "x")
    if fast is None:
        return
    slow = read_with_pandas(content, delimiter, columns, "x")
    pd.testing.assert_frame_equal(fast, slow)


@pytest.mark.parametrize("content", [b"1,a\n2,b\n", b"1,a b\n2,?\n", b'1,"a,\nb"\n2,"NA"\n', b"1,\n,\n", b"1,a\r\n2,b"])
def test_usual_files_take_the_fast_way(content):
    frame = read_with_arrow(content, ",", 2, "x")
    assert frame is not None
    assert len(frame) == 2


def test_a_short_row_is_left_to_pandas_and_a_long_one_is_refused(tmp_path):
    assert read_with_arrow(b"1,2\n3\n", ",", 2, "x") is None
    (tmp_path / "long.csv").write_text("\na,b\n1,2\n3,4,5\n")
    with pytest.raises(UnreadableFile, match=r"columns in every line .*in line 4, saw 3"):
        read_frame([tmp_path / "long.csv"], TableOptions(), [])


HEADED = {
    "semicolons": ("t.csv", "a;b\n1;x\n2;y\n", "utf-8", ["t.csv is separated by ';' (semicolon), and was read so."]),
    "a semicolon in a name": ("t.csv", '"a;b";b\n1;x\n2;y\n', "utf-8", ["t.csv is separated by ';' (semicolon)"]),
    "tabs": ("t.csv", "\n\na\tb\n1\tx\n2\ty\n", "utf-8", ["t.csv is separated by '\\t' (tab), and was read so."]),
    "commas in a .tsv": ("t.tsv", "a,b\n1,x\n2,y\n", "utf-8", ["t.tsv is separated by ',' (comma), and was read so."]),
    "bars and marks": ("t.csv", "a|b\n1|x\n2|y\n", "utf-8-sig", ["t.csv is separated by '|' (bar), and was read so."]),
    "utf-16": ("t.csv", "a,b\n1,x\n2,y\n", "utf-16", ["t.csv is written in utf-16, by its first two bytes"]),
    "both": ("t.csv", "a;b\r\n1;x\r\n2;y\r\n", "utf-16", ["t.csv is written in utf-16", "separated by ';'"]),
    "commas first": ("t.csv", "a,b;c\n1,x\n2,y\n", "utf-8", []),
    "a comma in a name": ("t.csv", "a;b, c;d\n1;x;0,5\n2;y;1,5\n", "utf-8", ["t.csv is separated by ';' (semicolon)"]),
    "and in quotes": ("t.csv", '"a";"b, c"\n"1";"x"\n"2";"y"\n', "utf-8", ["t.csv is separated by ';' (semicolon)"]),
    "more commas": ("t.csv", "a;b, c;d, e\n1;x;0,5\n2;y;1,5\n", "utf-8", ["t.csv is separated by ';' (semicolon)"]),
    "commas, a short row": ("t.csv", "a,b,c;d;e;f\n1,x\n2,y\n", "utf-8", []),
    "a .txt": ("t.txt", "a,b\n1,x\n2,y\n", "utf-8", []),
    "semicolons in a .txt": ("t.txt", "a;b\n1;x\n2;y\n", "utf-8", ["t.txt is separated by ';' (semicolon)"]),
    "one column": ("t.csv", "a\n1\n2\n", "utf-8", []),
}


@pytest.mark.parametrize("case", HEADED)
def test_a_header_tells_what_separates_columns(tmp_path, case):
    name, text, encoding, said = HEADED[case]
    (tmp_path / name).write_bytes(text.encode(encoding))
    notes: list[str] = []
    frame = read_frame([tmp_path / name], TableOptions(), notes)
    assert frame.iloc[:, 0].tolist() == ["1", "2"]
    assert frame.shape[1] == 1 or frame.iloc[:, 1].tolist() == ["x", "y"]
    assert len(notes) == len(said)
    assert all(part in note for part, note in zip(said, notes, strict=True))


def test_a_header_with_two_ends_of_lines_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,b\rc,d\n1,2,3\n")
    with pytest.raises(UnreadableFile, match=r"t\.csv cannot be read as a table .*; check its quotes"):
        read_frame([tmp_path / "t.csv"], TableOptions(), [])


@pytest.mark.parametrize("name", ["t.json", "t.jsonl", "t.ndjson.gz"])
def test_json_is_named_as_such(tmp_path, name):
    (tmp_path / name).write_text('{"a": 1}\n')
    with pytest.raises(UnreadableFile, match=r"holds JSON, which is not read; save it as \.csv or \.parquet"):
        read_frame([tmp_path / name], TableOptions(), [])
