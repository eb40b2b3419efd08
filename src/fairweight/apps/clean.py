"""Train again on a run's data with wrong labels dropped, mended or weighted down, and say what that does to the gap."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairweight.apps._drop_rules import random_like
from fairweight.apps.audit import finished
from fairweight.apps.condense import train_all, write_named, write_rows
from fairweight.apps.suspects import Suspects, stays, suspects_of, write_table
from fairweight.errors import BadInput, option
from fairweight.runs.folder import RunFolder
from fairweight.runs.pool._job import Watcher
from fairweight.runs.spec import Spec
from fairweight.runs.statistics import Mean, numbers_of, paired

if TYPE_CHECKING:
    import pandas as pd

SUMMARY, KEPT, LABELS, WEIGHTS = "clean.json", "kept.txt", "relabelled.csv", "weights.parquet"
RECOMMENDED = "recommended.csv"  # row, label and weight of every row that stays; only where cleaning does good
NUMBERS = {"accuracy": "accuracy ↑", "tprd": "TPRD ↓", "max_fnr": "maxFNR ↓"}
PLAIN = "uniform"
ARMS = {
    "as-given": "labels as given",
    "relabelled": "relabelled",
    "weighted": "weighted by the posterior",
    "dropped": "suspects dropped",
    "random-drop": "random drop, same cells",
}
MENDED = ("relabelled", "weighted", "dropped")  # as they are preferred: the first that does no harm
SURE = 0.05  # p-value below which a difference over seeds counts


@dataclass(frozen=True)
class Cleaned:
    """Trainings on each set over seeds, plain and by the run's method."""

    out: Path
    suspected: int
    dropped: int
    relabelled: int
    cells: Sequence[Mapping[str, Any]]  # label, group, before, after: what dropping leaves of each cell
    seeds: Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]  # method: arm: seed: numbers in %

    def difference(self, method: str, arm: str, number: str) -> dict[str, float | int | None]:
        """Mean difference from the labels as given, over seeds, with the p-value of a paired t-test."""
        return paired(*({s: v[number] for s, v in self.seeds[method][name].items()} for name in (arm, "as-given")))

    def moved(self, method: str, arm: str, number: str) -> int:
        """1: higher than with the labels as given, -1: lower; 0: no more than chance over seeds explains."""
        found = self.difference(method, arm, number)
        p, mean = found["p"], found["mean"]
        return 0 if p is None or mean is None or p >= SURE else (1 if mean > 0 else -1)

    def harms(self, method: str, arm: str) -> bool:
        """True if the gap is wider or the accuracy lower than with the labels as given, beyond chance."""
        return self.moved(method, arm, "tprd") > 0 or self.moved(method, arm, "accuracy") < 0

    @property
    def recommended(self) -> str | None:
        """The first way to clean that helps and harms by no method; None: leave the labels as they are."""
        fine = [arm for arm in MENDED if not any(self.harms(m, arm) for m in self.seeds if arm in self.seeds[m])]
        helps = [arm for arm in fine if any(self._helps(m, arm) for m in self.seeds if arm in self.seeds[m])]
        return helps[0] if helps and self.suspected else None

    def advice(self) -> str:
        """Whether to clean, and how, in one sentence or two."""
        if not self.suspected:
            return "Do not clean: no label looks wrong."
        wider = [m for m in self.seeds if "dropped" in self.seeds[m] and self.moved(m, "dropped", "tprd") > 0]
        said = f"Dropping suspects widens the gap ({', '.join(wider)}). " if wider else ""
        if self.recommended is not None:
            return f"{said}Clean by '{ARMS[self.recommended]}': it helps on these test rows, and harms by no method."
        harmed = [arm for arm in MENDED if any(self.harms(m, arm) for m in self.seeds if arm in self.seeds[m])]
        if len(harmed) == len(MENDED):
            return f"{said}Do not clean: every way costs accuracy or widens the gap."
        return f"{said}Do not clean: no way that does no harm shows any good on these test rows."

    def _helps(self, method: str, arm: str) -> bool:
        return self.moved(method, arm, "tprd") < 0 or self.moved(method, arm, "accuracy") > 0

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "suspected": self.suspected,
            "dropped": self.dropped,
            "relabelled": self.relabelled,
            "cells": [dict(cell) for cell in self.cells],
            "methods": {
                method: {
                    arm: {
                        "seeds": {seed: dict(numbers) for seed, numbers in found.items()},
                        "means": {n: Mean.of([v[n] for v in found.values()]).to_dict() for n in NUMBERS},
                        "from_as_given": {n: self.difference(method, arm, n) for n in NUMBERS},
                        "harms": arm != "as-given" and self.harms(method, arm),
                    }
                    for arm, found in arms.items()
                }
                for method, arms in self.seeds.items()
            },
            "advice": self.advice(),
            "recommended": self.recommended,
            "folder": str(self.out),
        }

    def text(self) -> str:
        """The table of all sets and the verdict, for a terminal."""
        count = len(next(iter(next(iter(self.seeds.values())).values())))
        lines = [f"{self.suspected:,} labels look wrong; {self.dropped:,} of them are dropped and {self.relabelled:,} "
                 "relabelled. At least half of every cell stays."]  # fmt: skip
        for cell in self.cells:
            if cell["after"] < cell["before"]:
                lines.append(f"  {cell['label']}, {cell['group']}: {cell['after']:,} of {cell['before']:,} rows stay")
        for method, arms in self.seeds.items():
            title = f"{method}, in %, {count} seeds, mean ± standard error"
            lines += ["", f"{title:52s}" + "".join(f"{head:>16s}" for head in NUMBERS.values())]
            for arm, found in arms.items():
                means = "".join(f"{Mean.of([v[n] for v in found.values()]).text():>16s}" for n in NUMBERS)
                lines.append(f"{ARMS[arm]:52s}{means}{self._verdict(method, arm)}")
        note = " One seed tells nothing of chance: raise the seeds." if count < 2 else ""
        where = f"Files and runs: {self.out}"
        where += "" if self.recommended is None else f"; the cleaned set: {self.out / RECOMMENDED}"
        return "\n".join([*lines, "", f"{self.advice()}{note}", where])

    def _verdict(self, method: str, arm: str) -> str:
        if arm == "as-given":
            return ""
        words = {
            "tprd": {1: "widens the gap", -1: "narrows the gap"},
            "accuracy": {1: "raises accuracy", -1: "costs accuracy"},
        }
        said = [words[n][self.moved(method, arm, n)] for n in words if self.moved(method, arm, n)]
        return "  " + (", ".join(said) if said else "no more than chance explains")


