"""Train again on a run's data with wrong labels dropped, mended or weighted down, and say what that does to the gap."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fairweight.apps import condense as sets
from fairweight.apps._drop_rules import random_like
from fairweight.apps._train_text import columns
from fairweight.apps.suspects import Suspects, stays, suspects_of
from fairweight.apps.trainings import HARMS, HELPS, NUMBERS, Compared, Trainings, methods_of
from fairweight.runs.folder import RunFolder
from fairweight.runs.run_place import check_no_run, finished
from fairweight.runs.table_file import write_table

SUMMARY, KEPT, LABELS, WEIGHTS = "clean.json", "kept.txt", "relabelled.csv", "weights.parquet"
RECOMMENDED = "recommended.csv"  # row, label and weight of every row that stays; only where cleaning does good
GIVEN = "as-given"
ARMS = {
    GIVEN: "labels as given",
    "relabelled": "relabelled",
    "weighted": "weighted by the posterior",
    "dropped": "suspects dropped",
    "random-drop": "random drop, same cells",
}
MENDED = ("relabelled", "weighted", "dropped")  # as they are preferred: the first that does no harm


@dataclass(frozen=True)
class Cleaned:
    """Trainings on each set over seeds, plain and by the run's method."""

    out: Path
    suspected: int
    dropped: int
    relabelled: int
    cells: Sequence[Mapping[str, Any]]  # label, group, before, after: what dropping leaves of each cell
    compared: Compared  # by method and way of cleaning, beside the labels as given

    @property
    def recommended(self) -> str | None:
        """The first way to clean that helps and does harm under no method; None: leave the labels as they are."""
        helps = [arm for arm in MENDED if self.compared.methods(arm, HELPS) and not self.compared.methods(arm, HARMS)]
        return helps[0] if helps and self.suspected else None

    def advice(self) -> str:
        """Whether to clean, and how, in one sentence or two."""
        if not self.suspected:
            return "Do not clean: no label looks wrong."
        wider = self.compared.methods("dropped", HARMS[:1])
        warning = f"Dropping suspects widens the gap ({', '.join(wider)}). " if wider else ""
        if self.recommended is not None:
            return f"{warning}Clean by '{ARMS[self.recommended]}': it helps on these test rows and harms no method."
        if all(self.compared.methods(arm, HARMS) for arm in MENDED):
            return f"{warning}Do not clean: every way costs accuracy or widens the gap."
        return f"{warning}Do not clean: no way that is free of harm helps on these test rows."

    def to_dict(self) -> dict[str, Any]:
        methods = {
            method: {
                arm: {
                    "seeds": seeds,
                    "means": {n: self.compared.mean(method, arm, n).to_dict() for n in NUMBERS},
                    "from_as_given": {n: self.compared.difference(method, arm, n) for n in NUMBERS},
                    "over_test_rows": self.compared.rows[method][arm],
                    "harms": method in self.compared.methods(arm, HARMS),
                }
                for arm, seeds in arms.items()
            }
            for method, arms in self.compared.seeds.items()
        }
        counts = {"suspected": self.suspected, "dropped": self.dropped, "relabelled": self.relabelled}
        rest = {"methods": methods, "advice": self.advice(), "recommended": self.recommended, "folder": str(self.out)}
        return {**counts, "cells": list(self.cells), **rest}

    def text(self) -> str:
        lines = [f"{self.suspected:,} labels look wrong; {self.dropped:,} of them are dropped and {self.relabelled:,} "
                 "relabelled. At least half of every cell stays."]  # fmt: skip
        for cell in self.cells:
            if cell["after"] < cell["before"]:
                lines.append(f"  {cell['label']}, {cell['group']}: {cell['after']:,} of {cell['before']:,} rows stay")
        count = 0
        for method, arms in self.compared.seeds.items():
            moves = {a: ", ".join(self.compared.moved(method, a)) or "no more than chance explains" for a in arms}
            moves[GIVEN] = ""
            rows: list[Sequence[str]] = [("", *NUMBERS.values(), "")]
            rows += [(ARMS[a], *(self.compared.mean(method, a, n).text() for n in NUMBERS), moves[a]) for a in arms]
            count = len(arms[GIVEN])
            lines += ["", f"{method}, in %, {count} seeds, mean ± standard error", columns(rows)]
        by = "Test labels are as given: where they are wrong too, mended labels look worse here than they are."
        note = " One seed tells nothing of chance: raise the seeds." if count < 2 else ""
        where = f"Files and runs: {self.out}"
        where += "" if self.recommended is None else f"; the cleaned set: {self.out / RECOMMENDED}"
        return "\n".join([*lines, "", by, f"{self.advice()}{note}", where])


