"""Plan a table: its rows, seeds and options, before anything is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairweight import catalog
from fairweight.errors import BadInput, UnknownName
from fairweight.paper._table_text import size_line
from fairweight.paper.tables import Plan, Row, Table, pick
from fairweight.runs.spec import Spec

FOLDER = "paper.tables"


@dataclass(frozen=True)
class Planned:
    """A table at a size, with the rows and seeds that were asked for."""

    name: str
    table: Table
    plan: Plan
    every: tuple[Row, ...]
    asked: tuple[Row, ...]
    seeds: range
    command: str  # what to type to run this again

    def specs(self) -> list[Spec]:
        """Every run, seed by seed, so that methods that share their data follow one another and it is read once."""
        return [row.spec_for(seed) for seed in self.seeds for row in self.asked if row.spec is not None]

    def run_names(self) -> dict[str, str]:
        """What to call each run, by fingerprint."""
        trained = [row for row in self.asked if row.spec is not None]
        return {row.spec_for(s).fingerprint: f"{row.title}, seed {s}" for s in self.seeds for row in trained}

    def heading(self) -> dict[str, Any]:
        """What the table is, at this size and with these options."""
        return {
            "kind": "reproduce",
            "table": self.name,
            "title": catalog.summary(FOLDER, self.name),
            "size": self.plan.size.name,
            "about": self.plan.size.about,
            "epochs": self.plan.size.epochs,
            "whole": self.plan.size == self.table.sizes["paper"],  # nothing of the protocol was shortened
            "options": dict(self.plan.options),
            "remarks": list(self.table.remarks),
            "numbers": [vars(number) for number in self.table.numbers],
            "printed": self.table.printed,
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values: each row's run with each seed."""
        rows = {}
        for row in self.asked:
            runs = {} if row.spec is None else {str(s): row.spec_for(s).to_dict() for s in self.seeds}
            rows[row.key] = {**row.told, "runs": runs}
        return {**self.heading(), "seeds": list(self.seeds), "rows": rows, "command": self.command}

    def text(self) -> str:
        """For a terminal: rows, sizes and options, those not chosen too."""
        from fairweight.runs.pool import with_prerequisites

        width = max(len(row.key) for row in self.every) + 2
        rows = []
        for row in self.every:
            extra = " (extra: name it to run it)" if row.kind == "extra" else ""
            rows.append(f" {'*' if row in self.asked else ' '} {row.key:{width}s}{row.title}{extra}")
        runs = len({spec.fingerprint for spec in self.specs()})
        first = len(with_prerequisites(self.specs())) - runs  # those that rows choose their samples or weights by
        options = []
        for name, option in self.table.options.items():
            choices = f" [{'|'.join(option.choices)}]" if option.choices else ""
            options.append(f"   {name}={self.plan.options[name]}{choices}: {option.about}")
        return "\n".join(
            [
                f"{self.name}: {catalog.summary(FOLDER, self.name)}",
                f"{size_line(self.heading())} Seeds: {len(self.seeds)}.",
                "",
                "Rows:",
                *rows,
                "",
                f"{runs} runs, marked *{f', and {first} that they build on' if first else ''}. "
                "Options (--option NAME=VALUE):",
                *options,
            ]
        )


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
    name, known = name.replace("_", "-"), catalog.names(FOLDER)
    if name not in known:
        raise UnknownName(f"there is no table {name!r}; choose from: {', '.join(known)}.")
    table: Table = catalog.load(FOLDER, name)()
    plan = table.plan(size, options, epochs)
    count = plan.size.seeds if seeds is None else seeds
    if count < 1:
        raise BadInput(f"seeds is {count}; run at least 1.")
    every = table.rows(plan)
    changed = {key: value for key, value in plan.options.items() if value != table.options[key].default}
    words = [
        f"fairweight reproduce {name}",
        "" if plan.size.name == "paper" else f"--{plan.size.name}",
        f"--seeds {count}",
        "" if first_seed == 0 else f"--seed {first_seed}",
        "" if rows is None else f"--rows {','.join(rows)}",
        "" if epochs is None else f"--epochs {epochs}",
        *(f"--option {key}={value}" for key, value in changed.items()),
    ]
    command = " ".join(word for word in words if word)
    return Planned(name, table, plan, every, pick(every, rows), range(first_seed, first_seed + count), command)