def clean(
    run: str | Path,
    out: str | Path | None = None,
    *,
    trust: bool | None = None,
    seeds: int = 5,
    first_seed: int = 0,
    jobs: int | None = None,
    device: str = "cpu",
    data_dir: str | Path | None = None,
    watching: Callable[[dict[str, str]], Watcher] | None = None,
) -> Cleaned:
    """Train plainly, and by the run's own method, on each way of cleaning its labels, and compare over seeds.

    Splits, rows and settings stay the run's. A label that looks wrong is dropped, mended or weighted by the chance
    that it is right; at least half of every cell stays.
    """
    folder = finished(run)
    found = suspects_of(run, trust=trust)
    if not found.chances:
        raise BadInput(
            f"labels are mended beside trusted rows, and the run in {folder.path} has none: give exemplars whose "
            f"labels were checked with {option('exemplar.source')}, or say that they were with {option('trust')}."
        )
    where = folder.path / "clean" if out is None else Path(out)
    RunFolder(where).make()
    ranked = found.ranked
    kept = stays(ranked)
    first = folder.read_spec()
    base = first.with_(search={}, weights={}, data_seed=first.seed if first.data_seed is None else first.data_seed)
    methods = {PLAIN: base.with_(method=PLAIN, method_options={})}
    if first.method not in (PLAIN, "given") and not first.search:
        methods[first.method] = base
    rules = _written(where, found, kept)
    specs: dict[str, dict[str, list[Spec]]] = {}
    for method, spec in methods.items():
        specs[method] = {arm: [] for arm in ARMS if arm != "weighted" or method == PLAIN}
        for seed in range(first_seed, first_seed + seeds):
            like = random_like(ranked, kept, seed, within="cell")
            drawn = write_rows(where / f"random_seed{seed}.txt", ranked.loc[like, "row"])
            each: dict[str, dict[str, Any]] = {
                "as-given": {},
                "relabelled": {"rows": {**base.rows, "labels": rules["labels"]}},
                "weighted": {"method": "given", "weights": rules["weights"]},
                "dropped": {"rows": {**base.rows, "train": rules["kept"]}},
                "random-drop": {"rows": {**base.rows, "train": drawn}},
            }
            for arm in specs[method]:
                specs[method][arm].append(spec.with_(seed=seed, **each[arm]))
    named = {
        f"{method}, {ARMS[arm]}, seed {s.seed}": s
        for method, arms in specs.items()
        for arm, every in arms.items()
        for s in every
    }
    done = train_all(named, where, watching, jobs=jobs, device=device, data_dir=data_dir)
    numbers = {
        method: {arm: {str(s.seed): _numbers(done[s.fingerprint]) for s in every} for arm, every in arms.items()}
        for method, arms in specs.items()
    }
    relabelled = int(ranked["suggested"].notna().sum())
    result = Cleaned(where, found.suspected, int((~kept).sum()), relabelled, _cells(ranked, kept), numbers)
    (where / RECOMMENDED).unlink(missing_ok=True)
    if result.recommended is not None:
        write_table(_cleaned(found, kept, result.recommended), where / RECOMMENDED)
    RunFolder(where).write(SUMMARY, result.to_dict())
    return result


