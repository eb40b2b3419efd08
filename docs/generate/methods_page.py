"""Parts of docs/methods.md: what each method cost and gave in the records, against Uniform, seed by seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fairweight.paper._table_text import markdown
from fairweight.paper.records import section_name
from fairweight.paper.verdict import LEVEL
from fairweight.runs.statistics import mean_text

Record = Mapping[str, Any]
APART = f"from Uniform [{100 * LEVEL:.0f} %]"


class Gain(NamedTuple):
    """One row of a record beside Uniform's."""

    method: str
    record: str
    row: Record
    n: int
    tprd: str  # its difference with its interval
    accuracy: str
    time: str  # of training, in multiples of Uniform's, where processor time was measured


def gains(found: Iterable[Record]) -> Iterator[Gain]:
    """Of every row that has a Uniform row to be compared with; one on the same training rows where there is one."""
    for record in found:
        rows = {row["key"]: row for row in record["rows"]}
        where = section_name(record) if record["kind"] == "reproduce" else record["name"]
        for key, row in rows.items():
            beside = sorted(row["against"], key=lambda key: not key.endswith("-same"))
            other = next((rows[name] for name in beside if name in rows), None)
            if not row.get("spec") or other is None:
                continue
            apart = row["compared"][other["key"]]
            if "tprd" in apart and apart["tprd"]["n"]:
                cost = record.get("cost", {}).get(key)
                numbers = (apart["tprd"]["n"], interval_text(apart["tprd"]), interval_text(apart["accuracy"]))
                yield Gain(row["spec"]["method"], where, row, *numbers, "–" if cost is None else f"{cost:.1f}")


def methods_text(found: Sequence[Record]) -> str:
    """A table for each comparison of methods, then one for the rows of the paper's tables; empty without records."""
    parts = [_comparison(record) for record in found if record["kind"] == "compare"]
    others = sorted(gains(r for r in found if r["kind"] != "compare"), key=lambda gain: gain.method)
    if others:
        titles = ["method", "record", "row", "n", f"TPRD {APART}", f"accuracy {APART}"]
        parts.append(markdown(titles, ([*gain[:2], gain.row["title"], *gain[3:6]] for gain in others)))
    return "\n\n".join(parts)


def interval_text(entry: Mapping[str, Any]) -> str:
    """A difference with its interval: "-1.53 [-2.97, -0.09]"."""
    mean, error = entry["mean"], entry["standard_error"]
    if mean is None or error is None:
        return "–" if mean is None else f"{mean:+.2f}"
    from scipy import stats

    reach = stats.t.ppf(0.5 + LEVEL / 2, entry["n"] - 1) * error
    return f"{mean:+.2f} [{mean - reach:+.2f}, {mean + reach:+.2f}]"


def _comparison(record: Record) -> str:
    beside = {gain.row["key"]: gain[4:] for gain in gains([record])}
    titles = ["method", "n", "TPRD, %", APART, "accuracy, %", APART, "trainings", "time, × Uniform"]
    rows = []
    for row in record["rows"]:
        tprd, accuracy, time = beside.get(row["key"], ("–", "–", "1.0"))
        ours, trainings = row["means"], row["beside"].get("trainings", {}).get("mean") or 1
        cells = [ours["tprd"]["n"], mean_text(ours["tprd"]), tprd, mean_text(ours["accuracy"]), accuracy]
        rows.append([row["title"], *cells, f"{trainings:.0f}", time])
    seeds = record["seeds"]
    about = (
        f"**{record['name']}**: {record['source']}, {record['protocol']}. `{record['command']}`; seeds {seeds[0]} to "
        f"{seeds[-1]}, {', '.join(record['devices'])}, commit {', '.join(record['commits'])}. Time: "
        f"{record.get('cost_measured', 'on the clock')}."
    )
    missing = [f"Not run: {method}: {reason}" for method, reason in record["left_out"].items()]
    return "\n\n".join([about, markdown(titles, rows), *missing])
