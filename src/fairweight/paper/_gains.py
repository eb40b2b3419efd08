"""What each method cost and gave in the records, as Markdown: against Uniform, seed by seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairweight.paper._markdown import heads, line, section_name, seeds_text
from fairweight.paper._table_text import mean_text
from fairweight.paper.verdict import LEVEL

Record = Mapping[str, Any]
APART = f"from Uniform [{100 * LEVEL:.0f} %]"


@dataclass(frozen=True)
class Gain:
    """One row of a record beside Uniform's."""

    method: str
    record: str
    row: Mapping[str, Any]
    apart: Mapping[str, Any]  # by number: mean, standard error, n and p of the difference
    cost: float | None  # training time in multiples of Uniform's


def gains(found: Iterable[Record]) -> Iterator[Gain]:
    """Of every row that has a Uniform row to be compared with; one on the same training rows where there is one."""
    for record in found:
        rows = {row["key"]: row for row in record["rows"]}
        where = ", ".join(section_name(record)) if record["kind"] == "reproduce" else record["name"]
        for row in record["rows"]:
            beside = sorted(row["against"], key=lambda key: not key.endswith("-same"))
            other = next((rows[key] for key in beside if key in rows), None)
            if not row.get("spec") or other is None:
                continue
            apart = row["compared"][other["key"]]
            if "tprd" in apart and apart["tprd"]["n"]:
                cost = record.get("cost", {}).get(row["key"]) or _ratio(row, other, record["rows"])
                yield Gain(row["spec"]["method"], where, row, apart, cost)


def methods_text(found: Sequence[Record]) -> str:
    """A table for each comparison of methods, then one for the rows of the paper's tables; empty without records."""
    parts = [_comparison(record) for record in found if record["kind"] == "compare"]
    others = sorted(gains(r for r in found if r["kind"] != "compare"), key=lambda gain: gain.method)
    if others:
        titles = ["method", "record", "row", "n", f"TPRD {APART}", f"accuracy {APART}", "time, × Uniform"]
        lines = [
            line(
                [g.method, g.record, g.row["title"], g.apart["tprd"]["n"]]
                + [difference_text(g.apart[key]) for key in ("tprd", "accuracy")]
                + [_cost(g.cost)]
            )
            for g in others
        ]
        parts.append("\n".join([heads(titles), *lines]))
    return "\n\n".join(parts)


def method_lines(found: Iterable[Record], method: str) -> str:
    """One method, a line for each record that has it; empty where none has."""
    lines = []
    for gain in gains(found):
        if gain.method != method:
            continue
        title = "" if gain.row["title"] == method else f" ({gain.row['title']})"
        n = seeds_text(gain.apart["tprd"]["n"])
        lines.append(
            f"- {gain.record}{title}, {n}: TPRD {difference_text(gain.apart['tprd'])}, "
            f"accuracy {difference_text(gain.apart['accuracy'])} points from Uniform, {_cost(gain.cost)} times its "
            "time."
        )
    return "\n".join(lines)


def difference_text(entry: Mapping[str, Any]) -> str:
    """A difference with its interval: "-1.53 [-2.97, -0.09]"."""
    if entry["mean"] is None:
        return "–"
    if entry["standard_error"] is None:
        return f"{entry['mean']:+.2f}"
    from scipy import stats

    reach = float(stats.t.ppf(0.5 + LEVEL / 2, entry["n"] - 1)) * entry["standard_error"]
    return f"{entry['mean']:+.2f} [{entry['mean'] - reach:+.2f}, {entry['mean'] + reach:+.2f}]"


def _comparison(record: Record) -> str:
    beside = {gain.row["key"]: gain for gain in gains([record])}
    lines = [heads(["method", "n", "TPRD, %", APART, "accuracy, %", APART, "trainings", "time, × Uniform"])]
    for row in record["rows"]:
        gain = beside.get(row["key"])
        cells = [row["title"], row["means"]["tprd"]["n"]]
        for key in ("tprd", "accuracy"):
            cells += [mean_text(row["means"][key]), "–" if gain is None else difference_text(gain.apart[key])]
        trainings = row["beside"].get("trainings", {}).get("mean") or 1
        lines.append(line([*cells, f"{trainings:.0f}", "1.0" if gain is None else _cost(gain.cost)]))
    seeds = record["seeds"]
    missing = [f"Not run: {method}: {reason}" for method, reason in record["left_out"].items()]
    source = (
        f"`{record['command']}`; seeds {seeds[0]} to {seeds[-1]}, {', '.join(record['devices'])}, commit "
        f"{', '.join(record['commits'])}. Time: {record.get('cost_measured', 'on the clock')}."
    )
    about = f"**{record['name']}**: {record['source']}, {record['protocol']}. {source}"
    return "\n\n".join([about, "\n".join(lines), *missing])


def _ratio(row: Mapping[str, Any], other: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Of the time of training; a row that takes its weights from other runs has had theirs too."""
    ours, theirs = (entry["beside"].get("seconds", {}).get("mean") for entry in (row, other))
    for first in row["spec"].get("weights", {}).get("runs", ()):
        whose = next((entry for entry in rows if _without_seed(entry.get("spec")) == _without_seed(first)), None)
        before = None if whose is None else whose["beside"].get("seconds", {}).get("mean")
        ours = ours + before if ours and before else None
    return ours / theirs if ours and theirs else None


def _without_seed(spec: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if spec is None else {key: value for key, value in spec.items() if key != "seed"}


def _cost(cost: float | None) -> str:
    return "–" if cost is None else f"{cost:.1f}"
