"""Records as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fairweight.paper._table_text import in_digits, mean_text, share_text, size_line, size_name
from fairweight.paper.plan import planned
from fairweight.paper.run_numbers import BESIDE

Record = Mapping[str, Any]


def line(cells: Iterable[object]) -> str:
    """One line of a table."""
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def heads(titles: Iterable[str]) -> str:
    """The first two lines of a table."""
    named = list(titles)
    return line(named) + "\n" + "|" + "---|" * len(named)


def compared_lines(entry: Mapping[str, Any]) -> str:
    """Ours, with the printed number in brackets where there is one."""
    printed = entry.get("printed")
    beside = "" if printed is None else f" ({mean_text({**printed, 'n': printed['runs']})})"
    return f"{mean_text(entry)}{beside}"


def record_section(record: Record) -> str:
    """One table: ours beside printed, what stands beside it, differences seed by seed, and where it comes from."""
    parts = [f"## {', '.join(section_name(record))}", f"{record['title']} {size_line(record)}"]
    parts += [_main_table(record), _beside_table(record), _paired_table(record), _closed_table(record)]
    parts += [_front_table(record)]
    parts += ["\n".join(f"- {remark}" for remark in record["remarks"]), _source(record)]
    return "\n\n".join(part for part in parts if part)


def _main_table(record: Record) -> str:
    titles = ["row", "n"]
    for number in record["numbers"]:
        unit = f", {number['unit']}" if number["unit"] else ""
        titles += [f"{number['title']}{unit}"] + (["printed", "verdict"] if record["printed"] else [])
    lines = [heads(titles)]
    for row in record["rows"]:
        cells: list[object] = [row["title"], max((row["means"][n["key"]]["n"] for n in record["numbers"]), default=0)]
        for number in record["numbers"]:
            entry = row["means"][number["key"]]
            cells.append(mean_text(entry))
            if record["printed"]:
                printed = entry.get("printed")
                cells.append("–" if printed is None else mean_text({**printed, "n": printed["runs"]}))
                cells.append(entry.get("verdict", "–"))
        lines.append(line(cells))
    return "\n".join(lines)


def _beside_table(record: Record) -> str:
    keys = [key for key in BESIDE if any(key in row["beside"] for row in record["rows"])]
    lines = [heads(["beside it", *(BESIDE[key][0] for key in keys)])]
    for row in record["rows"]:
        found = [row["beside"].get(key) for key in keys]
        cells = ["–" if e is None else in_digits(e["mean"], BESIDE[k][1]) for k, e in zip(keys, found, strict=True)]
        lines.append(line([row["title"], *cells]))
    return "\n".join(lines) if keys else ""


def _paired_table(record: Record) -> str:
    titles = {row["key"]: row["title"] for row in record["rows"]}
    lines = [heads(["difference, seed by seed", "from", *(n["title"] for n in record["numbers"])])]
    for row in record["rows"]:
        for other, found in row["compared"].items():
            if any(found[n["key"]]["n"] for n in record["numbers"]):
                lines.append(
                    line([row["title"], titles[other], *(_difference(found[n["key"]]) for n in record["numbers"])])
                )
    return "\n".join(lines) if len(lines) > 1 else ""


def _difference(entry: Mapping[str, Any]) -> str:
    if entry["mean"] is None:
        return "–"
    error = "" if entry["standard_error"] is None else f" ± {entry['standard_error']:.2f}"
    return f"{entry['mean']:+.2f}{error}" + ("" if entry["p"] is None else f" (p {entry['p']:.2g})")


def _closed_table(record: Record) -> str:
    if not record.get("gap_closed"):
        return ""
    titles = {row["key"]: row["title"] for row in record["rows"]}
    lines = [heads(["share of the way from corrupted to clean", "TPRD", "printed", "accuracy", "printed"])]
    for key, found in record["gap_closed"].items():
        cells = [found[number][whose] for number in ("tprd", "accuracy") for whose in ("ours", "printed")]
        lines.append(line([titles[key], *map(share_text, cells)]))
    return "\n".join(lines)


def _front_table(record: Record) -> str:
    """TPRD against accuracy, where rows were run that draw that front."""
    if not any(row["kind"] == "extra" for row in record["rows"]):
        return ""
    shown = [
        row
        for row in record["rows"]
        if row["means"].get("tprd", {}).get("mean") is not None and row["key"] != "uniform-clean"  # other labels
    ]
    points = {row["title"]: (row["means"]["tprd"]["mean"], row["means"]["accuracy"]["mean"]) for row in shown}
    seeds = {row["title"]: sorted(map(int, row["seeds"])) for row in shown}
    lines = [heads(["TPRD against accuracy", "n", "TPRD", "accuracy", "on the front"])]
    for title, (tprd, accuracy) in sorted(points.items(), key=lambda point: point[1]):
        beaten = any(t <= tprd and a >= accuracy and (t, a) != (tprd, accuracy) for t, a in points.values())
        lines.append(line([title, len(seeds[title]), f"{tprd:.2f}", f"{accuracy:.2f}", "" if beaten else "yes"]))
    if len({tuple(which) for which in seeds.values()}) > 1:
        lines += [
            "",
            "Not every row has the same seeds: where two means are close, go by the differences seed by seed.",
        ]
    return "\n".join(lines)


def _source(record: Record) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    options = ", ".join(f"{key}={value}" for key, value in record["options"].items())
    commands = record.get("commands") or [record["command"]]
    unsaid = [option for option in other_options(record) if any(option not in command for command in commands)]
    then = f" (where it does not say so, {' and '.join(unsaid)} was the default then: name it now)" if unsaid else ""
    return "\n".join(
        [
            f"- Command: {'; '.join(f'`{command}`' for command in commands)}{then}",
            f"- Options: {options or 'none'}",
            f"- {', '.join(record['devices'])}; commit {', '.join(record['commits'])}; {versions}; "
            f"{record['wall_seconds']:.0f} seconds on the clock for what was not found finished; "
            f"seeds {_seeds(record['seeds'])}",
        ]
    )


def seeds_text(n: int) -> str:
    """How many, in words: one has no plural."""
    return f"{n} seed" if n == 1 else f"{n} seeds"


def _seeds(seeds: list[int]) -> str:
    whole = seeds == list(range(seeds[0], seeds[0] + len(seeds))) if seeds else False
    return f"{seeds[0]} to {seeds[-1]}" if whole and len(seeds) > 1 else ", ".join(map(str, seeds)) or "none"


def demo_table(record: Record) -> str:
    """The demo's rows."""
    titles = {"tprd": "TPRD, % ↓", "max_fnr": "maxFNR, % ↓", "accuracy": "accuracy, % ↑"}
    n = max(entry["n"] for row in record["rows"].values() for entry in row.values())
    lines = [heads([f"mean ± standard error, {n} seeds", *titles.values()])]
    for name, row in record["rows"].items():
        cells = [mean_text(_percent(row[key])) for key in titles]
        lines.append(line([name, *cells]))
    auc = record.get("auc_wrong_labels")
    tail = "" if auc is None else f"\n\nA low score finds a wrong label: AUC {mean_text(auc, 3)}."
    return "\n".join(lines) + tail


