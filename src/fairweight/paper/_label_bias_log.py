"""LB's MNIST record beside its authors' log, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairweight.paper._markdown import heads, line


def label_bias_text(record: Mapping[str, Any]) -> str:
    """A table for each rate, training by training, and what the test says."""
    parts = [f"{record['what']}; {record['device']}, commit {', '.join(record['commits'])}. Test: {record['test']}."]
    for run in record["runs"]:
        beside = any("published" in at for at in run["trainings"])
        titles = ["training", "λ", "test accuracy, % (sd)", "TPRD, % (sd)"]
        lines = [heads([*titles, *(["notebook's λ", "notebook's accuracy", "p"] if beside else [])])]
        for at in run["trainings"]:
            cells = [at["training"], _with_spread(at["multiplier"], 3), *(_with_spread(at[k], 2) for k in _NUMBERS)]
            theirs = at.get("published")
            if beside and theirs is None:
                cells += ["–", "–", "–"]
            elif theirs is not None:
                p = "–" if theirs["p"] is None else f"{theirs['p']:.2f}"
                cells += [f"{theirs['multiplier']:.3f}", f"{theirs['test_accuracy']:.2f}", p]
            lines.append(line(cells))
        seeds = f"{run['n']} seeds" if run["n"] > 1 else "1 seed"
        parts += [f"Rate {run['settings']['rate']:g}, {seeds}. {run['remark']}", "\n".join(lines)]
    return "\n\n".join(parts)


_NUMBERS = ("test_accuracy", "test_tprd")


def _with_spread(entry: Mapping[str, Any], digits: int) -> str:
    spread = "" if entry["sd"] is None else f" ({entry['sd']:.{digits}f})"
    return f"{entry['mean']:.{digits}f}{spread}"
