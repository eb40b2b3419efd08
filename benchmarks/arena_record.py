"""Make the arena's record of what arena.py, arena_cleaning.py and arena_images.py found.

python benchmarks/arena_record.py --finished runs/arena/found.json runs/arena_cleaning/found.json --records records
python benchmarks/arena_record.py --finished runs/arena_ours/found.json --earlier records/DATE_arena/record.json

--earlier: what was found of peers and of other parts stays as it is; each source keeps its commit.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairweight.paper.records import keep
from fairweight.runs.statistics import Mean, paired

Found = dict[str, Any]
SETTING = (
    "up to 6,000 train rows; FORML, MLP and step by the defaults of the data, 15 epochs; 3 folds for cleanlab; "
    "cleaning and controls: 8 epochs, for cleaning 3 trainings per seed of the data; "
    "pictures: 2,500 of 32x32 and a small convolutional network, digits a small MLP; credit card default at random: "
    "seed 99 was a trial of the script and alone has `fairweight train`"
)
SCRIPTS = dict.fromkeys(("cleaning", "controls", "fragile"), "arena_cleaning.py") | {"image": "arena_images.py"}
BEFORE = "fairweight, by EM"  # the rule for two labels before metrics/flip_grid.py
METRICS = ("auc", "precision", "count", "wrong", "seconds", "accuracy", "tprd", "looks_wrong")


def grouped(entries: list[Found], kinds: tuple[str, ...], by: tuple[str, ...]) -> list[tuple[Found, dict[str, Found]]]:
    """What the tasks of these kinds say in common, and what was found by seed; later files replace earlier ones."""
    found: dict[str, tuple[Found, dict[str, Found]]] = {}
    for entry in entries:
        task = entry["task"]
        if task["kind"] in kinds:
            about = {"set" if name == "name" else name: task[name] for name in by}
            seeds = found.setdefault(json.dumps(about), (about, {}))[1]
            before = seeds.get(str(task["seed"]), {})
            seeds[str(task["seed"])] = {**before, **entry["found"]} if task["kind"] == "ours" else entry["found"]
    ordered = [(about, dict(sorted(seeds.items(), key=lambda pair: int(pair[0])))) for about, seeds in found.values()]
    return sorted(ordered, key=lambda pair: json.dumps(pair[0]))


def rankings(entries: list[Found], kinds: tuple[str, ...], by: tuple[str, ...]) -> list[Found]:
    return [{**about, "seeds": seeds, "means": means_of(seeds)} for about, seeds in grouped(entries, kinds, by)]


def means_of(seeds: dict[str, Found]) -> Found:
    found: Found = {}
    for method in dict.fromkeys(name for seed in seeds.values() for name in seed):
        entries = [seed[method] for seed in seeds.values() if method in seed]
        found[method] = {
            key: Mean.of([float(entry[key]) for entry in entries]).to_dict()
            for key in METRICS
            if all(entry.get(key) is not None for entry in entries)
        }
        if all("low" in entry for entry in entries):
            inside = [float(entry["low"] <= entry["wrong"] <= entry["high"]) for entry in entries]
            found[method]["covered"] = Mean.of(inside).to_dict()
    return found


def averages(seeds: dict[str, Found], names: tuple[str, ...] = ("accuracy", "tprd")) -> Found:
    """Of each way of training: means over seeds, and the differences from plain training."""
    ways = {way for found in seeds.values() for way, v in found.items() if "accuracy" in v and "auc" not in v}
    by = {
        way: {name: {seed: found[way][name] for seed, found in seeds.items() if way in found} for name in names}
        for way in sorted(ways)
    }
    return {
        way: {name: Mean.of(list(values.values())).to_dict() for name, values in numbers.items()}
        | {f"{name}_from_plain": paired(values, by["plain training"][name]) for name, values in numbers.items()}
        for way, numbers in by.items()
    }


def cleaning(entries: list[Found]) -> list[Found]:
    """Of each set and noise: ways of cleaning on fresh rows, over seeds of the data and trainings, and the verdicts."""
    rows = []
    for about, seeds in grouped(entries, ("cleaning",), ("name", "noise", "exemplars")):
        trained: dict[str, dict[str, dict[str, Found]]] = {}
        for data_seed, found in seeds.items():
            for method, arms in found["seeds"]["fresh"].items():
                for arm, each in arms.items():
                    here = trained.setdefault(method, {}).setdefault(arm, {})
                    here.update({str(100 * int(data_seed) + int(k)): numbers for k, numbers in each.items()})
        verdicts = {
            seed: {key: found[key] for key in ("suspected", "dropped", "advice", "recommended")}
            | {"on_fresh_rows": _followed(found)}
            for seed, found in seeds.items()
        }
        fresh = {method: {arm: _beside(arms, arm) for arm in arms} for method, arms in trained.items()}
        rows.append({**about, "fresh": fresh, "verdicts": verdicts})
    return rows


def _beside(arms: dict[str, dict[str, Found]], arm: str) -> Found:
    """Means over seeds, and the paired difference from the labels as given."""
    values = {name: {seed: v[name] for seed, v in arms[arm].items()} for name in ("accuracy", "tprd")}
    given = {name: {seed: v[name] for seed, v in arms["as-given"].items()} for name in values}
    return {
        "means": {name: Mean.of(list(found.values())).to_dict() for name, found in values.items()},
        "from_as_given": {name: paired(found, given[name]) for name, found in values.items()},
    }


def _followed(found: Found) -> Found | None:
    """Change of accuracy and gap on fresh rows by what was recommended, plainly; None where nothing was."""
    if found["recommended"] is None:
        return None
    arms = found["seeds"]["fresh"]["uniform"]
    return {name: _beside(arms, found["recommended"])["from_as_given"][name] for name in ("accuracy", "tprd")}


def entries_of(record: Found) -> list[Found]:
    """The rankings of a record as tasks and what they found; ours of that time goes by another name."""
    names = {"name": "set", "noise": "noise", "exemplars": "exemplars"}
    return [
        {
            "task": {"kind": "draw", **{to: row[name] for to, name in names.items()}, "seed": int(seed)},
            "found": {{"fairweight": BEFORE}.get(method, method): value for method, value in found.items()},
        }
        for row in record["rows"]
        for seed, found in row["seeds"].items()
    ]


def record_of(files: list[Found], earlier: Found | None = None) -> Found:
    entries = [] if earlier is None else entries_of(earlier)
    entries += [entry for file in files for entry in file["entries"]]
    parts: dict[str, Callable[[], Any]] = {
        "rows": lambda: rankings(entries, ("ranking", "draw", "ours"), ("name", "noise", "exemplars")),
        "cleaning": lambda: cleaning(entries),
        "controls": lambda: [
            {**about, "seeds": seeds, "means": averages(seeds)}
            for about, seeds in grouped(entries, ("controls",), ("name", "noise", "exemplars"))
        ],
        "fragile": lambda: [
            {
                **about,
                "seeds": seeds,
                "means": averages(seeds),
                "suspects": means_of({k: {"fairweight": found["suspects"]} for k, found in seeds.items()})[
                    "fairweight"
                ],
            }
            for about, seeds in grouped(entries, ("fragile",), ("name", "noise", "exemplars"))
        ],
        "images": lambda: rankings(entries, ("image",), ("name", "noise", "method")),
    }
    return {name: made() or (earlier or {}).get(name, []) for name, made in parts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--finished", type=Path, nargs="+", required=True)
    parser.add_argument("--earlier", type=Path)
    parser.add_argument("--records", default="records")
    asked = parser.parse_args()
    earlier = None if asked.earlier is None else json.loads(asked.earlier.read_text())
    files = [json.loads(file.read_text()) for file in asked.finished]
    sources = [
        {
            "script": SCRIPTS.get(file["entries"][0]["task"]["kind"], "arena.py"),
            "commit": file["about"]["commit"],
            "date": file["about"]["date"],
            "tasks": len(file["entries"]),
        }
        for file in files
    ]
    sources = (earlier or {}).get("sources", []) + sources
    about = files[-1]["about"]
    about["command"] = (
        "python benchmarks/arena.py; python benchmarks/arena_cleaning.py; python benchmarks/arena_images.py"
    )
    about["commit"] = ", ".join(dict.fromkeys(source["commit"] for source in sources))
    found = {
        "kind": "arena",
        "name": "arena",
        "setting": SETTING,
        **record_of(files, earlier),
        "sources": sources,
        **about,
    }
    print(keep(found, asked.records))


if __name__ == "__main__":
    main()
