"""A picture of the newest record on condensing: plain training on kept rows beside rows dropped at random."""

from __future__ import annotations

import io
import json
from pathlib import Path

NAMES = {
    "full": "all rows",
    "random": "as many at random",
    "kept": "kept by {rule}",
    "random-by-class": "random, class counts of {rule}",
}


def picture(root: Path) -> tuple[str, bytes] | None:
    """What it is of, and the SVG; None where there is no record."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    found = sorted((root / "records").glob("*_condense*/record.json"))
    if not found:
        return None
    record = json.loads(found[-1].read_text(encoding="utf-8"))
    figure = Figure(figsize=(7.5, 4), layout="constrained")
    axes = figure.subplots()
    drawn: set[str] = set()
    for rule in record["rules"]:
        for arm, numbers in rule["arms"].items():
            name = NAMES.get(arm, f"{arm.replace('_', ' ')}, {{rule}}").format(rule=rule["rule"])
            if name in drawn:
                continue  # all rows, and as many at random, are the same for every rule
            drawn.add(name)
            gap, accuracy = numbers["tprd"], numbers["accuracy"]
            axes.errorbar(
                gap["mean"], accuracy["mean"], xerr=gap["standard_error"], yerr=accuracy["standard_error"],
                fmt="*" if arm == "kept" else "o", markersize=12 if arm == "kept" else 6, label=f"{name} ({numbers['samples']:,})",
            )  # fmt: skip
    axes.set_xlabel("TPRD on test, points (less is better)")
    axes.set_ylabel("accuracy on test, %")
    figure.legend(loc="outside right upper", fontsize=7)
    out = io.BytesIO()
    with rc_context({"svg.hashsalt": "fairweight"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    return record["setting"], out.getvalue()