def _percent(entry: Mapping[str, Any]) -> dict[str, Any]:
    scaled = {key: None if entry.get(key) is None else 100 * entry[key] for key in ("mean", "standard_error")}
    return {**scaled, "n": entry["n"]}


def section_name(record: Record) -> list[str]:
    """The table, its size, and what was chosen otherwise: two sections must not share a name."""
    return [record["table"], size_name(record), *other_options(record)]


def other_options(record: Record) -> list[str]:
    """The options that are not at their defaults."""
    options = planned(record["table"]).table.options
    return [
        f"{key}={value}" for key, value in record["options"].items() if key in options and value != options[key].default
    ]


def history_cost_table(record: Record) -> str:
    """What keeping histories costs, network by network."""
    lines = [
        "| network | a plain step, ms | in the history, ms | share of an epoch | by difference | n |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in record["rows"].items():
        shares = []
        for key in ("share_of_epoch", "share_by_difference"):
            low, high = row[f"{key}_quartiles"]
            shares.append(f"{100 * row[key]:.2f} % ({100 * low:.2f} to {100 * high:.2f})")
        lines.append(
            f"| {name} | {row['epoch_ms_per_step']:.3g} | {row['history_ms']:.4f} | {' | '.join(shares)} | {row['n']} |"
        )
    told = f"Medians (quartiles), processor time; {record['device']}; `{record['command']}`; commit {record['commit']}."
    return "\n".join([*lines, "", told])
