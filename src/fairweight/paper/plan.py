"""Plan a table: its rows, seeds and options, before anything is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairweight import catalog
from fairweight.errors import UnknownName
from fairweight.paper.tables import Row, Table, pick
from fairweight.runs.spec import Spec

FOLDER = "paper.tables"


@dataclass(frozen=True)
class Planned:
    """A table at a size, with the rows and seeds to run."""

    name: str
    table: Table
    all_rows: tuple[Row, ...]
    rows: tuple[Row, ...]  # those to run
    seeds: range
    command: str  # what to type to run this again

    def specs(self) -> list[Spec]:
        """Every run, seed by seed, so that methods that share their data follow one another and it is read once."""
        return [row.spec_for(seed) for seed in self.seeds for row in self.rows if row.spec is not None]

    def run_names(self) -> dict[str, str]:
        """What to call each run, by fingerprint."""
        trained = [row for row in self.rows if row.spec is not None]
        return {row.spec_for(s).fingerprint: f"{row.title}, seed {s}" for s in self.seeds for row in trained}

    def heading(self) -> dict[str, Any]:
        """What the table is, at this size and with these options."""
        size, table = self.table.size, self.table
        return {
            "kind": "reproduce",
            "table": self.name,
            "title": catalog.summary(FOLDER, self.name),
            "size": size.name,
            "about": size.about,
            "epochs": size.epochs,
            "whole": table.whole,
            "options": dict(table.options),
            "remarks": table.remarks,
            "numbers": [vars(number) for number in table.numbers],
            "printed": table.printed,
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values: each row's run with each seed."""
        rows = {}
        for row in self.rows:
            runs = {} if row.spec is None else {str(s): row.spec_for(s).to_dict() for s in self.seeds}
            rows[row.key] = {**row.described, "runs": runs}
        return {**self.heading(), "seeds": list(self.seeds), "rows": rows, "command": self.command}

    def text(self) -> str:
        """For a terminal: rows, sizes and options, those not chosen too."""
        from fairweight.runs.pool import with_prerequisites

        width = max(len(row.key) for row in self.all_rows) + 2
        lines = [f"{self.name}: {catalog.summary(FOLDER, self.name)}"]
        lines += [f"{size_line(self.heading())} Seeds: {len(self.seeds)}.", "", "Rows:"]
        for row in self.all_rows:
            extra = " (extra: name it to run it)" if row.kind == "extra" else ""
            lines.append(f" {'*' if row in self.rows else ' '} {row.key:{width}s}{row.title}{extra}")
        runs = len({spec.fingerprint for spec in self.specs()})
        prerequisites = len(with_prerequisites(self.specs())) - runs  # that rows choose their samples or weights by
        built_on = f", and {prerequisites} that they build on" if prerequisites else ""
        lines += ["", f"{runs} runs, marked *{built_on}. Options (--option NAME=VALUE):"]
        for name, option in self.table.known.items():
            choices = f" [{'|'.join(option.choices)}]" if option.choices else ""
            lines.append(f"   {name}={self.table.options[name]}{choices}: {option.about}")
        return "\n".join(lines)


def planned(
    name: str,
    *,
    size: str = "paper",
    seeds: int | None = None,
    first_seed: int = 0,
    rows: Sequence[str] | None = None,
    options: Mapping[str, str] | None = None,
    epochs: int | None = None,
) -> Planned:
    """The table of that name at a size; what is not given is the size's own."""
    name, names = name.replace("_", "-"), catalog.names(FOLDER)
    if name not in names:
        raise UnknownName(f"there is no table {name!r}; choose from: {', '.join(names)}.")
    table: Table = catalog.load(FOLDER, name)(size, options, epochs)
    count = table.size.seeds if seeds is None else seeds
    all_rows = table.rows()
    command = [f"fairweight reproduce {name}"]
    command += [f"--{size}"] if size != "paper" else []
    command += [f"--seeds {count}"]
    command += [f"--seed {first_seed}"] if first_seed else []
    command += [f"--rows {','.join(rows)}"] if rows is not None else []
    command += [f"--epochs {epochs}"] if epochs is not None else []
    command += [f"--option {key}={v}" for key, v in table.options.items() if v != table.known[key].default]
    seed_range = range(first_seed, first_seed + count)
    return Planned(name, table, all_rows, pick(all_rows, rows), seed_range, " ".join(command))


def size_name(record: Mapping[str, Any]) -> str:
    """Quick, short or full; if the epochs were changed, their number."""
    if record["whole"]:
        return "full"
    return f"{record['epochs']} epochs" if record["size"] == "paper" else str(record["size"])


def size_line(record: Mapping[str, Any]) -> str:
    """Which size was run, as a sentence."""
    return f"Size: {size_name(record)}: {record['about']}"
