"""Two hundred bad inputs: status 2, no traceback, a sentence, and nothing left behind."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import socket
from pathlib import Path

import pytest
from PIL import Image
from tests.command import fairweight
from tests.tables import people

ON = ("--label", "income", "--group", "sex", "--out", "out")
TABLE = ("train", "p.csv", *ON)
HUGE = "99999999999999999999"

# Values that no setting of this kind can have, by flag.
COUNTS = ("0", "-1", "nan", "1.5", "x", "")
RATES = ("-1", "nan", "inf", "-inf", "x", "")
VALUES = {
    "--epochs": (*COUNTS, "-" + HUGE),
    "--batch-size": COUNTS,
    "--per-cell": COUNTS,
    "--limit": COUNTS,
    "--exemplar-size": COUNTS,
    "--floor": COUNTS,
    "--max-categories": COUNTS,
    "--patience": ("-1", "nan", "x", ""),
    "--seed": ("nan", "1.5", "x", "", HUGE, "-" + HUGE),
    "--lr": (*RATES, "0"),
    "--weight-decay": RATES,
    "--max-file-gb": ("0", "-1", "nan", "x", "1e-9"),
    "--give-up": ("-1", "101", "nan", "x"),
    "--test": ("1", "1.5", "-0.1", "nan", "nobody.csv", "."),
    "--validation": ("1", "-0.1", "nobody.csv"),
    "--exemplars": ("nobody.csv", "x" * 300, "\x00"),
    "--split-column": ("nobody", "age", ""),
    "--positive": ("maybe", ""),
    "--missing-labels": ("keep",),
    "--missing-groups": ("keep",),
    "--small-groups": ("hide",),
    "--only-groups": ("Martian", "F,Martian"),
    "--drop": ("nobody",),
    "--keep": ("nobody",),
    "--numeric": ("nobody", "job"),
    "--categorical": ("nobody",),
    "--delimiter": (";", "ab", "\t", '"'),
    "--encoding": ("utf-16", "klingon", "rot13", "punycode", "hex", "undefined", "\x00", "utf-32"),
    "--decimal": (";", "x", "..", ""),
    "--thousands": ("x", "'", ""),
    "--image-size": ("0", "-1", "x"),
    "--channels": ("2", "x"),
    "--file-column": ("nobody", "job"),
    "--unreadable": ("hide",),
    "--max-megapixels": ("-1", "nan", "x"),
    "--corrupt": ("magic", "one-class", "one-class:label=9", "one-class:label=yes,fraction=2", "noise:fraction=nan"),
    "--network": ("resnet19", "nobody:Net", "nobody.py:Net", ":", "a:b:c"),
    "--hidden": ("0", "-1", "x", "64,,x", "1.5"),
    "--optimizer": ("adamm", ""),
    "--objective": ("meen", "mean + x * variance", "1 *", "nan * mean"),
    "--option": ("tye=cell", "every=0", "every=x", "tie=sex", "x", "=", "agreement_every=-1", "score_step=5"),
    "--method": ("formal", "", "os"),
    "--device": ("cuda:99", "warp", "", "mps:7", "meta"),
    "--search": ("name=nothing", "x"),
}
BAD_VALUES = [(flag, value) for flag, values in VALUES.items() for value in values]


def test_there_are_two_hundred():
    assert len(BAD_VALUES) + len(FILES) + len(SOURCES) + len(COMMANDS) >= 200


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    people(120).to_csv(tmp_path / "p.csv", index=False)
    return tmp_path


def listed(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


def refused(folder: Path, *words: str) -> None:
    before = listed(folder)
    done = fairweight(folder, *words)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert done.stderr.strip()
    assert listed(folder) == before
    assert not any(ord(letter) < 32 and letter != "\n" for letter in done.stderr)


@pytest.mark.parametrize(("flag", "value"), BAD_VALUES, ids=lambda part: repr(part)[:40])
def test_a_value_that_cannot_be(desk, flag, value):
    refused(desk, *TABLE, flag, value)


ROWS = b"age,sex,income\n30,F,yes\n40,M,no\n"
FILES = {
    "empty.csv": b"",
    "zeros.csv": bytes(500),
    "blank.csv": b"\n \n\t\n",
    "commas.csv": b",,,\n,,,\n",
    "only_commas.csv": b",,,,,",
    "quote.csv": b'age,sex,income\n"30,F,yes\n',
    "numbers.csv": b"1,2,3\n4,5,6\n",
    "short.csv": ROWS,
    "one_line.csv": b"age,sex,income",
    "ragged.csv": ROWS + b"1,2,3,4,5\n",
    "twice.csv": b"age,age,income\n1,2,3\n" * 3,
    "latin.csv": ROWS + b"50,\xe9,no\n",
    "utf16.csv": ROWS.decode().encode("utf-16"),
    "nul.csv": ROWS + b"1,\0,3\n",
    "png.csv": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "pickle.csv": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.",
    "parquet.csv": b"PAR1" + bytes(30) + b"PAR1",
    "text.parquet": ROWS,
    "cut.parquet": b"PAR1" + bytes(30) + b"PAR1",
    "none.parquet": b"",
    "cut.csv.gz": gzip.compress(ROWS * 50)[:-10],
    "no_gzip.csv.gz": b"\x1f\x8b" + bytes(40),
    "bad_sum.csv.gz": gzip.compress(ROWS * 50)[:-8] + bytes(8),
    "wide.csv": b",".join(b"c%d" % place for place in range(5000)) + b"\n1,2\n",
    "long.csv": b"age,sex,income\n" + b"x" * 1_000_000,
    "table.txt": ROWS,
    "table": ROWS,
    "table.xlsx": b"PK\x03\x04" + bytes(60),
    "table.json": b'{"age": 1}',
    "mac.csv": b"age;sex;income\r30;F;yes\r",
    "same_header.csv": b"a,a\n" * 4,
    "deep.csv": b'"' * 10_001 + b"\n1,2\n",
    "crlf.csv": b"\r\n\r\n\r\n",
    "escape.csv": b"\x1b[31mage,sex,income\n30,F,yes\n",
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_table(tmp_path, name):
    (tmp_path / name).write_bytes(FILES[name])
    refused(tmp_path, "train", name, *ON)


def _fifo(folder: Path) -> str:
    os.mkfifo(folder / "pipe.csv")
    return "pipe.csv"


def _socket(folder: Path) -> str:
    with contextlib.chdir(folder), socket.socket(socket.AF_UNIX) as door:  # the name of a socket has to be short
        door.bind("door.csv")
    return "door.csv"


def _link(target: str):
    def make(folder: Path) -> str:
        (folder / "link.csv").symlink_to(target)
        return "link.csv"

    return make


def _pictures(spoil) -> str:
    def make(folder: Path) -> str:
        for place in range(12):
            path = folder / "pictures" / "ab"[place % 2] / f"{place:02d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), place).save(path)
        spoil(folder / "pictures" / "a" / "00.png")
        return "pictures"

    return make


def _encoded(kind: str, size: tuple[int, int] = (8, 8)) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size).save(out, kind)
    return out.getvalue()


def _replaced(content: bytes):
    return _pictures(lambda path: path.write_bytes(content))


def _piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _linked(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


SOURCES = {
    "nothing of that name": lambda f: "nobody.csv",
    "nothing, in a folder that is not there": lambda f: "no/nobody.csv",
    "a glob that fits nothing": lambda f: "*.tsv",
    "a broken glob": lambda f: "[",
    "a name of 300 letters": lambda f: "x" * 300 + ".csv",
    "a path of 5,000 letters": lambda f: "x/" * 2500 + "p.csv",
    "a zero byte": lambda f: "p\0.csv",
    "no name at all": lambda f: "",
    "a name that is no UTF-8": lambda f: os.fsdecode(b"\xff\xfe.csv"),
    "a name with an escape": lambda f: "\x1b[31mred.csv",
    "a misspelt set": lambda f: "adlut",
    "a set that is not there": lambda f: "adult",
    "an empty folder": lambda f: str((f / "empty").mkdir() or "empty"),
    "a pipe": _fifo,
    "a socket": _socket,
    "a link to /dev/zero": _link("/dev/zero"),
    "a link to /dev/stdin": _link("/dev/stdin"),
    "a link to nothing": _link("nowhere.csv"),
    "a link to itself": _link("link.csv"),
    "a device": lambda f: "/dev/zero",
    "a device under another name": lambda f: "/dev/null",
    "a file as a folder": lambda f: "p.csv/inside.csv",
    "a postscript file named .png": _replaced(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\nshowpage\n"),
    "an empty image": _replaced(b""),
    "half an image": _replaced(_encoded("PNG")[:40]),
    "noise named .png": _replaced(bytes(range(256)) * 4),
    "an icon named .png": _replaced(_encoded("ICO")),
    "a PDF named .png": _replaced(_encoded("PDF")),
    "an image of 100 megapixels": _replaced(_encoded("PNG", (10_000, 10_000))),
    "an image that is a pipe": _pictures(_piped),
    "an image that is a device": _pictures(_linked),
}


@pytest.mark.parametrize("case", SOURCES)
def test_a_source_that_cannot_be_read(desk, case, monkeypatch):
    monkeypatch.delenv("FAIRWEIGHT_DATA", raising=False)  # where the set that is not there may be
    refused(desk, "train", SOURCES[case](desk), *(ON if "image" not in case and "named" not in case else ON[4:]))


COMMANDS = (
    ("predict", "nobody", "p.csv"),
    ("predict", ".", "p.csv"),
    ("predict", "p.csv", "p.csv"),
    ("predict", "nobody"),
    ("refit", "nobody"),
    ("refit", "."),
    ("audit", "nobody"),
    ("audit",),
    ("audit", ".", "--predictions", "p.csv"),
    ("audit", "--predictions", "nobody.csv"),
    ("audit", "--predictions", "p.csv"),
    ("audit", "--predictions", "p.csv", "--label", "income", "--prediction", "age"),
    ("audit", "--predictions", "p.csv", "--label", "nobody", "--prediction", "income"),
    ("audit", "--predictions", "/dev/zero", "--label", "income", "--prediction", "income"),
    ("suspects", "nobody"),
    ("suspects", "."),
    ("condense", "nobody", "--drop", "10%"),
    ("condense", ".", "--drop", "x"),
    ("check", "nobody:Net"),
    ("check", "nobody"),
    ("check", ":"),
    ("list", "nothing"),
    ("reproduce", "nothing"),
    ("compare", "p.csv", "--label", "income", "--group", "sex", "--methods", "formal", "--out", "out"),
    ("compare", "p.csv", "--label", "income", "--group", "sex", "--methods", "", "--out", "out"),
    ("compare", "p.csv", "--label", "nobody", "--group", "sex", "--methods", "uniform", "--out", "out"),
    ("train",),
    ("train", "p.csv", "--label", "nobody", "--out", "out"),
    ("train", "p.csv", "--label", "income", "--group", "nobody", "--out", "out"),
    ("train", "p.csv", "--label", "income", "--group", "sex,sex", "--out", "out"),
    ("train", "p.csv", "--label", "income", "--group", "income", "--out", "out"),
    ("train", "p.csv", "--label", "age", "--group", "sex", "--out", "out"),
    ("train", "p.csv", "--label", "income", "--group", "age", "--out", "out"),
    ("train", "p.csv", "--label", "age>=", "--group", "sex", "--out", "out"),
    ("train", "p.csv", "--label", "income>=3", "--group", "sex", "--out", "out"),
    ("train", "p.csv", *ON[:4], "--out", "p.csv"),
    ("train", "p.csv", *ON[:4], "--out", "."),
    ("train", "p.csv", *ON, "--data-dir", "p.csv", "--trade-off", "--strengths", "x"),
    ("train", "adult", "--data-dir", "p.csv"),
    ("nothing",),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_that_cannot_be(desk, words):
    refused(desk, *words)
