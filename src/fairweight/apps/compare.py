"""Train several methods under one protocol: the same splits, exemplars, network, epochs and choice of epoch."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from fairweight import catalog
from fairweight.apps._train_text import columns
from fairweight.apps.judge import Goal
from fairweight.apps.train import TrainRequest, goal_for, with_objective
from fairweight.apps.verdict import Word, table_of, word_for
from fairweight.data import Dataset
from fairweight.errors import BadInput, option
from fairweight.methods import Reweighter
from fairweight.report.front import of_comparison, verdict_words, without_places
from fairweight.report.page import front_html
from fairweight.runs.defaults import knows_groups, with_defaults
from fairweight.runs.folder import RUN, RunFolder
from fairweight.runs.pool import run_all
from fairweight.runs.pool._job import Outcome
from fairweight.runs.provenance import of_runs, provenance
from fairweight.runs.run_place import BASELINE, check_place
from fairweight.runs.run_search import search_of
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import dataset_for
from fairweight.runs.statistics import ACCURACY, MAX_FNR, PAIRED_TEST, TPRD, Number, mean_text, numbers_of, with_means
from fairweight.training.state import write_atomically

WITH_EXEMPLARS = "uniform-all"
TITLES = {WITH_EXEMPLARS: "uniform, exemplars in train"}  # of the rows that are not called by their method
SELECT = ("accuracy", "loss", "objective", "tprd", "max_fnr", "last")
SURE = 0.05  # the p-value below which a change is clear


@dataclass(frozen=True)
class Protocol(TrainRequest):
    """What every method is given, as for `train`; all of it plain values."""

    select: str = "loss"  # the number on validation whose best epoch counts: of a loss the lowest, as `train` chooses
    split_seed: int | None = None  # of splits and corruptions; None: each seed has its own

    def __post_init__(self) -> None:
        if self.select not in SELECT:
            raise BadInput(f"{option('select')} is {self.select!r}; choose from: {', '.join(SELECT)}.")


@dataclass(frozen=True)
class Prepared:
    """The methods that can be run, and why the others cannot."""

    protocol: Protocol
    dataset: Dataset  # of the first seed
    goal: Goal
    specs: Mapping[str, Spec]  # by row, for seed 0
    left_out: Mapping[str, str]  # by method: the reason

    def run_names(self, seeds: int, first_seed: int = 0) -> dict[str, str]:
        """By fingerprint: what to call a run."""
        return {
            spec.with_(seed=seed).fingerprint: f"{TITLES.get(key, key)}, seed {seed}"
            for seed in range(first_seed, first_seed + seeds)
            for key, spec in self.specs.items()
        }


def prepare(
    protocol: Protocol,
    methods: Sequence[str] | None = None,
    *,
    first_seed: int = 0,
    device: str = "cpu",
    data_dir: str | Path | None = None,
    download: bool = False,
) -> Prepared:
    """Read the data, settle the protocol on it, and see which methods (None: all) have what they need."""
    asked = [name.replace("_", "-") for name in methods or catalog.names("methods")]
    kinds = {name: cast(type[Reweighter], catalog.load("methods", name)) for name in (BASELINE, *asked)}
    data, source = dict(protocol.data), (protocol.source, protocol.label, protocol.group)
    first = Spec(*source, data=data, method=BASELINE, seed=first_seed, data_seed=protocol.split_seed)
    dataset = dataset_for(first, data_dir, download)
    goal = goal_for(dataset, protocol.criterion, protocol.bound, protocol.budget, each=protocol.each)
    left_out = {name: reason for name, kind in kinds.items() if (reason := lacks(kind, dataset)) is not None}
    drawn = dataset.spec.get("options", {}).get("exemplar") or {}
    specs: dict[str, Spec] = {}
    for name in [name for name in kinds if name not in left_out]:
        spec = first.with_(method=name, search=search_of(name, {}))
        spec = with_defaults(spec, dataset, with_objective(name, protocol.training, goal, dataset), device)
        stopping: dict[str, Any] = {}
        if dataset.validation is not None and protocol.select != "last":
            # The whole of the epochs for everybody; patience would give methods that learn slowly less.
            stopping = {"metric": protocol.select, "patience": spec.epochs}
        specs[name] = spec.with_(early_stopping=stopping, seed=0)
        if name == BASELINE and drawn.get("source") == "train" and not drawn.get("inside"):
            # What somebody who needs no exemplars would do with them.
            exemplar = {**data.get("exemplar", {}), "source": "train", "inside": True}
            specs[WITH_EXEMPLARS] = specs[name].with_(data={**first.data, "exemplar": exemplar})
    return Prepared(protocol, dataset, goal, specs, left_out)


def lacks(kind: type[Reweighter], dataset: Dataset) -> str | None:
    """What the method needs and the data does not have, as a sentence; None where nothing is missing."""
    for need, part, of in (("train", dataset.train, "training sample"), ("exemplar", dataset.exemplar, "exemplar")):
        if f"{need} groups" in kind.needs and not knows_groups(part):
            return f"it needs the group of each {of}, and none is known: name the group column."
    if "weights" in kind.needs:
        return "it takes weights that a run has learned: `fairweight refit RUN` trains with them."
    return None


def compare(
    prepared: Prepared, out: str | Path, *, seeds: int = 5, first_seed: int = 0, device: str = "cpu", **options: Any
) -> dict[str, Any]:
    """Train every method over seeds; return a record with means, paired differences from Uniform and costs.

    options: engine, jobs, data_dir, download and watcher, as for runs.pool.run_each.
    """
    check_place(Path(out))
    which, started, goal = range(first_seed, first_seed + seeds), time.monotonic(), prepared.goal
    content = json.dumps(dict(prepared.dataset.spec).get("content"), sort_keys=True, default=str)
    pool = Path(out) / f"runs_{hashlib.sha256(content.encode()).hexdigest()[:8]}"  # a changed file is another source
    specs = [spec.with_(seed=seed) for seed in which for spec in prepared.specs.values()]
    outcomes = run_all(specs, pool, device=device, **options)
    gap = Number("gap", goal.criterion.measure, "lower")
    own = goal.criterion.number != TPRD.key or prepared.protocol.each  # TPRD is another word for some gaps
    numbers = [vars(number) for number in (*([gap] if own else []), TPRD, MAX_FNR, ACCURACY)]
    rows = with_means([_row(key, spec, which, outcomes, prepared) for key, spec in prepared.specs.items()], numbers)
    for row in rows:
        row["verdict"] = verdict_on(row, goal, gap.key if own else TPRD.key)
        row["outside_limits"] = row["verdict"] == "no-effect" and smaller(row, gap.key if own else TPRD.key)
    origin = provenance(device)
    folders = [RunFolder(outcome.folder) for outcome in outcomes.values()]
    return {
        "kind": "compare",
        "name": f"compare-{Path(prepared.protocol.source).stem}",
        "source": prepared.dataset.name,
        "protocol": _describe(prepared),
        "criterion": goal.criterion.name,
        "bound": goal.bound,
        "budget": prepared.protocol.budget,
        "seeds": list(which),
        "rows": rows,
        "left_out": dict(prepared.left_out),
        "numbers": numbers,
        "printed": False,
        "notes": list(prepared.dataset.notes),
        "wall_seconds": round(time.monotonic() - started, 1),
        "command": without_places(origin["command"]),
        "date": origin["date"],
        **of_runs(folder.read(RUN) for folder in folders if folder.finished),
        "paired_test": PAIRED_TEST,
        "cost": costs(rows),
    }


def verdict_on(row: Mapping[str, Any], goal: Goal, gap: str) -> Word | None:
    """What the seeds say of a method beside plain training: helps, no-effect or worse; None of plain training itself.

    The rule is that of `train`, with t-tests over seeds in place of intervals.
    """
    changes = row["compared"].get(BASELINE)
    if changes is None or changes[gap]["mean"] is None or row["means"][gap]["mean"] is None:
        return None
    sure = changes[gap]["p"] is not None and changes[gap]["p"] < SURE
    accuracy_lost, gap_left = {**changes["accuracy"], "mean": -changes["accuracy"]["mean"]}, row["means"][gap]
    above = goal.bound is not None and clearly_above(gap_left, goal.bound)
    return word_for(
        sure and changes[gap]["mean"] < 0,
        sure and changes[gap]["mean"] > 0,
        clearly_above(accuracy_lost, goal.allowed),
        above,
    )


def clearly_above(entry: Mapping[str, Any], limit: float) -> bool:
    """True if a t-test over seeds tells that a mean is above the limit."""
    from scipy import stats

    mean, error = entry["mean"], entry["standard_error"]
    if not error:  # one seed, or all alike
        return False
    return bool(mean > limit and 2 * stats.t.sf((mean - limit) / error, entry["n"] - 1) < SURE)


def smaller(row: Mapping[str, Any], gap: str) -> bool:
    """True if a method's gap is smaller than plain training's by more than chance."""
    change = row["compared"][BASELINE][gap]
    return bool(change["p"] is not None and change["p"] < SURE and change["mean"] < 0)


def _row(key: str, spec: Spec, seeds: range, outcomes: Mapping[str, Outcome], prepared: Prepared) -> dict[str, Any]:
    became = {str(seed): outcomes[spec.with_(seed=seed).fingerprint] for seed in seeds}
    by_seed: dict[str, dict[str, float]] = {}
    for seed, outcome in became.items():
        if outcome.error is None:
            folder = RunFolder(outcome.folder)
            gap = prepared.goal.criterion.gap(table_of(folder))
            by_seed[seed] = {**numbers_of(folder), **({} if math.isnan(gap) else {"gap": 100 * gap})}
    return {
        "key": key,
        "title": TITLES.get(key, key),
        "kind": "control" if key == WITH_EXEMPLARS else "paper",
        "printed_row": None,
        "against": [] if key == BASELINE else [BASELINE],
        "spec": spec.to_dict(),
        "seeds": by_seed,
        "failed": {seed: outcome.error for seed, outcome in became.items() if outcome.error is not None},
    }


def costs(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Each row's training time in multiples of Uniform's: the median over the seeds that both have.

    A sum would count the warm-up of the first run, which is Uniform's, and every busy moment of the machine.
    """
    plain: Mapping[str, Any] = next((row["seeds"] for row in rows if row["key"] == BASELINE), {})
    ratios_by_row = {}
    for row in rows:
        pairs = [(ours["seconds"], plain[seed]["seconds"]) for seed, ours in row["seeds"].items() if seed in plain]
        if ratios := [ours / theirs for ours, theirs in pairs if theirs > 0]:
            ratios_by_row[row["key"]] = statistics.median(ratios)
    return ratios_by_row