def _cleaned(found: Suspects, kept: Any, arm: str) -> pd.DataFrame:
    """The set that a way of cleaning makes: row, label and weight of every row that stays."""
    ranked = found.ranked
    table = ranked[["row"]].assign(label=ranked["given"].astype(str), weight=1.0)
    if arm == "weighted":
        table["weight"] = 1.0 - ranked["posterior"]
    elif arm == "dropped":
        table = table[kept]
    else:
        table["label"] = ranked["suggested"].astype(object).where(ranked["suggested"].notna(), table["label"])
    return table.sort_values("row").reset_index(drop=True)


def _numbers(folder: RunFolder) -> dict[str, float]:
    found = numbers_of(folder)
    return {name: found.get(name, float("nan")) for name in NUMBERS}


def _cells(ranked: pd.DataFrame, kept: Any) -> list[dict[str, Any]]:
    names = ranked["group"].astype(str) if "group" in ranked else "all"
    table = ranked[["given"]].assign(group=names, before=1, after=kept).astype({"given": str})
    counted = table.groupby(["given", "group"], as_index=False).sum().rename(columns={"given": "label"})
    return [
        {"label": str(a), "group": str(b), "before": int(c), "after": int(d)}
        for a, b, c, d in counted.itertuples(index=False)
    ]


def _written(where: Path, found: Suspects, kept: Any) -> dict[str, dict[str, str]]:
    """Write the cleaned sets; what a Spec says of each."""
    content = io.BytesIO()
    weights = _cleaned(found, kept, "weighted")
    weights.assign(weight=weights["weight"].clip(lower=1e-6)).to_parquet(content, index=False)
    labels = found.relabelled()[["row", "label"]].to_csv(index=False).encode()
    return {
        "labels": write_named(where / LABELS, labels),
        "weights": write_named(where / WEIGHTS, content.getvalue()),
        "kept": write_rows(where / KEPT, found.ranked.loc[kept, "row"]),
    }
