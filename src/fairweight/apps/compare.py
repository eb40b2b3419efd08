"""Compare methods under one protocol: same rows, exemplars, network and epochs; the epoch is chosen on validation."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from fairweight import catalog
from fairweight.apps.judge import Wish
from fairweight.apps.train import wish_for, with_objective
from fairweight.apps.verdict import by_group
from fairweight.data import Dataset
from fairweight.errors import BadInput, option
from fairweight.metagradient.passes import predicted
from fairweight.methods import Reweighter
from fairweight.report.front import of_comparison
from fairweight.report.page import front_html
from fairweight.runs.defaults import knows_groups, with_defaults
from fairweight.runs.folder import RUN, RunFolder
from fairweight.runs.pool import run_all
from fairweight.runs.pool._job import Outcome
from fairweight.runs.provenance import of_runs, provenance
from fairweight.runs.run_search import search_of
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import dataset_for
from fairweight.runs.statistics import ACCURACY, MAX_FNR, PAIRED_TEST, TPRD, Number, mean_text, numbers_of, with_means

BASELINE = "uniform"
WITH_EXEMPLARS = "uniform-all"
TITLES = {WITH_EXEMPLARS: "uniform, exemplars in train"}  # of the rows that are not called by their method
_PLACES = ("--out", "--records", "--data-dir")
SELECT = ("accuracy", "loss", "objective", "tprd", "max_fnr", "last")


@dataclass(frozen=True)
class Protocol:
    """What every method is given; all of it plain values."""

    source: str
    label: str | None = None
    group: str | None = None
    data: Mapping[str, Any] | None = None  # options of data.load
    training: Mapping[str, Any] | None = None  # fields of a Spec that the user has set
    select: str = "loss"  # the number on validation whose best epoch counts: of a loss the lowest, as `train` chooses
    split_seed: int | None = None  # of splits and corruptions; None: each seed has its own
    criterion: str | None = None  # what is fair, and what it may cost: as for `train`
    bound: float | None = None
    budget: float | None = None
    each: bool = False

    def __post_init__(self) -> None:
        if self.select not in SELECT:
            raise BadInput(f"{option('select')} is {self.select!r}; choose from: {', '.join(SELECT)}.")


@dataclass(frozen=True)
class Prepared:
    """The methods that can be run, and why the others cannot."""

    protocol: Protocol
    dataset: Dataset  # of the first seed
    wish: Wish
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
    for name in methods or ():
        catalog.load("methods", name)  # refused where there is none
    asked = methods or catalog.names("methods")
    chosen = list(dict.fromkeys([BASELINE, *(name.replace("_", "-") for name in asked)]))
    first = Spec(
        protocol.source,
        protocol.label,
        protocol.group,
        data=dict(protocol.data or {}),
        method=BASELINE,
        seed=first_seed,
        data_seed=protocol.split_seed,
    )
    dataset = dataset_for(first, data_dir, download)
    wish = wish_for(dataset, protocol.criterion, protocol.bound, protocol.budget, each=protocol.each)
    specs: dict[str, Spec] = {}
    left_out: dict[str, str] = {}
    for name in chosen:
        reason = lacks(cast(type[Reweighter], catalog.load("methods", name)), dataset)
        if reason is None:
            specs[name] = _spec(first.with_(method=name, search=search_of(name, {})), dataset, protocol, wish, device)
        else:
            left_out[name] = reason
        if name == BASELINE and _held_out(dataset):
            # What somebody who needs no exemplars would do with them.
            exemplar = {**dict(dict(protocol.data or {}).get("exemplar", {})), "source": "train", "inside": True}
            specs[WITH_EXEMPLARS] = specs[name].with_(data={**first.data, "exemplar": exemplar})
    return Prepared(protocol, dataset, wish, specs, left_out)


def lacks(kind: type[Reweighter], dataset: Dataset) -> str | None:
    """What the method needs and the data does not have, as a sentence; None where nothing is missing."""
    if "train groups" in kind.needs and not knows_groups(dataset.train):
        return "it needs the group of each training sample, and none is known: name the group column."
    if "exemplar groups" in kind.needs and not knows_groups(dataset.exemplar):
        return "it needs the group of each exemplar, and none is known: name the group column."
    if "weights" in kind.needs:
        return "it takes weights that a run has learned: `fairweight refit RUN` trains with them."
    return None


def _spec(spec: Spec, dataset: Dataset, protocol: Protocol, wish: Wish, device: str) -> Spec:
    made = with_defaults(spec, dataset, with_objective(spec.method, protocol.training or {}, wish, dataset), device)
    if dataset.validation is None or protocol.select == "last":
        return made.with_(early_stopping={}, seed=0)
    # The whole of the epochs for everybody; patience would give methods that learn slowly less.
    return made.with_(early_stopping={"metric": protocol.select, "patience": made.epochs}, seed=0)


def _held_out(dataset: Dataset) -> bool:
    exemplar = dataset.spec.get("options", {}).get("exemplar") or {}
    return exemplar.get("source") == "train" and not exemplar.get("inside")


def compare(
    prepared: Prepared,
    out: str | Path,
    *,
    seeds: int = 5,
    first_seed: int = 0,
    device: str = "cpu",
    **options: Any,
) -> dict[str, Any]:
    """Train every method over seeds; return a record with means, paired differences from Uniform and costs.

    options: engine, jobs, data_dir, download and watcher, as for runs.pool.run_each.
    """
    if seeds < 1:
        raise BadInput(f"seeds is {seeds}; run at least 1.")
    which = range(first_seed, first_seed + seeds)
    pool = Path(out) / f"runs_{_content(prepared.dataset)}"
    started = time.monotonic()
    specs = [spec.with_(seed=seed) for seed in which for spec in prepared.specs.values()]
    outcomes = run_all(specs, pool, device=device, **options)
    gap = Number("gap", f"{prepared.wish.criterion.title} gap", "lower")
    own = prepared.wish.criterion.number != TPRD.key or prepared.protocol.each  # TPRD is another word for some gaps
    numbers = [vars(number) for number in (*([gap] if own else []), TPRD, MAX_FNR, ACCURACY)]
    rows = with_means([_row(key, spec, which, outcomes, prepared) for key, spec in prepared.specs.items()], numbers)
    for row in rows:
        row["verdict"] = verdict_on(row, prepared.wish, gap.key if own else TPRD.key)
    found = provenance(device)
    folders = [RunFolder(outcome.folder) for outcome in outcomes.values()]
    return {
        "kind": "compare",
        "name": f"compare-{Path(prepared.protocol.source).stem}",
        "source": prepared.dataset.name,
        "protocol": _describe(prepared),
        "criterion": prepared.wish.criterion.name,
        "bound": prepared.wish.bound,
        "budget": prepared.protocol.budget,
        "seeds": list(which),
        "rows": rows,
        "left_out": dict(prepared.left_out),
        "numbers": numbers,
        "printed": False,
        "notes": list(prepared.dataset.notes),
        "wall_seconds": round(time.monotonic() - started, 1),
        "command": _command(found["command"]),
        "date": found["date"],
        **of_runs(folder.read(RUN) for folder in folders if folder.finished),
        "paired_test": PAIRED_TEST,
        "cost": costs(rows),
    }


def verdict_on(row: Mapping[str, Any], wish: Wish, gap: str) -> str | None:
    """What the seeds say of a method beside plain training: helps, no-effect or worse; None of plain training itself.

    It helps where the paired test says that the gap is smaller and the mean loss of accuracy is within the budget; with
    a bound, where the mean gap keeps it. It is worse where the gap is larger, or nothing is won beyond the budget.
    """
    found = row["compared"].get(BASELINE)
    if found is None or found[gap]["mean"] is None or row["means"][gap]["mean"] is None:
        return None
    sure = found[gap]["p"] is not None and found[gap]["p"] < 0.05
    dear = -found["accuracy"]["mean"] > wish.allowed
    keeps = wish.bound is None or row["means"][gap]["mean"] <= wish.bound
    if sure and found[gap]["mean"] < 0 and not dear and keeps:
        return "helps"
    return "worse" if (sure and found[gap]["mean"] > 0) or (dear and not sure) else "no-effect"


def _row(key: str, spec: Spec, seeds: range, outcomes: Mapping[str, Outcome], prepared: Prepared) -> dict[str, Any]:
    became = {str(seed): outcomes[spec.with_(seed=seed).fingerprint] for seed in seeds}
    return {
        "key": key,
        "title": TITLES.get(key, key),
        "kind": "control" if key == WITH_EXEMPLARS else "paper",
        "printed_row": None,
        "against": [] if key == BASELINE else [BASELINE],
        "spec": spec.to_dict(),
        "seeds": {seed: _numbers(RunFolder(o.folder), prepared) for seed, o in became.items() if o.error is None},
        "failed": {seed: outcome.error for seed, outcome in became.items() if outcome.error is not None},
    }


def _numbers(folder: RunFolder, prepared: Prepared) -> dict[str, float]:
    """The numbers of a run, and its gap by the criterion."""
    said, labels, groups = folder.read_logits("test")
    table = by_group(prepared.dataset.preprocessing.meaning, labels, predicted(said), groups)
    gap = prepared.wish.criterion.gap(table)
    return {**numbers_of(folder), **({} if math.isnan(gap) else {"gap": 100 * gap})}


def costs(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Each row's training time in multiples of Uniform's: the median over the seeds that both have.

    A sum would count the warm-up of the first run, which is Uniform's, and every busy moment of the machine.
    """
    plain: Mapping[str, Any] = next((row["seeds"] for row in rows if row["key"] == BASELINE), {})
    found = {}
    for row in rows:
        pairs = [(ours["seconds"], plain[seed]["seconds"]) for seed, ours in row["seeds"].items() if seed in plain]
        if ratios := [ours / theirs for ours, theirs in pairs if theirs > 0]:
            found[row["key"]] = statistics.median(ratios)
    return found


