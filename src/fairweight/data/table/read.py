"""Files of rows and columns become one frame; a file that is not what it says is refused in a sentence."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairweight.data.files import is_there, read_parquet
from fairweight.data.options import TableOptions
from fairweight.data.table.text import read_text_table
from fairweight.data.texts import listing
from fairweight.errors import MissingColumn, MissingData, UnreadableFile, option, printable

if TYPE_CHECKING:
    import pandas as pd

DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
PARQUET = (".parquet", ".pq")


def kind_of(path: Path) -> str:
    """Give a file's last suffix, looking through .gz."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix == ".gz" else suffix


def is_table(path: Path) -> bool:
    """True if a file's name says that it holds a table."""
    return kind_of(path) in (*DELIMITERS, *PARQUET)


def table_files(pattern: str) -> list[Path]:
    """List the files that a path or a glob names, in order."""
    if is_there(Path(pattern)):
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
    names = [printable(str(name).strip()) for name in given]
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
        frame = read_text_table(path, options.delimiter or DELIMITERS[kind], options.encoding)
    else:
        raise UnreadableFile(
            f"{path.name} is not known as a table by its name; save it as .csv, .tsv or .parquet, or give its "
            f"{option('table.delimiter')}."
        )
    return check_frame(frame, path.name, notes)
