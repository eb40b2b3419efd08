"""Files of rows and columns become one frame; a file that is not what it says is refused in a sentence.

Arrow reads text in a quarter of pandas' processor time; what it cannot read as pandas does is left to pandas, which
also words what is wrong: Arrow knows no blanks before a cell and refuses rows of other lengths.
"""

from __future__ import annotations

import codecs
import csv
import glob
import io
import logging
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fairweight.data.files import is_there, read_bytes, read_parquet
from fairweight.data.options import TableOptions
from fairweight.data.texts import listing, to_number
from fairweight.errors import MissingColumn, MissingData, UnreadableFile, option, printable

if TYPE_CHECKING:
    import pandas as pd


DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": ","}
PARQUET = (".parquet", ".pq")


def kind_of(path: Path) -> str:
    """Give a file's last suffix, looking through .gz."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix == ".gz" else suffix


def table_files(pattern: str) -> list[Path]:
    """List the files that a path or a glob names, in order."""
    if is_there(Path(pattern)):
        return [Path(pattern)]
    paths = sorted(Path(name) for name in glob.glob(pattern, recursive=True))  # noqa: PTH207 -- may be absolute
    if not paths:
        raise MissingData(f"there is no file {pattern!r}; check the path.")
    return paths


def read_frame(paths: Sequence[Path], options: TableOptions, notes: list[str]) -> pd.DataFrame:
    """Read the rows of all files under one header, columns of text for CSV and TSV."""
    import pandas as pd

    frames = [_read_one(path, options, notes) for path in paths]
    first = frames[0]
    for path, frame in zip(paths[1:], frames[1:], strict=True):
        if set(frame.columns) != set(first.columns):
            differs = sorted(map(str, set(frame.columns) ^ set(first.columns)))
            raise MissingColumn(
                f"{path.name} and {paths[0].name} do not have the same columns ({listing(differs)} differ); "
                "give files of one form."
            )
    if len(frames) == 1:
        return first
    notes.append(f"{len(frames)} files were read as one table, in the order of their names.")
    return pd.concat([frame[first.columns] for frame in frames], ignore_index=True)


def check_frame(frame: pd.DataFrame, where: str, notes: list[str]) -> pd.DataFrame:
    """Give a frame plain column names and each column once."""
    if len(frame) == 0:
        raise UnreadableFile(f"{where} has column names and no rows; give a table with rows.")
    labels = list(frame.columns)
    names = [printable(str(name).strip()) for name in labels]
    frame = frame.set_axis(names, axis=1)
    first: dict[str, int] = {}
    for position, name in enumerate(names):
        if first.setdefault(name, position) == position:
            continue
        earlier, other = labels[first[name]], labels[position]
        if earlier != other and not (isinstance(earlier, str) and isinstance(other, str)):
            both = f"{earlier!r} and {other!r}, which are both called {name!r} as text"
            raise MissingColumn(f"{where} has the columns {both}; rename one.")
        if not frame.iloc[:, position].equals(frame.iloc[:, first[name]]):
            raise MissingColumn(f"{where} has two different columns called {name!r}; rename or remove one.")
        notes.append(f"Column {name!r} stands in {where} twice with the same values; one was read.")
    return frame.iloc[:, list(first.values())].reset_index(drop=True)


def _read_one(path: Path, options: TableOptions, notes: list[str]) -> pd.DataFrame:
    kind = kind_of(path)
    if kind in PARQUET:
        frame = read_parquet(path).to_pandas()
    elif kind in DELIMITERS or options.delimiter is not None:
        frame = read_text_table(path, options, notes)
    elif kind in _PACKED:
        raise _archive_error(path)
    elif kind in (".json", ".jsonl", ".ndjson"):
        raise UnreadableFile(f"{path.name} holds JSON, which is not read; save it as .csv or .parquet.")
    else:
        raise UnreadableFile(
            f"{path.name} is not known as a table by its name; save it as .csv, .tsv or .parquet, or give its "
            f"{option('table.delimiter')}."
        )
    return check_frame(frame, path.name, notes)


_PACKED = (".zip", ".xlsx", ".xls", ".ods")


def _archive_error(path: Path) -> UnreadableFile:
    return UnreadableFile(f"{path.name} is an archive or a spreadsheet, not text; unpack it, or save it as .csv.")


_log = logging.getLogger("fairweight")
_MISSING = ("?",)  # beside what pandas takes for missing
_BLOCK = 4 << 20  # bytes at a time
_LARGE = 20_000_000  # bytes: smaller files are read before anybody wonders
_UTF16 = (b"\xff\xfe", b"\xfe\xff")  # byte order marks
_SEPARATORS = {";": "semicolon", "\t": "tab", ",": "comma", "|": "bar"}


def read_text_table(path: Path, options: TableOptions, notes: list[str]) -> pd.DataFrame:
    """Read a file under its header, each cell as text; `attrs` of the frame says what separates its columns."""
    content = _as_utf8(path, options.encoding, notes)
    usual = DELIMITERS.get(kind_of(path), ",")
    delimiter = options.delimiter or _delimiter(content, usual)
    if options.delimiter is None and delimiter != usual:
        name = printable(path.name)
        notes.append(f"{name} is separated by {delimiter!r} ({_SEPARATORS[delimiter]}), and was read so.")
    header, start = _header(path, content, delimiter)
    above, content = b"\n" * content.count(b"\n", 0, start), content[start:]
    frame = read_with_arrow(content, delimiter, len(header), path.name)
    if frame is None:  # blank lines instead of the header: an error counts lines from the top
        frame = read_with_pandas(above + content, delimiter, len(header), path.name)
    frame.attrs["delimiter"] = delimiter
    return frame.set_axis(header, axis=1)


def _delimiter(content: bytes, usual: str) -> str:
    """Find what separates columns: the mark that parts names and first row alike, into most; else what parts names.

    A name such as "share, %" and numbers such as 12,5 hold commas in files that are separated by semicolons.
    """
    lines = (line for line in io.BytesIO(content) if line.strip())
    texts = [line.decode()[:60_000] for _, line in zip(range(2), lines, strict=False)]  # csv takes 131,072
    try:
        counts = {mark: [len(row) for row in csv.reader(texts, delimiter=mark)] for mark in (usual, *_SEPARATORS)}
    except csv.Error:  # whoever reads the header says what is wrong
        return usual
    even = {mark: counts[0] for mark, counts in counts.items() if len(counts) == 2 and counts[0] == counts[1] > 1}
    if even or counts[usual][:1] > [1]:
        return max(even, key=lambda mark: even[mark], default=usual)
    return max(counts, key=lambda mark: counts[mark][:1])


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
    if len(content) >= _LARGE:
        _log.info("Reading %s: %.0f MB.", name, len(content) / 1e6)
    try:
        table = arrow.read_csv(
            pa.BufferReader(pa.py_buffer(content)),
            arrow.ReadOptions(use_threads=False, block_size=_BLOCK, column_names=names),
            arrow.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in content),
            arrow.ConvertOptions(
                column_types=dict.fromkeys(names, pa.large_string()), null_values=missing, strings_can_be_null=True
            ),
        )
    except pa.ArrowException:
        return None
    text = pd.StringDtype(na_value=float("nan"))
    frame: pd.DataFrame = table.to_pandas(types_mapper=lambda kind: text)
    return frame.set_axis(range(columns), axis=1)


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


def _as_utf8(path: Path, encoding: str, notes: list[str]) -> bytes:
    """Read a file as UTF-8, without a byte order mark and with lines that end in a newline."""
    content = read_bytes(path)
    if content[:4] == b"PAR1":
        raise UnreadableFile(f"{path} holds parquet, not text; rename it to .parquet.")
    if content[:4] == b"PK\3\4":
        raise _archive_error(path)
    plain = encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig")
    if plain and content.startswith(_UTF16):
        plain, encoding = False, "utf-16"
        notes.append(f"{printable(path.name)} is written in utf-16, by its first two bytes, and was read so.")
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
