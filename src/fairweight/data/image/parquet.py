"""Parquet files in the Hugging Face layout: a column of encoded images, and columns of labels and attributes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from fairweight.data._optional import need
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
    columns = _Columns(pa.concat_tables(tables, promote_options="default"), names)
    count = sum(table.num_rows for table in tables)
    # A table of no columns does not know its rows; the file does.
    count = count or sum(_file(path).metadata.num_rows for path in paths)
    if count == 0:
        raise UnreadableFile(f"{paths[0].name} has columns and no rows; give a file with rows.")
    digests = [f"{path.name} {file_digest(path)}" for path in paths]

    def pictures() -> Sequence[Picture]:
        return _Pictures(paths, name)

    store = EncodedStore(count, pictures, digests, lambda: digests, options)
    return ImageRows(store, columns, names, identity=store.identity())


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


class _Columns(Mapping[str, Texts]):
    """Attribute columns as text, each made when it is asked for: CelebA has forty, and two are used.

    A list or a struct counts as one column per entry, and class numbers have their names.
    """

    def __init__(self, table: Any, names: Mapping[str, Sequence[str]]) -> None:
        pa = need("pyarrow", "reading parquet", "pyarrow")
        self._table, self._known, self._made = table, names, dict[str, Texts]()
        self._places: dict[str, tuple[str, int | str | None]] = {}
        for field in table.schema:
            if pa.types.is_struct(field.type):
                self._places |= {inner.name: (field.name, inner.name) for inner in field.type}
            elif pa.types.is_list(field.type) or pa.types.is_fixed_size_list(field.type):
                first: list[Any] = next((value for value in table[field.name][:1].to_pylist() if value), [])
                self._places |= {f"{field.name}[{place}]": (field.name, place) for place in range(len(first))}
            else:
                self._places[field.name] = (field.name, None)

    def __getitem__(self, name: str) -> Texts:
        if name not in self._made:
            column, inner = self._places[name]
            self._made[name] = self._read(column, inner)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def _read(self, column: str, inner: int | str | None) -> Texts:
        compute = need("pyarrow.compute", "reading parquet", "pyarrow")
        values = self._table[column]
        if isinstance(inner, str):
            values = compute.struct_field(values, inner)
        elif inner is not None:
            values = compute.list_element(values, inner)
        found = values.to_pylist()
        known = self._known.get(column)
        if known and all(value is None or (isinstance(value, int) and 0 <= value < len(known)) for value in found):
            found = [None if value is None else known[value] for value in found]
        return _texts(found)


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


class _Pictures(Sequence[Picture]):
    """The encoded images of several shards, each handed out when it is asked for."""

    def __init__(self, paths: Sequence[Path], column: str) -> None:
        pa = need("pyarrow", "reading parquet", "pyarrow")
        self._name = paths[0].name
        self._column = pa.chunked_array([chunk for path in paths for chunk in _table(path, [column])[column].chunks])

    def __len__(self) -> int:
        return len(self._column)

    @overload
    def __getitem__(self, row: int) -> Picture: ...

    @overload
    def __getitem__(self, row: slice) -> list[Picture]: ...

    def __getitem__(self, row: int | slice) -> Picture | list[Picture]:
        if isinstance(row, slice):
            return [self[place] for place in range(*row.indices(len(self)))]
        entry = self._column[row].as_py()
        content = entry.get("bytes") if isinstance(entry, dict) else entry
        name = f"image {row} of {self._name}"
        if content is None:
            raise UnreadableImage(f"{name} has no bytes; the file refers to images elsewhere.")
        return Picture(content, name)