def clean(
    run: str | Path, out: str | Path | None = None, *, trust: bool | None = None, trainings: Trainings | None = None
) -> Cleaned:
    """Train plainly, and by the run's own method, on each way of cleaning its labels, and compare over seeds.

    Splits, rows and settings stay the run's. A label that looks wrong is dropped, mended or weighted by the chance
    that it is right; at least half of every cell stays.
    """
    folder, where = finished(run), Path(run) / "clean" if out is None else Path(out)
    check_no_run(where)
    found = suspects_of(run, trust=trust)
    mended = found.relabelled()[["row", "label"]].to_csv(index=False).encode()  # refused where nothing is trusted
    ranked, kept, weighted = found.ranked, stays(found.ranked), io.BytesIO()
    RunFolder(where).make()
    first = folder.read_spec()
    weights = _cleaned(found, kept, "weighted")
    weights.assign(weight=weights["weight"].clip(lower=1e-6)).to_parquet(weighted, index=False)
    fixed: dict[str, dict[str, Any]] = {
        GIVEN: {},
        "relabelled": {"rows": {**first.rows, "labels": sets.write_named(where / LABELS, mended)}},
        "weighted": {"method": "given", "weights": sets.write_named(where / WEIGHTS, weighted.getvalue())},
        "dropped": {"rows": {**first.rows, "train": sets.write_rows(where / KEPT, ranked.loc[kept, "row"])}},
    }

    def ways(seed: int) -> dict[str, dict[str, Any]]:
        drawn = ranked.loc[random_like(ranked, kept, seed, within="cell"), "row"]
        rows = {**first.rows, "train": sets.write_rows(where / f"random_seed{seed}.txt", drawn)}
        return {**fixed, "random-drop": {"rows": rows}}

    compared = Compared.of((trainings or Trainings()).over(methods_of(first), ways, ARMS, where), GIVEN)
    changed = int(ranked["suggested"].notna().sum())
    result = Cleaned(where, found.suspected, int((~kept).sum()), changed, _cells(ranked, kept), compared)
    (where / RECOMMENDED).unlink(missing_ok=True)
    if result.recommended is not None:
        write_table(_cleaned(found, kept, result.recommended), where / RECOMMENDED)
    RunFolder(where).write(SUMMARY, result.to_dict())
    return result


def _cleaned(found: Suspects, kept: Any, arm: str) -> pd.DataFrame:
    """The set that a way of cleaning makes: row, label and weight of every row that stays."""
    table = found.relabelled().assign(weight=1.0)
    if arm == "weighted":
        table["weight"] = (1.0 - found.ranked.set_index("row")["posterior"]).loc[table["row"]].to_numpy()
    if arm != "relabelled":
        table["label"] = table["given"].astype(str)
    if arm == "dropped":
        table = table[table["row"].isin(found.ranked.loc[kept, "row"])]
    return table[["row", "label", "weight"]].reset_index(drop=True)


def _cells(ranked: pd.DataFrame, kept: Any) -> list[dict[str, Any]]:
    names = ranked["group"].astype(str) if "group" in ranked else "all"
    table = ranked[["given"]].assign(group=names, before=1, after=kept.astype(int)).astype({"given": str})
    counted = table.groupby(["given", "group"], as_index=False).sum().rename(columns={"given": "label"})
    return [{str(name): value for name, value in row.items()} for row in counted.to_dict(orient="records")]
