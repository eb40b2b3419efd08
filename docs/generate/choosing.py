"""Tables of the site that are made from records when it is built: marked places `<!-- made:NAME -->` of a page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

CRITERION = "equal-opportunity"
Rows = Mapping[str, Any]
# By the record's name of a method: its package, what it needs at training, and what comes out.
OTHERS = {
    "reweighing-lightgbm": ("AIF360, fairlearn or ours: reweighing (LightGBM)", "groups of all training rows", "one weight per cell; any learner"),
    "reweighing-logistic": ("AIF360, fairlearn or ours: reweighing (logistic regression)", "groups of all training rows", "one weight per cell; any learner"),
    "eg-logistic-equal-opportunity": ("fairlearn: ExponentiatedGradient (logistic regression)", "groups of all training rows", "a randomised mix of models that keeps a bound on train"),
    "eg-lightgbm-equal-opportunity": ("fairlearn: ExponentiatedGradient (LightGBM)", "groups of all training rows", "the same, around trees"),
    "fairret": ("fairret (neural network)", "groups of each batch", "a penalty in the loss of any PyTorch model"),
    "thresholds-equal-opportunity": ("fairlearn: ThresholdOptimizer (LightGBM)", "groups of a held-out part", "a threshold per group on a finished model"),
    "oxonfair": ("OxonFair (LightGBM)", "groups of a held-out part", "thresholds per group, any measure, on a finished model"),
    "ours-0.1": ("fairweight: `--method forml` (neural network)", "groups of the exemplars alone", "a weight per row, and the model"),
    "ours": ("fairweight: `train`", "groups of all rows, or of the exemplars", "the best of many, judged on rows not trained on; plain training where nothing beats it"),
}  # fmt: skip


@cache
def judgement(root: Path) -> Mapping[str, Any]:
    """The newest record of the comparison with other packages, and its folder."""
    found = []
    for path in (root / "records").glob("*/record.json"):
        if "judgement" in path.parent.name:
            record = json.loads(path.read_text(encoding="utf-8"))
            if record.get("kind") == "judgement":
                found.append((record["date"], {**record, "folder": path.parent.name}))
    return max(found, key=lambda pair: pair[0])[1]


def filled(text: str, root: Path) -> str:
    """The text with each marked place filled."""
    makers: dict[str, Callable[[Path], str]] = {
        "others": others, "sets": sets, "promises": promises, "methods": methods, "criteria": criteria,
        "source": source, "objectives": objectives, "candidates": candidates,
    }  # fmt: skip
    return re.sub(r"<!-- made:([\w-]+) -->", lambda m: makers[m.group(1)](root), text)


def source(root: Path) -> str:
    """Where the numbers come from."""
    r = judgement(root)
    return f"`records/{r['folder']}/record.json` ({r['device']}; `{r['command']}`; {r['noise']})"


def _plain(rows: Rows) -> Mapping[str, Any]:
    """The plain model that is right most often."""
    return max((row["means"] for row in rows.values() if row["plain"]), key=lambda m: m["accuracy"]["mean"])


def others(root: Path) -> str:
    """A row per method: needs, gives, and its mean change from the better plain model over data sets."""
    record = judgement(root)
    lines = [
        "| method | needs at training | needs at prediction | gives | accuracy | gap | gap at least halved |",
        "|---|---|---|---|---|---|---|",
    ]
    known = {name: title for found in record["sets"].values() for name, title in _titles(found["rows"]).items()}
    for name, (title, training, gives) in {**{n: (t, "–", "–") for n, t in known.items()}, **OTHERS}.items():
        pairs = [(rows[name], _plain(rows)) for rows in (s["rows"] for s in record["sets"].values()) if name in rows]
        if not pairs:
            continue
        accuracy = fmean(r["means"]["accuracy"]["mean"] - p["accuracy"]["mean"] for r, p in pairs)
        gaps = [(r["means"]["gaps"][CRITERION]["mean"], p["gaps"][CRITERION]["mean"]) for r, p in pairs]
        change = fmean(after - before for after, before in gaps)
        halved = sum(after <= before / 2 for after, before in gaps)
        prediction = "the group of every row" if pairs[0][0]["groups_at_prediction"] else "nothing"
        lines.append(
            f"| {title} | {training} | {prediction} | {gives} | {accuracy:+.2f} | {change:+.1f} | {halved} of {len(pairs)} sets |"
        )
    return "\n".join(lines)


def _titles(rows: Rows) -> dict[str, str]:
    """Other methods that answer the criterion, which the table above has no words for."""
    return {
        name: row["title"]
        for name, row in rows.items()
        if not row["plain"] and CRITERION in name and name not in OTHERS
    }


def sets(root: Path) -> str:
    """A row per data set: the better plain model, `fairweight train`, and the best that sees no group."""
    lines = [
        "| data | plain: accuracy | gap | `fairweight train`: accuracy | gap | smallest gap of another package within 1 point of accuracy, without groups at prediction |",
        "|---|---|---|---|---|---|",
    ]
    for found in judgement(root)["sets"].values():
        rows, plain = found["rows"], _plain(found["rows"])
        ours = rows.get("ours")
        blind = [
            (row["means"]["gaps"][CRITERION]["mean"], row["means"]["accuracy"]["mean"], row["title"])
            for name, row in rows.items()
            if not (row["plain"] or row["groups_at_prediction"] or name.startswith("ours"))
            and row["means"]["accuracy"]["mean"] >= plain["accuracy"]["mean"] - 1
        ]
        best = min(blind, default=None)
        ours_text = (
            "– | –"
            if ours is None
            else f"{_mean(ours['means']['accuracy'], 2)} | {_mean(ours['means']['gaps'][CRITERION])}"
        )
        lines.append(
            f"| {found['about']} | {_mean(plain['accuracy'], 2)} | {_mean(plain['gaps'][CRITERION])} | {ours_text} | "
            + ("none" if best is None else f"{best[0]:.1f} ({best[2]}, accuracy {best[1]:.2f})")
            + " |"
        )
    return "\n".join(lines)


def promises(root: Path) -> str:
    """What `fairweight train` promises, and whether the record bears it out."""
    said = {True: "yes", False: "**no**", None: "not asked: too few seeds"}
    found = judgement(root)["checks"].get(CRITERION, {}).get("promises", [])
    lines = ["| promise | holds | data sets asked |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {p['title']} | {said[p['holds']]} | {len(p['asked'])} |" for p in found)])


def _mean(entry: Mapping[str, Any], digits: int = 1) -> str:
    error = entry["standard_error"]
    return f"{entry['mean']:.{digits}f}" + ("" if error is None else f" ± {error:.{digits}f}") + f" (n={entry['n']})"


def methods(root: Path) -> str:
    """Our own methods: what each does and needs, from the code."""
    from fairweight import catalog

    words = {"exemplar": "an exemplar batch at every step", "exemplar set": "the exemplar set", "train groups": "the group of each training sample",
             "weights": "weights"}  # fmt: skip
    lines = ["| method | what it does | needs at training |", "|---|---|---|"]
    for name in catalog.names("methods"):
        needs = [words.get(need, need) for need in catalog.load("methods", name).needs]
        said = catalog.summary("methods", name).replace("|", "\\|").replace("*", "\\*")
        lines.append(f"| [`{name}`](methods.md#{name}) | {said} | {', '.join(needs) or 'nothing more'} |")
    return "\n".join(lines)


def objectives(root: Path) -> str:
    """The objectives by name, from the code."""
    from fairweight import catalog

    lines = ["| name | what it is |", "|---|---|"]
    return "\n".join(
        [*lines, *(f"| `{n}` | {catalog.summary('objectives', n)} |" for n in catalog.names("objectives"))]
    )


def criteria(root: Path) -> str:
    """The criteria with their sentence and who wants them, from the code."""
    from fairweight.metrics.criterion import CRITERIA

    lines = ["| criterion | is fair when | for |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| `{c.name}` | {c.sentence} | {c.wanted_by} |" for c in CRITERIA.values())])


def candidates(root: Path) -> str:
    """What `train` tries, from the code."""
    from fairweight.apps.judge import FAMILIES

    lines = ["| name | weights |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{name}` | {words} |" for name, words in FAMILIES.items())])
