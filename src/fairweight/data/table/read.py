"""Files of rows and columns become one frame; a file that is not what it says is refused in a sentence."""

from __future__ import annotations

import csv
import glob
import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairweight.data.files import read_bytes, read_parquet
from fairweight.data.options import TableOptions
from fairweight.data.texts import listing, to_number
from fairweight.errors import MissingColumn, MissingData, UnreadableFile, option

if TYPE_CHECKING:
    import pandas as pd

DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
PARQUET = (".parquet", ".pq")
MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}  # byte order marks that are not UTF-8's


def kind_of(path: Path) -> str:
    """Give a file's last suffix, looking through .gz."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix == ".gz" else suffix


def is_table(path: Path) -> bool:
    """True if a file's name says that it holds a table."""
    return kind_of(path) in (*DELIMITERS, *PARQUET)


def table_files(pattern: str) -> list[Path]:
    """List the files that a path or a glob names, in order."""
    if Path(pattern).exists():
        return [Path(pattern)]
    found = sorted(Path(name) for name in glob.glob(pattern, recursive=True))  # noqa: PTH207 -- may be absolute
    if not found:
        raise MissingData(f"there is no file {pattern!r}; check the path.")
    return found


def read_frame(paths: Sequence[Path], options: TableOptions) -> tuple[pd.DataFrame, list[str]]:
    """Read the rows of all files under one header, columns of text for CSV and TSV; also gives notes."""
    import pandas as pd

    notes: list[str] = []
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
        return first, notes
    notes.append(f"{len(frames)} files were read as one table, in the order of their names.")
    return pd.concat([frame[first.columns] for frame in frames], ignore_index=True), notes


def check_frame(frame: pd.DataFrame, where: str, notes: list[str]) -> pd.DataFrame:
    """Give a frame plain column names and each column once."""
    if len(frame) == 0:
        raise UnreadableFile(f"{where} has column names and no rows; give a table with rows.")
    given = list(frame.columns)
    names = [str(name).strip() for name in given]
    frame = frame.set_axis(names, axis=1)
    first: dict[str, int] = {}
    for position, name in enumerate(names):
        if first.setdefault(name, position) == position:
            continue
        one, other = given[first[name]], given[position]
        if one != other and not (isinstance(one, str) and isinstance(other, str)):
            both = f"{one!r} and {other!r}, which are both called {name!r} as text"
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
        frame = _read_text(path, options.delimiter or DELIMITERS[kind], options.encoding)
    else:
        raise UnreadableFile(
            f"{path.name} is not known as a table by its name; save it as .csv, .tsv or .parquet, or give its "
            f"{option('table.delimiter')}."
        )
    return check_frame(frame, path.name, notes)


def _read_text(path: Path, delimiter: str, encoding: str) -> pd.DataFrame:
    import pandas as pd

    text = _decode(path, encoding)
    header, lines = _header(path, text, delimiter)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                io.StringIO(text),
                sep=delimiter,
                header=None,
                names=list(range(len(header))),
                skiprows=lines,
                dtype=str,
                index_col=False,
                skipinitialspace=True,
                na_values=["?"],
            )
    except pd.errors.EmptyDataError as error:
        raise UnreadableFile(f"{path.name} has column names and no rows; give a table with rows.") from error
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        what = str(error).replace("Error tokenizing data. C error: ", "").strip().split("\n")[0]
        raise UnreadableFile(
            f"{path.name} does not have {len(header)} columns in every line ({what}); mend that line or its quotes."
        ) from error
    return frame.set_axis(header, axis=1)


def _decode(path: Path, encoding: str) -> str:
    content = read_bytes(path)
    if content[:4] == b"PAR1":
        raise UnreadableFile(f"{path} holds parquet, not text; rename it to .parquet.")
    mark = MARKS.get(content[:2])
    if mark and encoding == "utf-8":
        raise UnreadableFile(f"{path.name} is written in {mark}, not utf-8; give {option('table.encoding', mark)}.")
    try:
        # utf-8-sig is utf-8 that also takes the byte order mark which spreadsheets write.
        text = content.decode("utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UnreadableFile(
            f"{path.name} is not written in {encoding} (line {line}); give its {option('table.encoding')}, often "
            "latin-1 or cp1252."
        ) from error
    except (LookupError, UnicodeError) as error:  # or one that is for other things, such as punycode
        raise UnreadableFile(f"there is no encoding {encoding!r}; try utf-8, latin-1 or cp1252.") from error
    if "\0" in text:
        how = f"it is not a table, or give its {option('table.encoding')}"
        raise UnreadableFile(f"{path.name} holds bytes that are no text; {how}.")
    if "\n" not in text:
        text = text.replace("\r", "\n")  # what spreadsheets call CSV (Macintosh)
    if not text.strip():
        raise UnreadableFile(f"{path} is empty; give a file with a header line and rows.")
    return text


def _header(path: Path, text: str, delimiter: str) -> tuple[list[str], int]:
    """Read the column names, and how many rows end with them: blank ones may come before."""
    if len(delimiter) != 1:
        raise UnreadableFile(f"{option('table.delimiter')} {delimiter!r} is not one character; give one, such as ';'.")
    rows = enumerate(csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True), start=1)
    try:
        lines, header = next(((number, row) for number, row in rows if any(cell.strip() for cell in row)), (0, []))
        first = next((row for _, row in rows if row), [])
    except csv.Error as error:
        raise UnreadableFile(f"{path.name} cannot be read as a table ({error}); check its quotes.") from error
    if not header:
        raise UnreadableFile(f"{path.name} holds separators and nothing between them; give a header line and rows.")
    if len(header) == 1:
        others = {";": "semicolon", "\t": "tab", ",": "comma", "|": "bar"}
        other = next((mark for mark in others if mark != delimiter and mark in header[0]), None)
        if other is not None:
            raise UnreadableFile(
                f"{path.name} seems to be separated by {other!r} ({others[other]}), not {delimiter!r}; "
                f"give its {option('table.delimiter')}."
            )
    if all(to_number(cell.strip()) is not None for cell in header):
        raise UnreadableFile(f"the first line of {path.name} holds numbers, not column names; add a header line.")
    if len(first) > len(header) and any(cell.strip() for cell in first[len(header) :]):
        raise UnreadableFile(
            f"{path.name} has {len(header)} column names and {len(first)} values in the first row; mend the header."
        )
    return [cell.strip() or f"column {position}" for position, cell in enumerate(header)], lines
