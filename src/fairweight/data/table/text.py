"""Read a text file of rows and columns as columns of text; a file that is not what it says is refused in a sentence.

Arrow reads in a quarter of pandas' processor time; it knows no blanks before a cell and refuses rows of other lengths.
What it cannot read as pandas does is left to pandas, which also words what is wrong.
"""

from __future__ import annotations

import codecs
import csv
import io
import logging
import re
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fairweight.data.files import read_bytes
from fairweight.data.texts import to_number
from fairweight.errors import UnreadableFile, option

if TYPE_CHECKING:
    import pandas as pd

_log = logging.getLogger("fairweight")
_MISSING = ("?",)  # beside what pandas takes for missing
_BLOCK = 4 << 20  # bytes at a time: enough to be quick, few enough to tell how far it is
_LARGE = 20_000_000  # bytes: smaller files are read before anybody wonders
_EVERY = 2.0  # seconds between two lines of progress
_UTF16 = (b"\xff\xfe", b"\xfe\xff")  # byte order marks
_SEPARATORS = {";": "semicolon", "\t": "tab", ",": "comma", "|": "bar"}


def read_text_table(path: Path, delimiter: str, encoding: str) -> pd.DataFrame:
    """Read a file under its header, each cell as text."""
    content = _as_utf8(path, encoding)
    header, start = _header(path, content, delimiter)
    content = content[start:]
    frame = read_with_arrow(content, delimiter, len(header), path.name)
    if frame is None:
        frame = read_with_pandas(content, delimiter, len(header), path.name)
    return frame.set_axis(header, axis=1)


def read_with_arrow(content: bytes, delimiter: str, columns: int, name: str) -> pd.DataFrame | None:
    """Read rows of UTF-8 text without a header; None where pandas has to."""
    import pandas as pd
    import pyarrow as pa
    from pyarrow import csv as arrow

    if columns < 2 or int(pd.__version__.split(".")[0]) < 3 or not delimiter.isascii() or delimiter in '" \r\n':
        return None
    if _is_unusual(content, delimiter.encode()):
        return None
    missing = sorted({*pd._libs.parsers.STR_NA_VALUES, *_MISSING})  # type: ignore[attr-defined]
    names = [str(place) for place in range(columns)]
    started = last = time.monotonic()
    size, done = len(content), 0
    if size >= _LARGE:
        _log.info("Reading %s: %.0f MB.", name, size / 1e6)
    try:
        batches = []
        for batch in arrow.open_csv(
            pa.BufferReader(pa.py_buffer(content)),
            arrow.ReadOptions(use_threads=False, block_size=_BLOCK, column_names=names),
            arrow.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in content),
            arrow.ConvertOptions(
                column_types=dict.fromkeys(names, pa.large_string()), null_values=missing, strings_can_be_null=True
            ),
        ):
            batches.append(batch)
            done = min(size, done + batch.nbytes - 7 * batch.num_rows * columns)  # an offset is 8 bytes, a delimiter 1
            if size >= _LARGE and (now := time.monotonic()) - last >= _EVERY:
                last, left = now, (now - started) * (size - done) / max(done, 1)
                _log.info(
                    "Reading %s: %.0f %% of %.0f MB, about %.0f s left.", name, 100 * done / size, size / 1e6, left
                )
    except pa.ArrowException:
        return None
    if not batches:
        return None
    text = pd.StringDtype(na_value=float("nan"))
    found: pd.DataFrame = pa.Table.from_batches(batches).to_pandas(types_mapper=lambda kind: text)
    return found.set_axis(range(columns), axis=1)


def _is_unusual(content: bytes, delimiter: bytes) -> bool:
    """True if blanks begin cells, quotes stand within cells, or lines end in several ways: pandas has its own rules."""
    if (b"\t" in content and delimiter != b"\t") or (b"\r" in content and re.search(b"\r(?!\n)", content)):
        return True
    letters = np.frombuffer(content, dtype=np.uint8)
    before_blanks = letters[np.flatnonzero(letters == ord(" ")) - 1]
    if content.startswith(b" ") or np.isin(before_blanks, list(delimiter + b'\n"')).any():
        return True
    letter = b'[^"\r\n' + re.escape(delimiter) + b"]"
    quotes = content.count(b'"')
    return quotes % 2 > 0 or (quotes > 0 and re.search(letter + b'"' + letter, content) is not None)


