"""Parts of docs/methods.md: what each method cost and gave in the records, against Uniform, seed by seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairweight.paper._table_text import markdown, seeds_text
from fairweight.paper.records import section_name
from fairweight.paper.verdict import LEVEL
from fairweight.runs.statistics import mean_text

Record = Mapping[str, Any]
APART = f"from Uniform [{100 * LEVEL:.0f} %]"


@dataclass(frozen=True)
class Gain:
    """One row of a record beside Uniform's."""

    method: str
    record: str
    row: Mapping[str, Any]
    tprd: str  # its difference with its interval
    accuracy: str
    n: int
    time: str  # of training, in multiples of Uniform's


def gains(found: Iterable[Record]) -> Iterator[Gain]:
    """Of every row that has a Uniform row to be compared with; one on the same training rows where there is one."""
    for record in found:
        rows = {row["key"]: row for row in record["rows"]}
        where = section_name(record) if record["kind"] == "reproduce" else record["name"]
        for row in record["rows"]:
            beside = sorted(row["against"], key=lambda key: not key.endswith("-same"))
            other = next((rows[key] for key in beside if key in rows), None)
            if not row.get("spec") or other is None:
                continue
            apart = row["compared"][other["key"]]
            if "tprd" in apart and apart["tprd"]["n"]:
                cost = record.get("cost", {}).get(row["key"]) or _cost(row, other, record["rows"])
                numbers = (interval_text(apart["tprd"]), interval_text(apart["accuracy"]), apart["tprd"]["n"])
                time = "–" if cost is None else f"{cost:.1f}"
                yield Gain(row["spec"]["method"], where, row, *numbers, time)


def methods_text(found: Sequence[Record]) -> str:
    """A table for each comparison of methods, then one for the rows of the paper's tables; empty without records."""
    parts = [_comparison(record) for record in found if record["kind"] == "compare"]
    others = sorted(gains(r for r in found if r["kind"] != "compare"), key=lambda gain: gain.method)
    if others:
        titles = ["method", "record", "row", "n", f"TPRD {APART}", f"accuracy {APART}", "time, × Uniform"]
        rows = [[g.method, g.record, g.row["title"], g.n, g.tprd, g.accuracy, g.time] for g in others]
        parts.append(markdown(titles, rows))
    return "\n\n".join(parts)


def method_lines(found: Iterable[Record], method: str) -> str:
    """One method, a line for each record that has it; empty where none has."""
    lines = []
    for gain in gains(found):
        if gain.method == method:
            title = "" if gain.row["title"] == method else f" ({gain.row['title']})"
            lines.append(
                f"- {gain.record}{title}, {seeds_text(gain.n)}: TPRD {gain.tprd}, accuracy {gain.accuracy} points from "
                f"Uniform, {gain.time} times its time."
            )
    return "\n".join(lines)


def interval_text(entry: Mapping[str, Any]) -> str:
    """A difference with its interval: "-1.53 [-2.97, -0.09]"."""
    if entry["mean"] is None:
        return "–"
    if entry["standard_error"] is None:
        return f"{entry['mean']:+.2f}"
    from scipy import stats

    reach = stats.t.ppf(0.5 + LEVEL / 2, entry["n"] - 1) * entry["standard_error"]
    return f"{entry['mean']:+.2f} [{entry['mean'] - reach:+.2f}, {entry['mean'] + reach:+.2f}]"


def _comparison(record: Record) -> str:
    beside = {gain.row["key"]: gain for gain in gains([record])}
    titles = ["method", "n", "TPRD, %", APART, "accuracy, %", APART, "trainings", "time, × Uniform"]
    rows = []
    for row in record["rows"]:
        gain = beside.get(row["key"])
        tprd, accuracy, time = ("–", "–", "1.0") if gain is None else (gain.tprd, gain.accuracy, gain.time)
        means = row["means"]
        trainings = row["beside"].get("trainings", {}).get("mean") or 1
        rows.append([
            row["title"], means["tprd"]["n"], mean_text(means["tprd"]), tprd, mean_text(means["accuracy"]), accuracy,
            f"{trainings:.0f}", time,
        ])  # fmt: skip
    seeds = record["seeds"]
    about = (
        f"**{record['name']}**: {record['source']}, {record['protocol']}. `{record['command']}`; seeds {seeds[0]} to "
        f"{seeds[-1]}, {', '.join(record['devices'])}, commit {', '.join(record['commits'])}. Time: "
        f"{record.get('cost_measured', 'on the clock')}."
    )
    missing = [f"Not run: {method}: {reason}" for method, reason in record["left_out"].items()]
    return "\n\n".join([about, markdown(titles, rows), *missing])


def _cost(row: Mapping[str, Any], other: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Ratio of training times; a row that takes its weights from other runs has had their time too."""

    def seconds(entry: Mapping[str, Any] | None) -> float | None:
        return None if entry is None else entry["beside"].get("seconds", {}).get("mean")

    def without_seed(spec: Mapping[str, Any] | None) -> dict[str, Any] | None:
        return None if spec is None else {**spec, "seed": None}

    before = [
        next((entry for entry in rows if without_seed(entry.get("spec")) == without_seed(first)), None)
        for first in row["spec"].get("weights", {}).get("runs", ())
    ]
    times = [seconds(entry) for entry in (row, *before)]
    known = [time for time in times if time]
    theirs = seconds(other)
    return sum(known) / theirs if theirs and len(known) == len(times) else None