def _describe(prepared: Prepared) -> str:
    spec, split_seed = prepared.specs[BASELINE], prepared.protocol.split_seed
    chosen, split = "the last epoch counts", f"one split and exemplar set (seed {split_seed}) for all seeds and methods"
    if spec.early_stopping:
        chosen = f"the epoch with the best {spec.early_stopping['metric']} on validation counts"
    if split_seed is None:
        split = "splits and exemplars are drawn anew with each seed and are the same for every method"
    return (
        f"{spec.network['name']}, {spec.optimizer} at {spec.lr:g}, batches of {spec.batch_size}, {spec.epochs} epochs "
        f"for every method; {chosen}; {split}"
    )


def text_of(record: Mapping[str, Any]) -> str:
    """The record for a terminal: mean ± standard error, the paired test against Uniform, and the cost."""
    rows, numbers = record["rows"], record["numbers"]
    heads = [f"{n['title']} {'↓' if n['better'] == 'lower' else '↑'}" for n in numbers]
    table, changes, verdicts = [("method", *heads, "time")], [("from uniform (p)", *heads)], ["verdict"]
    for row in rows:
        cost = record["cost"].get(row["key"])
        means = (mean_text(row["means"][n["key"]]) for n in numbers)
        table.append((row["title"], *means, "–" if cost is None else f"× {cost:.1f}"))
        if row["compared"]:
            changes.append((row["title"], *_apart(row, record)))
            verdicts.append(verdict_words(row))
    about = (
        f"In %, mean ± standard error over {len(record['seeds'])} seeds, on test. In brackets: the p-value of a "
        f"{record['paired_test']} against uniform; by chance alone, one p-value in twenty is below 0.05. Time: "
        "training time in multiples of uniform's, the median over seeds."
    )
    compared = map("{}  {}".format, columns(changes).splitlines(), verdicts)
    missing = [f"Not run: {method}: {reason}" for method, reason in record["left_out"].items()]
    protocol = f"{record['source']}: {record['protocol']}."
    return "\n".join([protocol, "", columns(table), "", *map(str.rstrip, compared), "", about, *missing])


def _apart(row: Mapping[str, Any], record: Mapping[str, Any]) -> list[str]:
    changes = next(iter(row["compared"].values()))
    entries = [changes[number["key"]] for number in record["numbers"]]
    chances = ["" if one["p"] is None else f" ({one['p']:.2g})" for one in entries]
    each = zip(entries, chances, strict=True)
    return ["–" if one["mean"] is None else f"{one['mean']:+.2f}{p}" for one, p in each]


def write_page(record: Mapping[str, Any], out: str | Path) -> Path | None:
    """Write the page that shows the methods side by side; None where no run has a gap."""
    front, page = of_comparison(record), Path(out) / "compare.html"
    if front is None:
        return None
    write_atomically(page, front_html(front).encode())
    return page
