"""Parquet files in the Hugging Face layout: a column of encoded images, and columns of labels and attributes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairweight.data.files import file_digest, open_parquet, read_parquet
from fairweight.data.image.decode import Picture
from fairweight.data.image.pixels import EncodedPixels
from fairweight.data.options import ImageOptions
from fairweight.data.parts import PART_NAMES
from fairweight.data.rows import Rows
from fairweight.data.table.read import PARQUET
from fairweight.errors import MissingData, UnreadableFile, UnreadableImage

if TYPE_CHECKING:
    import pandas as pd

BINARY = ("img", "image", "bytes", "picture", "photo", "pixels")  # in the names of binary columns that hold images
_SHARD = re.compile(r"-\d+-of-(\d+)\.parquet$")


def parquet_rows(paths: Sequence[Path], options: ImageOptions) -> Rows | None:
    """Read the rows of several shards, in the order given; None where they hold no column of encoded images."""
    if not all(path.suffix.lower() in PARQUET and path.is_file() for path in paths):
        return None
    import pandas as pd
    import pyarrow as pa

    schema = open_parquet(paths[0]).schema_arrow
    name = _image_column(schema)
    if name is None:
        return None
    others = [field.name for field in schema if field.name != name and _is_plain(field.type)]
    count = sum(open_parquet(path).metadata.num_rows for path in paths)
    if count == 0:
        raise UnreadableFile(f"{paths[0].name} has columns and no rows; give a file with rows.")
    table = pa.concat_tables([read_parquet(path, others) for path in paths], promote_options="default")
    frame = pd.DataFrame(_columns(table, _class_names(schema)), index=range(count))
    digests = [f"{path.name} {file_digest(path)}" for path in paths]
    pixels = EncodedPixels(count, lambda: _Pictures(paths, name), digests, lambda: digests, options)
    return Rows(frame, pixels, identity=pixels.identity())


def shards(folder: Path) -> dict[str, list[Path]]:
    """Find the parquet files under a folder by the part that their names begin with."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*.parquet")):
        if any(piece.startswith(".") for piece in path.relative_to(folder).parts):
            continue
        part = PART_NAMES.get(path.name.split("-")[0].split(".")[0].lower())
        part = part or PART_NAMES.get(path.parent.name.lower())
        if part is not None:
            found.setdefault(part, []).append(path)
    for part, paths in found.items():
        totals = [int(match[1]) for path in paths if (match := _SHARD.search(path.name)) is not None]
        if wrong := [total for total in totals if total != len(totals)]:
            raise MissingData(f"{paths[0].parent} holds {len(paths)} of the {wrong[0]} {part} files; add the rest.")
    return found


def _image_column(schema: Any) -> str | None:
    from pyarrow import types

    for field in schema:
        encoded = types.is_struct(field.type) and field.type.get_field_index("bytes") >= 0
        binary = types.is_binary(field.type) or types.is_large_binary(field.type)
        if encoded or (binary and any(word in field.name.lower() for word in BINARY)):
            return str(field.name)
    return None


def _is_plain(kind: Any) -> bool:
    from pyarrow import types

    if types.is_list(kind) or types.is_fixed_size_list(kind):
        return bool(types.is_primitive(kind.value_type))
    if types.is_struct(kind):
        return all(_is_plain(field.type) for field in kind)
    return bool(types.is_primitive(kind) or types.is_string(kind) or types.is_large_string(kind))


def _columns(table: Any, names: dict[str, list[str]]) -> dict[str, pd.Series[Any]]:
    """Make columns for a frame: a list or a struct is one column per entry, and class numbers have their names."""
    from pyarrow import compute, types

    found: dict[str, Any] = {}
    for field in table.schema:
        values = table[field.name]
        if types.is_struct(field.type):
            found |= {inner.name: compute.struct_field(values, inner.name) for inner in field.type}
        elif types.is_list(field.type) or types.is_fixed_size_list(field.type):
            first: list[Any] = next((value for value in values[:1].to_pylist() if value), [])
            found |= {f"{field.name}[{place}]": compute.list_element(values, place) for place in range(len(first))}
        else:
            found[field.name] = values
    # Whole numbers stay whole where some are missing.
    columns = {name: values.to_pandas(integer_object_nulls=True) for name, values in found.items()}
    return {name: named(values, names[name]) if name in names else values for name, values in columns.items()}


def named(numbers: pd.Series[Any], names: Sequence[str]) -> pd.Series[Any]:
    """Name class numbers, in the order of the names; a column that holds anything else stays as it is."""
    import pandas as pd

    codes = pd.to_numeric(numbers, errors="coerce").fillna(-1)
    if not (codes[numbers.notna()].isin(range(len(names)))).all():
        return numbers
    texts = [None if code < 0 else names[code] for code in codes.astype(int)]
    return pd.Series(pd.Categorical(texts, categories=list(dict.fromkeys(names))))


def _class_names(schema: Any) -> dict[str, list[str]]:
    """Read the names of class numbers that Hugging Face keeps in the file's metadata."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        entries = {name: feature.get("names") for name, feature in features.items() if isinstance(feature, dict)}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}  # no note, or another tool's under that name: numbers stay numbers
    return {name: names for name, names in entries.items() if isinstance(names, list)}


class _Pictures(Sequence[Picture]):
    """The encoded images of several shards, each handed out when it is asked for."""

    def __init__(self, paths: Sequence[Path], column: str) -> None:
        import pyarrow as pa

        self._name = paths[0].name
        self._column = pa.concat_tables([read_parquet(path, [column]) for path in paths])[column]

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, row: Any) -> Any:
        entry = self._column[row].as_py()
        content = entry.get("bytes") if isinstance(entry, dict) else entry
        name = f"image {row} of {self._name}"
        if content is None:
            raise UnreadableImage(f"{name} has no bytes; the file refers to images elsewhere.")
        return Picture(content, name)
