"""Keep what was measured: records/<date>_<what>/record.json.

A record holds every number seed by seed, so that a later run of more seeds or rows adds to it and all means and
verdicts are computed anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fairweight import catalog
from fairweight.errors import BadInput, FolderRefused, option
from fairweight.paper.plan import FOLDER, planned, size_name
from fairweight.paper.verdict import with_statistics
from fairweight.runs.provenance import all_versions
from fairweight.training.state import write_atomically

FILE = "record.json"
Record = Mapping[str, Any]
# The paper's order; tables of ours stand behind.
ORDER = (
    "cifar10", "cifar100", "celeba", "mnist", "condensation", "reverse", "adversarial", "meta-loss", "weight-form",
    "celeba-young", "mnist-loss-ratio",
)  # fmt: skip


def table_names() -> list[str]:
    """Every table, in the paper's order, then ours."""
    return sorted(catalog.names(FOLDER), key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


def keep(record: Record, folder: str | Path) -> Path:
    """Write a record into its own folder under this one; one of the same day and settings is added to.

    One of the same day and other settings stays as it is, and this one's folder gets a number.
    """
    path, number = Path(folder) / name_of(record) / FILE, 2
    while record["kind"] == "reproduce" and path.is_file():
        before = read(path)
        if settings_of(before) == settings_of(record):
            record = merged([before, record])
            break
        path, number = Path(folder) / f"{name_of(record)}-{number}" / FILE, number + 1
    try:
        write_atomically(path, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())
    except OSError as error:
        raise FolderRefused(
            f"{path} cannot be written ({error.strerror}); choose another with {option('records')}: finished runs are "
            "found."
        ) from error
    return path


def name_of(record: Record) -> str:
    """<date>_<what>, and the size if it is not the full one."""
    what = record.get("table") or record.get("name") or record["kind"]
    size = "" if record.get("whole", True) else f"-{record['size']}" if record["size"] != "paper" else "-shortened"
    return f"{record['date'][:10]}_{what}{size}"


def read(path: Path) -> dict[str, Any]:
    """One record, its rows and options named as the table names them today."""
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} is no record that can be read ({error}); restore it or take it away.") from error
    if values.get("kind") == "reproduce":
        today = planned(values["table"])
        titles = {row.key: row.title for row in today.all_rows}
        for row in values["rows"]:
            row["title"] = titles.get(row["key"], row["title"])
        # An option that the table has got since, or has no longer, was at its default.
        values["options"] = {key: values["options"].get(key, value) for key, value in today.table.options.items()}
    return values


def read_all(folder: str | Path) -> dict[str, dict[str, Any]]:
    """Every record under a folder by the name of its own folder, oldest first."""
    return {path.parent.name: read(path) for path in sorted(Path(folder).glob(f"*/{FILE}"))}


def settings_of(record: Record) -> str:
    """Table, size, epochs and options: the seeds of records that share them belong together."""
    return json.dumps([record.get(key) for key in ("table", "size", "epochs", "options")], sort_keys=True)


def other_options(record: Record) -> list[str]:
    """The options that are not at their defaults."""
    usual = planned(record["table"]).table.options
    return [f"{key}={value}" for key, value in record["options"].items() if key in usual and value != usual[key]]


def section_name(record: Record) -> str:
    """The table, its size, and the options that are not at their defaults."""
    return ", ".join([record["table"], size_name(record), *other_options(record)])


def grouped(records: Mapping[str, Record]) -> list[dict[str, Any]]:
    """Tables, in the paper's order, the full size and the usual options first; records of the same settings are one."""
    names: dict[str, list[str]] = {}
    for name, record in records.items():
        if record.get("kind") == "reproduce":
            names.setdefault(settings_of(record), []).append(name)
    tables = [{**merged(records[name] for name in group), "from": group} for group in names.values()]
    order, sizes = table_names(), ("paper", "short", "quick")
    return sorted(tables, key=lambda r: (order.index(r["table"]), sizes.index(r["size"]), other_options(r)))


def merged(records: Iterable[Record]) -> dict[str, Any]:
    """One record of all seeds and rows; of a seed that was run twice the later one counts."""
    all_records = list(records)
    last = all_records[-1]
    rows: dict[str, dict[str, Any]] = {}
    walls: dict[str, float] = {}  # by when a command was started: what it took, as far as its records say
    for record in all_records:
        for row in record["rows"]:
            known = rows.get(row["key"])
            if known is None or known["spec"] != row["spec"]:
                rows[row["key"]] = dict(row)  # another training under the same name: the later one alone counts
                continue
            seeds = dict(sorted({**known["seeds"], **row["seeds"]}.items(), key=lambda item: int(item[0])))
            failed = {seed: why for seed, why in {**known["failed"], **row["failed"]}.items() if seed not in seeds}
            rows[row["key"]] = {**row, "seeds": seeds, "failed": failed}
        walls |= record["walls"]
    plan = planned(last["table"], size=last["size"], options=last["options"])
    order = [row.key for row in plan.all_rows]
    for row in plan.all_rows:  # the table says what a row is called and compared with, not old records
        if row.key in rows:
            rows[row.key] |= row.described

    def unique(key: str) -> list[str]:
        return list(dict.fromkeys(value for record in all_records for value in record[key]))

    commands = [command for record in all_records for command in record.get("commands") or [record["command"]]]
    return with_statistics(
        {
            **last,
            **{key: plan.heading()[key] for key in ("title", "remarks", "numbers")},
            "rows": sorted(rows.values(), key=lambda row: [*order, row["key"]].index(row["key"])),
            "seeds": sorted({int(seed) for row in rows.values() for seed in row["seeds"]}),
            "commands": list(dict.fromkeys(commands)),
            "walls": walls,
            "wall_seconds": round(sum(walls.values()), 1),
            "versions": all_versions(record["versions"] for record in all_records),
            "devices": list(dict.fromkeys(name.replace(" 1 threads", " 1 thread") for name in unique("devices"))),
            "commits": unique("commits"),
        }
    )