def read_with_pandas(content: bytes, delimiter: str, columns: int, name: str) -> pd.DataFrame:
    """Read rows of UTF-8 text without a header, with pandas' words for what is wrong."""
    import pandas as pd

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(
                io.BytesIO(content), sep=delimiter, header=None, names=list(range(columns)), dtype=str, index_col=False,
                skipinitialspace=True, na_values=list(_MISSING),
            )  # fmt: skip
    except pd.errors.EmptyDataError as error:
        raise UnreadableFile(f"{name} has column names and no rows; give a table with rows.") from error
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        what = str(error).replace("Error tokenizing data. C error: ", "").strip().split("\n")[0]
        raise UnreadableFile(
            f"{name} does not have {columns} columns in every line ({what}); mend that line or its quotes."
        ) from error


def _as_utf8(path: Path, encoding: str) -> bytes:
    """Read a file as UTF-8, without a byte order mark and with lines that end in a newline."""
    content = read_bytes(path)
    if content[:4] == b"PAR1":
        raise UnreadableFile(f"{path} holds parquet, not text; rename it to .parquet.")
    plain = encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig")
    if plain and content.startswith(_UTF16):
        how = option("table.encoding", "utf-16")
        raise UnreadableFile(f"{path.name} is written in utf-16, not utf-8; give {how}.")
    try:
        if not plain:
            content = content.decode(encoding).encode()
        elif not content.isascii():
            content.decode()  # for the error alone
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UnreadableFile(
            f"{path.name} is not written in {encoding} (line {line}); give its {option('table.encoding')}, often "
            "latin-1 or cp1252."
        ) from error
    except (LookupError, ValueError, AttributeError, TypeError) as error:  # such as "rot13", or what no text has
        raise UnreadableFile(f"there is no encoding {encoding!r} of text; try utf-8, latin-1 or cp1252.") from error
    content = content.removeprefix(codecs.BOM_UTF8)  # which spreadsheets write
    if b"\0" in content:
        how = f"it is not a table, or give its {option('table.encoding')}"
        raise UnreadableFile(f"{path.name} holds bytes that are no text; {how}.")
    if b"\n" not in content:
        content = content.replace(b"\r", b"\n")  # what spreadsheets call CSV (Macintosh)
    if content.isspace():
        raise UnreadableFile(f"{path} is empty; give a file with a header line and rows.")
    return content


def _header(path: Path, content: bytes, delimiter: str) -> tuple[list[str], int]:
    """Read the column names, and the byte at which the rows begin: blank lines may come before the names."""
    if len(delimiter) != 1:
        raise UnreadableFile(f"{option('table.delimiter')} {delimiter!r} is not one character; give one, such as ';'.")
    file = io.BytesIO(content)
    try:
        rows = csv.reader(map(bytes.decode, file), delimiter=delimiter, skipinitialspace=True)
        header = next((row for row in rows if any(cell.strip() for cell in row)), None)
        start = file.tell()
        first = next((row for row in rows if row), [])
    except (csv.Error, TypeError, ValueError) as error:  # the last two: a delimiter that cannot be one
        raise UnreadableFile(f"{path.name} cannot be read as a table ({error}); check its quotes.") from error
    if header is None:
        raise UnreadableFile(f"no line of {path.name} holds a column name; add a header line.")
    other = next((mark for mark in _SEPARATORS if mark != delimiter and mark in header[0]), None)
    if len(header) == 1 and other is not None:
        raise UnreadableFile(
            f"{path.name} seems to be separated by {other!r} ({_SEPARATORS[other]}), not {delimiter!r}; "
            f"give its {option('table.delimiter')}."
        )
    if all(to_number(cell.strip()) is not None for cell in header):
        raise UnreadableFile(f"the first line of {path.name} holds numbers, not column names; add a header line.")
    if any(cell.strip() for cell in first[len(header) :]):
        raise UnreadableFile(
            f"{path.name} has {len(header)} column names and {len(first)} values in the first row; mend the header."
        )
    return [cell.strip() or f"column {position}" for position, cell in enumerate(header)], start
