"""Parquet files in the Hugging Face layout: a column of encoded images, and columns of labels and attributes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from fairweight.data._need import need
from fairweight.data._texts import Texts
from fairweight.data.image.cache import file_digest
from fairweight.data.image.decode import Picture
from fairweight.data.image.rows import EncodedStore, ImageRows
from fairweight.data.options import ImageOptions
from fairweight.data.split import PART_NAMES
from fairweight.errors import MissingData, UnreadableFile, UnreadableImage

_SHARD = re.compile(r"-\d+-of-(\d+)\.parquet$")


def image_column(path: Path) -> str | None:
    """The column of a parquet file that holds encoded images, if one does."""
    pa = need("pyarrow", "reading parquet", "pyarrow")

    for field in _schema(path):
        if pa.types.is_struct(field.type) and field.type.get_field_index("bytes") >= 0:
            return str(field.name)
        if pa.types.is_binary(field.type) and field.name.lower() in ("img", "image"):
            return str(field.name)
    return None


def parquet_rows(paths: Sequence[Path], options: ImageOptions) -> ImageRows:
    """Rows of several shards, in the order given."""
    pa = need("pyarrow", "reading parquet", "pyarrow")

    name = image_column(paths[0])
    if name is None:
        raise UnreadableFile(f"{paths[0].name} has no column of encoded images (a struct of bytes and path).")
    others = [field.name for field in _schema(paths[0]) if field.name != name and _is_plain(field.type)]
    tables = [_table(path, others) for path in paths]
    names = _class_names(paths[0])
    columns = _attributes(pa.concat_tables(tables, promote_options="default"), names)
    count = sum(table.num_rows for table in tables)
    # A table of no columns does not know its rows; the file does.
    count = count or sum(_file(path).metadata.num_rows for path in paths)
    if count == 0:
        raise UnreadableFile(f"{paths[0].name} has columns and no rows; give a file with rows.")
    digests = [f"{path.name} {file_digest(path)}" for path in paths]

    def pictures(rows: Tensor | None) -> list[Picture]:
        return _pictures(paths, name, rows)

    return ImageRows(EncodedStore(count, pictures, digests, digests, options), columns, names)


def shards(folder: Path) -> dict[str, list[Path]]:
    """The parquet files under a folder by the part that their names begin with."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*.parquet")):
        if any(piece.startswith(".") for piece in path.relative_to(folder).parts):
            continue
        part = PART_NAMES.get(path.name.split("-")[0].split(".")[0].lower())
        part = part or PART_NAMES.get(path.parent.name.lower())
        if part is not None:
            found.setdefault(part, []).append(path)
    for part, paths in found.items():
        for path in paths:
            numbered = _SHARD.search(path.name)
            if numbered is not None and int(numbered[1]) != sum(
                _SHARD.search(other.name) is not None for other in paths
            ):
                raise MissingData(
                    f"{path.parent} holds {len(paths)} of the {int(numbered[1])} {part} files; add the others."
                )
    return found


def _file(path: Path) -> Any:
    pa = need("pyarrow", "reading parquet", "pyarrow")

    try:
        return need("pyarrow.parquet", "reading parquet", "pyarrow").ParquetFile(path)
    except PermissionError as error:
        raise UnreadableFile(f"{path} may not be read by this user; change its permissions.") from error
    except (pa.ArrowException, OSError) as error:
        raise UnreadableFile(f"{path} is not a whole parquet file; it may be cut short: copy it again.") from error


def _schema(path: Path) -> Any:
    return _file(path).schema_arrow


def _table(path: Path, columns: list[str]) -> Any:
    pa = need("pyarrow", "reading parquet", "pyarrow")

    try:
        return _file(path).read(columns=columns)
    except (pa.ArrowException, OSError) as error:
        raise UnreadableFile(f"{path} is damaged; copy it again.") from error


def _is_plain(kind: Any) -> bool:
    pa = need("pyarrow", "reading parquet", "pyarrow")

    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return bool(pa.types.is_primitive(kind.value_type))
    if pa.types.is_struct(kind):
        return all(_is_plain(field.type) for field in kind)
    return bool(pa.types.is_primitive(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _attributes(table: Any, names: dict[str, list[str]]) -> dict[str, Texts]:
    """Columns as text; a list or struct becomes one column per entry, class numbers become their names."""
    pa = need("pyarrow", "reading parquet", "pyarrow")

    columns: dict[str, Texts] = {}
    for field in table.schema:
        values = table[field.name].to_pylist()
        if pa.types.is_struct(field.type):
            for inner in field.type:
                columns[inner.name] = _texts([None if value is None else value[inner.name] for value in values])
        elif pa.types.is_list(field.type) or pa.types.is_fixed_size_list(field.type):
            width = max((len(value) for value in values if value is not None), default=0)
            for place in range(width):
                entries = [None if value is None or place >= len(value) else value[place] for value in values]
                columns[f"{field.name}[{place}]"] = _texts(entries)
        else:
            known = names.get(field.name)
            if known and all(value is None or (isinstance(value, int) and 0 <= value < len(known)) for value in values):
                values = [None if value is None else known[value] for value in values]
            columns[field.name] = _texts(values)
    return columns


def _texts(values: list[Any]) -> Texts:
    return [None if value is None or value != value or value == "" else str(value).strip() for value in values]


def _class_names(path: Path) -> dict[str, list[str]]:
    """The names of class numbers that Hugging Face keeps in the file's metadata."""
    found = (_schema(path).metadata or {}).get(b"huggingface")
    if found is None:
        return {}
    try:
        features = json.loads(found)["info"]["features"]
    except (ValueError, KeyError, TypeError):
        return {}  # another tool's note under that name: numbers stay numbers
    return {name: feature["names"] for name, feature in features.items() if _has_names(feature)}


def _has_names(feature: Any) -> bool:
    return isinstance(feature, dict) and isinstance(feature.get("names"), list)


def _pictures(paths: Sequence[Path], name: str, rows: Tensor | None) -> list[Picture]:
    pa = need("pyarrow", "reading parquet", "pyarrow")

    column = pa.chunked_array([chunk for path in paths for chunk in _table(path, [name])[name].chunks])
    if rows is not None:
        column = column.take(pa.array(rows.numpy()))
    numbers = range(len(column)) if rows is None else rows.tolist()
    pictures = []
    for row, value in zip(numbers, column, strict=True):
        entry = value.as_py()
        content = entry.get("bytes") if isinstance(entry, dict) else entry
        if content is None:
            raise UnreadableImage(f"image {row} of {paths[0].name} has no bytes; the file refers to images elsewhere.")
        pictures.append(Picture(content, f"image {row} of {paths[0].name}"))
    return pictures
