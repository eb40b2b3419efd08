"""The record of benchmarks/pipeline.py in words."""

from __future__ import annotations

from typing import Any

AUGMENT_MAY_COST = 0.05  # of a step
AS_GOOD_AS_NONE = 0.01  # of the time: less waiting than this is not told apart from none

PIPELINE = """\
# The data pipeline

The set lies in the device's memory; `fit` draws each batch and its exemplars there, augments there, and nothing
between two steps waits for the device, so that the host begins steps ahead of it. Whether the host stays ahead is
measured within `fit` itself: stretches of steps that run freely take turns with stretches in which the device is held
until the host has begun them, whose time on the device is its work alone. What a free step takes beyond that is
waiting. A step counts as **found dry** where the device was done with one step before the host had wholly begun the
next. The targets: the device never waits, and augmentation takes under 5 % of a step.
"""


def words(record: dict[str, Any]) -> list[str]:
    """One record: its two tables, and the targets beside them."""
    setting = record["setting"]
    title = (
        f"## ResNet18(width={setting['width']}), {setting['pixels']}×{setting['pixels']}, batch {setting['batch']}, "
        f"{setting['samples']:,} samples, {record['device']}, {record['precision']}\n"
    )
    parts = [title, "\n".join(_before(record)) + "\n", "\n".join(_fits(record)) + "\n"]
    parts += [f"{_augmentation(record)}\n", f"{_waiting(record)}\n"]
    epochs = [
        f"{name} {row['epoch_ms']:.3f} ms"
        for name, method in record["methods"].items()
        for row in method["fits"].values()
        if "epoch_ms" in row
    ]
    uncaptured = [name for name, method in record["methods"].items() if not method["step"]["captured"]]
    parts.append(
        f"A whole epoch, with its smaller last batch, which is not replayed, and what is read at its end, per step: "
        f"{', '.join(epochs)} (one epoch each).\n"
    )
    if uncaptured:
        parts.append(f"Not replayed as a CUDA graph here: {', '.join(uncaptured)}.\n")
    told = f"torch {record['versions']['torch']}; commit {record['commit'] or 'unknown'}"
    return [*parts, f"`{record['command']}`; {told}.\n"]


def _figure(found: dict[str, Any] | None, unit: float = 1.0, digits: int = 3) -> str:
    """The median with its quartiles."""
    if found is None:
        return "–"
    low, high = found["quartiles"]
    return f"{unit * found['median']:.{digits}f} ({unit * low:.{digits}f} to {unit * high:.{digits}f})"


def _before(record: dict[str, Any]) -> list[str]:
    """What comes before a step, and the step."""
    lines = ["| | device, µs | host, µs | n |", "|---|---|---|---|"]
    rows = dict(record["parts"].items())
    rows |= {f"the step alone, {name}": method["step"] for name, method in record["methods"].items()}
    for name, row in rows.items():
        times = f"{_figure(row['device_ms'], 1e3, 1)} | {_figure(row['host_ms'], 1e3, 1)}"
        lines.append(f"| {name} | {times} | {row['device_ms']['n']} × {row['at_once']} |")
    return lines


def _fits(record: dict[str, Any]) -> list[str]:
    lines = [
        "| `fit` | with | wall, ms | pace on the device, ms | device's work, ms | host, ms | waits | found dry |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, method in record["methods"].items():
        for kind, row in method["fits"].items():
            waits = "–" if row["waits"] is None else f"{row['waits']:.2%}"
            figures = [_figure(row[key]) for key in ("wall_ms", "pace_ms", "device_ms", "host_ms")]
            lines.append(f"| {name} | {kind} | {' | '.join(figures)} | {waits} | {row['dry']} of {row['watched']} |")
    return [*lines, "", "Per step: median (quartiles); waiting is of the means, so that rare waits count."]


def _augmentation(record: dict[str, Any]) -> str:
    took = record["parts"]["augmentation"]["device_ms"]["median"]
    shares, beside = {}, []
    for name, method in record["methods"].items():
        shares[name] = took / method["step"]["device_ms"]["median"]
        with_it, without = (method["fits"][kind]["pace_ms"]["mean"] for kind in ("augmentation", "neither"))
        beside.append(f"{name} {with_it / without - 1:.2%}")
    kept = all(share < AUGMENT_MAY_COST for share in shares.values())
    listed = ", ".join(f"{share:.2%} of the step of {name}" for name, share in shares.items())
    return (
        f"**Augmentation under 5 % of a step: {'met' if kept else 'missed'}.** On the device it takes {listed}; `fit` "
        f"with it is slower than without by {', '.join(beside)}."
    )


def _waiting(record: dict[str, Any]) -> str:
    if not record["gpu"]:
        return "On a processor a step is done when it has been begun: there is nothing that could wait."
    rows = [(name, kind, row) for name, method in record["methods"].items() for kind, row in method["fits"].items()]
    dry, watched = (sum(row[key] for _, _, row in rows) for key in ("dry", "watched"))
    behind = [f"{name} with {kind}" for name, kind, row in rows if row["device_ms"] is None]
    known = [row for _, _, row in rows if row["device_ms"] is not None]
    met = dry == 0 and not behind and all(row["waits"] < AS_GOOD_AS_NONE for row in known)
    text = f"**The device never waits: {'met' if met else 'missed'}.** It was found dry at {dry} of {watched} steps"
    if known:
        share = max(row["host_ms"]["median"] / row["pace_ms"]["median"] for row in known)
        text += f"; the largest share of waiting is {max(row['waits'] for row in known):.2%}, and to begin a step the "
        text += f"host needs at most {share:.0%} of the time that it takes"
    if behind:
        text += f"; the host never came ahead of the device for {', '.join(behind)}, whose waiting is not known"
    return f"{text}."
