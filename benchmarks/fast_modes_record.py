"""What the runs of benchmarks/fast_modes.py say: means, paired differences, the recommended mode, a table."""

from __future__ import annotations

import statistics
from typing import Any

PLAIN, EXACT, OTHER = "plain", "exact", "exact, another exemplar batch"
MOMENTS = {"early": 0.05, "mid": 0.5, "late": 1.0}  # as a share of the steps
MAY_COST = 1.3


def mean_of(values: list[float]) -> dict[str, float | int | None]:
    """Mean, its standard error (None of one value), and of how many."""
    error = round(statistics.stdev(values) / len(values) ** 0.5, 4) if len(values) > 1 else None
    return {"mean": round(statistics.fmean(values), 4), "se": error, "n": len(values)}


def summary(
    modes: dict[str, dict[str, Any]], runs: list[dict[str, Any]], timed: dict[str, dict[str, Any]], choice: int
) -> dict[str, Any]:
    """What the runs say, and which mode the rule recommends."""
    seeds = sorted({run["seed"] for run in runs})
    chosen_on, reported = seeds[:choice], seeds[choice:]
    by = {(run["mode"], run["seed"]): run for run in runs}
    rows: dict[str, dict[str, Any]] = {}
    for mode in (PLAIN, *modes):
        row: dict[str, Any] = {"options": modes.get(mode, {}), "times_plain": timed[mode]["ms"] / timed[PLAIN]["ms"]}
        row |= {"ms": timed[mode]["ms"], "n_timed": timed[mode]["n"], "refusal": timed[mode]["refusal"]}
        own = [s for s in reported if (mode, s) in by]
        for number in ("accuracy", "tprd") if own else ():
            row[number] = mean_of([by[mode, s]["test"][number] for s in own])
            for other in (PLAIN, EXACT):
                paired = [by[mode, s]["test"][number] - by[other, s]["test"][number] for s in own if (other, s) in by]
                if paired and mode != other:
                    row[f"{number}_minus_{other}"] = mean_of(paired)
        judged = [by[mode, s]["validation"] for s in chosen_on if (mode, s) in by]
        if judged:
            row["judged"] = statistics.fmean(v["tprd"] + 100 - v["accuracy"] for v in judged)
        rows[mode] = row
    looks = [run["correlations"] for run in runs if "correlations" in run]
    correlations = {
        name: {moment: mean_of([c for look in looks for c in look[moment][name]]) for moment in MOMENTS}
        for name in (looks[0]["early"] if looks else ())
    }
    cheap = [m for m in modes if "judged" in rows[m] and rows[m]["times_plain"] <= MAY_COST]
    recommended = min(cheap, key=lambda m: rows[m]["judged"]) if cheap else None
    about = {"chosen_on": chosen_on, "reported": reported, "recommended": recommended}
    return {"rows": rows, "correlations": correlations, **about}


def table(record: dict[str, Any]) -> str:
    """For people, as Markdown."""

    def number(value: dict[str, Any] | None, digits: int = 2) -> str:
        if value is None:
            return "–"
        return f"{value['mean']:.{digits}f}" + ("" if value["se"] is None else f" ± {value['se']:.{digits}f}")

    lines = [
        "| mode | × plain | rank correlation early / mid / late | accuracy | TPRD | TPRD − exact | TPRD − plain |",
        "|---|---|---|---|---|---|---|",
    ]
    for mode, row in record["rows"].items():
        base = record["correlations"].get(mode.split(", every")[0])
        if mode == EXACT or mode.startswith("every"):
            like = "1 (the same pull)" if mode != EXACT else "1"
        else:
            like = " / ".join(f"{base[m]['mean']:.2f}" for m in MOMENTS) if base else "–"
        cells = [number(row.get(key)) for key in ("accuracy", "tprd", "tprd_minus_exact", "tprd_minus_plain")]
        name = f"**{mode}**" if mode == record["recommended"] else mode
        lines.append(f"| {name} | {row['times_plain']:.2f} | {like} | {' | '.join(cells)} |")
    other = record["correlations"].get(OTHER)
    if other:
        like = " / ".join(f"{other[m]['mean']:.2f}" for m in MOMENTS)
        lines.append(f"| {OTHER} | | {like} | | | | |")
    return "\n".join(lines)