def _describe(prepared: Prepared) -> str:
    spec = prepared.specs[BASELINE]
    chosen = (
        f"the epoch with the best {spec.early_stopping['metric']} on validation counts"
        if spec.early_stopping
        else "the last epoch counts"
    )
    split = (
        "splits and exemplars are drawn anew with each seed and are the same for every method"
        if prepared.protocol.split_seed is None
        else f"one split and exemplar set (seed {prepared.protocol.split_seed}) for all seeds and methods"
    )
    return (
        f"{spec.network['name']}, {spec.optimizer} at {spec.lr:g}, batches of {spec.batch_size}, {spec.epochs} epochs "
        f"for every method; {chosen}; {split}"
    )


def _command(words: str) -> str:
    """The command without where things lie on this machine, which no number depends on."""
    kept: list[str] = []
    given = iter(words.split())
    for word in given:
        if word in _PLACES:
            next(given, None)
        elif word.partition("=")[0] not in _PLACES:
            kept.append(word)
    return " ".join(kept)


def _content(dataset: Dataset) -> str:
    """What is in the source: a file that has changed is another source."""
    text = json.dumps(dict(dataset.spec).get("content"), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def text_of(record: Mapping[str, Any]) -> str:
    """The record for a terminal: mean ± standard error, the paired test against Uniform, and the cost."""
    rows, numbers = record["rows"], record["numbers"]
    width = max(len(title) for title in ("method", *(row["title"] for row in rows))) + 2
    wide = [max(17, len(n["title"]) + 4) for n in numbers]
    heads = [f"{n['title']} {'↓' if n['better'] == 'lower' else '↑'}" for n in numbers]
    titles = "".join(head.rjust(w) for head, w in zip(heads, wide, strict=True))
    table = [f"{'method':{width}s}{titles}{'time':>8s}   from uniform (p): {', '.join(n['title'] for n in numbers)}"]
    for row in rows:
        cells = "".join(f"{mean_text(row['means'][n['key']]):>{w}s}" for n, w in zip(numbers, wide, strict=True))
        cost = record["cost"].get(row["key"])
        took = "–" if cost is None else f"× {cost:.1f}"
        said = "" if row.get("verdict") is None else f"; {row['verdict']}"
        table.append(f"{row['title']:{width}s}{cells}{took:>8s}   {_apart(row, record)}{said}")
    about = (
        f"In %, mean ± standard error over {len(record['seeds'])} seeds, on test. In brackets: the p-value of a "
        f"{record['paired_test']} against uniform; of {max(0, len(rows) - 1)} methods, one in twenty falls below 0.05 "
        "by chance. Time: training time in multiples of uniform's, the median over seeds."
    )
    missing = [f"Not run: {method}: {reason}" for method, reason in record["left_out"].items()]
    wrapped = textwrap.fill(f"{record['source']}: {record['protocol']}.", 110)
    return "\n".join([wrapped, "", *table, "", textwrap.fill(about, 110), *missing])


def _apart(row: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    found = next(iter(row["compared"].values()), None)
    if found is None:
        return ""
    cells = []
    for number in record["numbers"]:
        entry = found[number["key"]]
        p = "" if entry["p"] is None else f" ({entry['p']:.2g})"
        cells.append("–" if entry["mean"] is None else f"{entry['mean']:+.2f}{p}")
    return ", ".join(cells)


def write_page(record: Mapping[str, Any], out: str | Path) -> Path | None:
    """Write the page that shows the methods side by side; None where no run has a gap."""
    from fairweight.training.state import write_atomically

    front = of_comparison(record)
    if front is None:
        return None
    page = Path(out) / "compare.html"
    write_atomically(page, front_html(front).encode())
    return page
