"""Bad sources and files: one sentence that names the next step, and nothing half-written."""

from __future__ import annotations

import errno
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fairweight import errors
from fairweight.data import Options, TableOptions, load

Desk = Any  # see conftest.py
ROWS = 120


def _train(desk: Desk, source=None, label="paid", group: str | None = "sex", **options):
    return load(desk.csv() if source is None else source, label=label, group=group, options=Options(**options))


def _forbidden(*_args, **_kwargs):
    raise PermissionError(errno.EACCES, "Permission denied")


def _parquet(desk: Desk, frame: pd.DataFrame | None = None) -> Path:
    path = desk.folder / "t.parquet"
    (desk.frame() if frame is None else frame).to_parquet(path)
    return path


def _cut(path: Path, count: int) -> Path:
    path.write_bytes(path.read_bytes()[:-count])
    return path


def _no_permission_to_read(desk: Desk):
    path = desk.csv()
    desk.patch.setattr("fairweight.data.files.os.open", _forbidden)
    return _train(desk, path)


def _with(desk: Desk, **columns) -> pd.DataFrame:
    return desk.frame().assign(**columns)


CASES: dict[str, tuple[Callable[[Desk], object], type[Exception], str]] = {
    # Where the source is
    "no such file": (lambda d: load(d.folder / "no.csv", label="paid"), errors.MissingData, "check the path"),
    "a name that is nearly a set's": (lambda d: load("mnits"), errors.MissingData, "did you mean 'mnist'"),
    "a glob that fits nothing": (lambda d: load(str(d.folder / "*.csv"), label="y"), errors.MissingData, "no file"),
    "neither path nor frame": (lambda d: load([1, 2], label="y"), errors.BadInput, "pandas frame, not list"),
    "an empty folder": (lambda d: load(d.folder, label="y"), errors.UnreadableFile, "holds no images"),
    "a folder that ends in .csv": (
        lambda d: (d.put("x.csv/a.txt", "1"), load(d.folder / "x.csv", label="y")),
        errors.UnreadableFile,
        "no images",
    ),
    "an unknown kind of file": (
        lambda d: load(d.put("t.xyz", "a,b\n1,2\n"), label="a"),
        errors.UnreadableFile,
        "save it as .csv",
    ),
    "an image alone": (
        lambda d: load(d.put("cat.png", d.image()), label="a"),
        errors.UnreadableFile,
        "not known as a table",
    ),
    "a file that may not be read": (_no_permission_to_read, errors.UnreadableFile, "change its permissions"),
    "the data folder is a file": (
        lambda d: load("mnist", data_dir=d.put("x", "1")),
        errors.MissingData,
        "is a file; name the folder",
    ),
    # What is in the file
    "an empty file": (lambda d: _train(d, d.put("t.csv", "")), errors.UnreadableFile, "is empty"),
    "only blank lines": (lambda d: _train(d, d.put("t.csv", "\n \n\n")), errors.UnreadableFile, "is empty"),
    "only a header": (lambda d: _train(d, d.put("t.csv", "age,sex,paid\n")), errors.UnreadableFile, "no rows"),
    "a parquet file without rows": (lambda d: _train(d, _parquet(d, d.frame()[:0])), errors.UnreadableFile, "no rows"),
    "an archive": (
        lambda d: _train(d, d.put("t.csv.zip", b"PK\3\4")),
        errors.UnreadableFile,
        "t.csv.zip is an archive or a spreadsheet, not text; unpack it, or save it as .csv",
    ),
    "a spreadsheet that is called text": (
        lambda d: _train(d, d.put("t.csv", b"PK\3\4\x14\xff")),
        errors.UnreadableFile,
        "t.csv is an archive or a spreadsheet",
    ),
    "a list of pictures under a name of its own": (
        lambda d: load(pd.DataFrame({"shot": [f"{k}.png" for k in range(90)], "y": [0, 1, 1] * 30}), label="y"),
        errors.BadInput,
        "look like ids or free text: 'shot'; name .* in table.keep, or the one that names image files in image.file",
    ),
    "the wrong delimiter was named": (
        lambda d: _train(d, table=TableOptions(delimiter=";")),
        errors.UnreadableFile,
        "separated by ','",
    ),
    "a delimiter of two characters": (
        lambda d: _train(d, table=TableOptions(delimiter="||")),
        errors.UnreadableFile,
        "not one character",
    ),
    "Latin-1": (
        lambda d: _train(d, d.put("t.csv", _with(d, job="Köchin").to_csv(index=False).encode("latin-1"))),
        errors.UnreadableFile,
        r"not written in utf-8 \(line 2\); give its table.encoding, often latin-1",
    ),
    "half of a UTF-16 file": (
        lambda d: _train(d, d.put("t.csv", d.frame().to_csv(index=False).encode("utf-16")[:-1])),
        errors.UnreadableFile,
        "not written in utf-16",
    ),
    "an encoding that does not exist": (
        lambda d: _train(d, table=TableOptions(encoding="klingon")),
        errors.UnreadableFile,
        "no encoding 'klingon'",
    ),
    "bytes that are no text": (
        lambda d: _train(d, d.put("t.csv", b"a,b\n\0\1\2,3\n")),
        errors.UnreadableFile,
        "no text",
    ),
    "a line with too many values": (
        lambda d: _train(d, d.put("t.csv", "a,paid\n1,no\n2,yes\n3,no,9\n")),
        errors.UnreadableFile,
        "line 4|mend that line",
    ),
    "more values than column names": (
        lambda d: _train(d, d.put("t.csv", "a,paid\n1,no,5\n2,yes,5\n")),
        errors.UnreadableFile,
        "mend the header",
    ),
    "a quote that never ends": (
        lambda d: _train(d, d.put("t.csv", 'a,paid\n1,"no\n2,yes\n')),
        errors.UnreadableFile,
        "quotes",
    ),
    "no header": (lambda d: _train(d, d.put("t.csv", "1,2,3\n4,5,6\n")), errors.UnreadableFile, "add a header line"),
    "two different columns of one name": (
        lambda d: _train(d, d.put("t.csv", "a,a,paid\n1,2,no\n3,4,yes\n")),
        errors.MissingColumn,
        "two different columns",
    ),
    "a frame with two different columns of one name": (
        lambda d: _train(d, d.frame().set_axis(["a", "a", "job", "sex", "paid"], axis=1)),
        errors.MissingColumn,
        "two different columns called 'a'",
    ),
    "a truncated parquet file": (lambda d: _train(d, _cut(_parquet(d), 30)), errors.UnreadableFile, "cut short"),
    "text called .parquet": (
        lambda d: _train(d, d.csv(name="t.parquet")),
        errors.UnreadableFile,
        "not a whole parquet",
    ),
    "parquet called .csv": (
        lambda d: _train(d, _parquet(d).rename(d.folder / "t.csv")),
        errors.UnreadableFile,
        "rename it to .parquet",
    ),
    "a truncated .csv.gz": (
        lambda d: _train(d, _cut(d.put("t.csv.gz", gzip.compress(d.frame().to_csv().encode())), 50)),
        errors.UnreadableFile,
        "not a whole gzip file",
    ),
    "files of different columns": (
        lambda d: (
            d.csv(name="1.csv"),
            d.csv(d.frame().drop(columns="age"), "2.csv"),
            _train(d, str(d.folder / "*.csv")),
        ),
        errors.MissingColumn,
        "'age' differ",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_one_sentence_and_nothing_half_written(case, refused):
    refused(*CASES[case])
