"""The record of judgement.py: every run by set, method and seed, means over seeds, and the promises checked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import judgement_peers as peers
import numpy as np
from judgement_checks import BUDGET, Entry, checks
from judgement_numbers import CRITERIA, numbers_of
from judgement_sets import sources

from fairweight.runs.provenance import all_versions, provenance
from fairweight.runs.statistics import Mean

NUMBERS = ("accuracy", "balanced_accuracy", "positives", "seconds")
# By criterion: which of our entries answers it. The last of those that is there counts as ours.
ANSWERS = {
    "equal-opportunity": ("ours-0.1", "ours"),
    "equalized-odds": ("ours-equalized-odds",),
    "demographic-parity": ("ours-demographic-parity",),
}


def record_of(runs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Put finished runs together."""
    every = list(runs)
    good = [run for run in every if "failed" not in run]
    _same_rows(good)
    sets = {
        name: _set(name, [r for r in good if r["set"] == name])
        for name in sources()
        if any(r["set"] == name for r in good)
    }
    used = all_versions(run["versions"] for run in good)
    origin = {
        **provenance(),
        "command": "python benchmarks/judgement.py --data FOLDER --seeds " + " ".join(str(s) for s in _seeds(good)),
    }
    origin["versions"] = {**origin["versions"], **{k: v for k, v in used.items() if k in peers.PACKAGES}}
    record = {
        "kind": "judgement",
        "name": "judgement",
        **origin,
        "commits": sorted({str(run["commit"]) for run in good}),
        "rows_to_learn_from": sorted({run["rows"] for run in good}),
        "budget": BUDGET,
        "bound_of_peers": peers.BOUND,
        "noise": "95 % interval of the paired t-test over seeds; gaps of a seed: bootstrap over test rows",
        "seconds": "wall time, on a machine that others used at the same time; cpu_seconds, where there, are its own",
        "failed": sorted({f"{r['set']}, {r['method']}: {r['failed']}" for r in every if "failed" in r}),
        "missing": missing(sets),
        "sets": sets,
    }
    return {**record, "checks": {c: checked(record, c) for c in ANSWERS if answering(record, c)}}


def _seeds(runs: Iterable[Mapping[str, Any]]) -> list[int]:
    return sorted({run["seed"] for run in runs})


def _same_rows(runs: Iterable[Mapping[str, Any]]) -> None:
    """Refuse runs of one set and seed that were measured on different test rows."""
    rows: dict[tuple[str, int], str] = {}
    for run in runs:
        key = (run["set"], run["seed"])
        if rows.setdefault(key, run["test_rows"]) != run["test_rows"]:
            raise ValueError(f"{key}: {run['method']} was measured on other test rows; run that set again")


def missing(sets: Mapping[str, Any]) -> list[str]:
    """List what has not been run: methods whose package is not installed, and methods without some of the seeds."""
    lacking = [f"{name}: {m.package} is not installed" for name, m in peers.METHODS.items() if not peers.installed(m)]
    for name, found in sets.items():
        seeds = {seed for row in found["rows"].values() for seed in row["seeds"]}
        for method in peers.METHODS:
            have = len(found["rows"].get(method, {}).get("seeds", {}))
            if have < len(seeds) and peers.installed(peers.METHODS[method]):
                lacking.append(f"{name}, {method}: {have} of {len(seeds)} seeds")
    return lacking


def _set(name: str, runs: list[Mapping[str, Any]]) -> dict[str, Any]:
    rows = {}
    for method in [m for m in peers.METHODS if any(run["method"] == m for run in runs)]:
        mine = sorted((r for r in runs if r["method"] == method), key=lambda r: int(r["seed"]))
        means = {key: _mean([r[key] for r in mine]) for key in NUMBERS}
        gaps = {c: _mean([r["gaps"][c]["value"] for r in mine if r["gaps"][c]["value"] is not None]) for c in CRITERIA}
        about = peers.METHODS[method]
        kept = ("counts", "seconds", "cpu_seconds", "test_rows", "n_fit", "rows", "commit", "date", "verdict")
        rows[method] = {
            "title": about.title,
            "plain": about.plain,
            "groups_at_prediction": about.groups,
            "means": {**means, "gaps": gaps},
            "seeds": {str(r["seed"]): {**{k: r[k] for k in kept if k in r}, **_short(r)} for r in mine},
        }
    return {"about": sources()[name].about, "rows": rows}


def _mean(values: list[float]) -> dict[str, Any]:
    return {k: round(v, 4) if isinstance(v, float) else v for k, v in Mean.of(values).to_dict().items()}


def _short(run: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of one run to three digits; the counts beside them give the rest."""
    gaps = {
        c: [None if v is None else round(v, 3) for v in (g["value"], g["low"], g["high"])]
        for c, g in run["gaps"].items()
    }
    return {**{k: round(run[k], 3) for k in NUMBERS}, "gaps": gaps}


def answering(record: Mapping[str, Any], criterion: str) -> str | None:
    """Name the entry of ours that counts for a criterion."""
    there = [m for m in ANSWERS[criterion] if any(m in found["rows"] for found in record["sets"].values())]
    return there[-1] if there else None


def entries_of(record: Mapping[str, Any], criterion: str) -> dict[str, dict[str, Entry]]:
    """Accuracy and gap by set, method and seed."""
    found: dict[str, dict[str, Entry]] = {}
    for name, of_set in record["sets"].items():
        found[name] = {}
        for method, row in of_set["rows"].items():
            values = {int(seed): numbers_of(np.array(run["counts"])) for seed, run in row["seeds"].items()}
            known = {s: v for s, v in values.items() if v["gaps"][criterion]["value"] is not None}
            if known:
                found[name][method] = Entry(
                    {s: v["accuracy"] for s, v in known.items()},
                    {s: v["gaps"][criterion]["value"] for s, v in known.items()},
                    plain=row["plain"],
                    groups=row["groups_at_prediction"],
                    balanced={s: v["balanced_accuracy"] for s, v in known.items()},
                )
    return found


def checked(record: Mapping[str, Any], criterion: str) -> dict[str, Any]:
    """Check the promises by one criterion."""
    ours = answering(record, criterion)
    assert ours is not None
    with_groups = "ours-groups" if criterion == "equal-opportunity" else None
    return {"ours": ours, "promises": [c.to_dict() for c in checks(entries_of(record, criterion), ours, with_groups)]}


def restore(record: Mapping[str, Any], path_of: Callable[[str, int, str], Path]) -> None:
    """Write a record's runs as files again, where they are not there."""
    for name, of_set in record["sets"].items():
        for method, row in of_set["rows"].items():
            for seed, run in row["seeds"].items():
                path = path_of(name, int(seed), method)
                if path.exists():
                    continue
                kept = {k: v for k, v in run.items() if k != "gaps"}
                whole = {"set": name, "seed": int(seed), "method": method, "versions": record["versions"], **kept}
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps({**whole, **numbers_of(np.array(run["counts"]), int(seed))}))
