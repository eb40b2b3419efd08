"""One record from folders of label_bias_mnist.py: per training our mean and spread beside the notebook's log.

The notebook is one run, so each of its points is one draw. The test, stated: Student's prediction interval for one more
draw from the distribution of our seeds, t = (theirs − mean) / (sd · √(1 + 1/n)) with n − 1 degrees of freedom, two
sides, level 5 %: for each training's accuracy (Holm's correction over the trainings), for the accuracy averaged over
the trainings, and for the multiplier averaged over them. They agree where none of these rejects.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairweight.errors import BadInput
from fairweight.runs.statistics import Mean, holm

LEVEL = 0.05
TEST = (
    "Student's prediction interval for one more draw from the distribution of our seeds (two-sided, 5 %): each "
    "training's accuracy with Holm's correction over the trainings, the accuracy averaged over the trainings, and the "
    "multiplier averaged over them; they agree where none rejects"
)
REACH = 96.8  # test accuracy that the notebook's log has at its 14th training
PUBLISHED = Path(__file__).with_name("label_bias_published.toml")
FILE = "record.json"
_KEPT = ("multiplier", "mass", "predicted_rate", "test_accuracy", "test_tprd", "test_max_fnr", "trace")
Trainings = list[dict[str, Any]]


def one_run(
    settings: Mapping[str, Any], seeds: Mapping[int, Trainings], data: Mapping[str, Any], source: Mapping[str, Any]
) -> dict[str, Any]:
    """What a process leaves behind: every seed that it finished."""
    kept = {str(seed): [{key: r[key] for key in _KEPT} for r in results] for seed, results in seeds.items()}
    return {"settings": dict(settings), "seeds": kept, "data": dict(data), "provenance": dict(source)}


def merge(folders: Sequence[Path], out: Path) -> dict[str, Any]:
    """The record at `out` with the seeds of these folders added, and everything computed anew."""
    path = out / FILE
    before = _read(path) if path.is_file() else {"runs": [], "sources": []}
    if "runs" not in before:
        raise BadInput(f"{path} is not a record that --merge wrote; give another --out.")
    runs = {_key(run["settings"]): {**run, "seeds": dict(run["seeds"])} for run in before["runs"]}
    sources, data = list(before["sources"]), before.get("data")
    for folder in folders:
        found = _read(folder / FILE)
        if data not in (None, found["data"]):
            raise BadInput(f"{folder / FILE} was made with other data ({found['data']}, not {data}).")
        data = found["data"]
        run = runs.setdefault(_key(found["settings"]), {"settings": found["settings"], "seeds": {}})
        new = {seed: results for seed, results in found["seeds"].items() if run["seeds"].get(seed) != results}
        repeated = new.keys() & run["seeds"].keys()
        if repeated:
            raise BadInput(
                f"{folder / FILE} has other results for seed {min(repeated)} than the record; which is right?"
            )
        run["seeds"].update(new)
        if new:
            sources.append({**found["provenance"], "seeds": sorted(map(int, new)), "rate": found["settings"]["rate"]})
    published = tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))
    record = {
        "kind": "label bias",
        "name": "label_bias_mnist",
        "date": min(source["date"] for source in sources)[:10],
        "what": "label bias (LB), the notebook's setting, MNIST with a fifth of the labels set to 2",
        "data": data,
        "device": ", ".join(dict.fromkeys(source["device"] for source in sources)),
        "commits": list(dict.fromkeys(source["commit"] for source in sources)),
        "test": TEST,
        "published": published,
        "runs": [_summary(runs[key], published) for key in sorted(runs)],
        "sources": sources,
    }
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return record


def lines(record: Mapping[str, Any]) -> Iterable[str]:
    """The record for people."""
    for run in record["runs"]:
        settings = ", ".join(f"{key} {value}" for key, value in run["settings"].items())
        yield f"{settings}; seeds {', '.join(run['seeds'])}"
        for at in run["trainings"]:
            theirs = at.get("published")
            beside = "" if theirs is None else f"   notebook {theirs['test_accuracy']:.2f}, p {_p(theirs['p'])}"
            accuracy, multiplier = at["test_accuracy"], at["multiplier"]
            yield (
                f"  {at['training']:2d}  λ {multiplier['mean']:+.5f} (sd {_p(multiplier['sd'])})  "
                f"test {accuracy['mean']:.2f} (sd {_p(accuracy['sd'])}){beside}"
            )
        yield f"  {run['remark']}"


def _summary(run: Mapping[str, Any], published: Mapping[str, Any]) -> dict[str, Any]:
    """The run with its seeds in order and what follows from them."""
    seeds = dict(sorted(run["seeds"].items(), key=lambda entry: int(entry[0])))
    every = list(seeds.values())
    length = min(map(len, every))
    trainings: list[dict[str, Any]] = []
    for k in range(length):
        at: dict[str, Any] = {"training": k + 1}
        for key in ("multiplier", "test_accuracy", "test_tprd", "predicted_rate"):
            at[key] = _spread([results[k][key] for results in every])
        trainings.append(at)
    settings = run["settings"]
    same = settings["rate"] == published["rate"] and settings["steps"] == published["steps"] and settings["layers"] == 3
    summary = {
        "settings": dict(settings),
        "n": len(every),
        "unweighted": trainings[0]["test_accuracy"],
        "last_training": trainings[-1]["test_accuracy"],
        "best_training": _spread([max(r["test_accuracy"] for r in results) for results in every]),  # chosen on test
        "best_look": _spread([max(a for r in results for _, a in r["trace"]) for results in every]),  # chosen on test
        "seeds_at_96_8": {
            "last_training": sum(results[-1]["test_accuracy"] >= REACH for results in every),
            "some_training": sum(any(r["test_accuracy"] >= REACH for r in results) for results in every),
        },
        "trainings": trainings,
    }
    if same:
        summary["agreement"] = _agreement(trainings, every, published)
    return {**summary, "remark": _remark(summary), "seeds": seeds}


def _agreement(
    trainings: list[dict[str, Any]], every: Sequence[Trainings], published: Mapping[str, Any]
) -> dict[str, Any]:
    """The tests; each training gets the notebook's point beside its own."""
    shared = range(min(len(trainings), len(published["test_accuracy"])))
    single = [
        _one_more([results[k]["test_accuracy"] for results in every], published["test_accuracy"][k]) for k in shared
    ]
    corrected = holm([found["p"] for found in single])
    for k in shared:
        theirs = {key: published[key][k] for key in ("test_accuracy", "multiplier")}
        trainings[k]["published"] = {**theirs, "p": single[k]["p"], "p_holm": corrected[k]}
    whole = {
        key: _one_more(
            [math.fsum(results[k][key] for k in shared) / len(shared) for results in every],
            math.fsum(published[key][k] for k in shared) / len(shared),
        )
        for key in ("test_accuracy", "multiplier")
    }
    unweighted = [results[0]["test_accuracy"] for results in every]
    decided = [*corrected, *(entry["p"] for entry in whole.values())]
    known = [p for p in decided if p is not None]
    verdict = "too few seeds to say" if len(known) < len(decided) else "agree" if min(known) >= LEVEL else "differ"
    return {
        "verdict": verdict,
        "trainings_compared": len(shared),
        "smallest_p_holm": min((p for p in corrected if p is not None), default=None),
        "mean_over_trainings": whole,
        # told beside, not decided on: their other unweighted run
        "unweighted_run": _one_more(unweighted, published["unweighted_test_accuracy"]),
    }


def _one_more(ours: Sequence[float], theirs: float) -> dict[str, Any]:
    """Whether one more draw like ours could be theirs; p is None where our draws have no spread."""
    from scipy import stats

    spread = _spread(ours)
    if spread["sd"] is None:
        return {"ours": spread, "published": theirs, "p": None}
    wide = spread["sd"] * math.sqrt(1 + 1 / spread["n"])
    apart = theirs - spread["mean"]
    if wide == 0:
        return {"ours": spread, "published": theirs, "p": 1.0 if apart == 0 else 0.0}
    freedom = spread["n"] - 1
    reach = float(stats.t.ppf(1 - LEVEL / 2, freedom)) * wide
    p = float(2 * stats.t.sf(abs(apart) / wide, freedom))
    return {"ours": spread, "published": theirs, "interval": [spread["mean"] - reach, spread["mean"] + reach], "p": p}


def _spread(values: Sequence[float]) -> dict[str, Any]:
    mean = Mean.of(values)
    sd = None if math.isnan(mean.error) else mean.error * math.sqrt(mean.n)
    return {**mean.to_dict(), "sd": sd, "least": min(values), "most": max(values)}


def _remark(run: Mapping[str, Any]) -> str:
    n, reached = run["n"], run["seeds_at_96_8"]
    said = (
        f"Unweighted {_mean(run['unweighted'])}, at training {len(run['trainings'])} {_mean(run['last_training'])} "
        f"(mean ± standard error, {n} seeds, at the last step). {REACH} at the last step: "
        f"{reached['last_training']} of {n} seeds at the last training, {reached['some_training']} at some training."
    )
    if "agreement" not in run:
        return said
    found = run["agreement"]
    whole = found["mean_over_trainings"]["test_accuracy"]
    told = "" if whole["p"] is None else f", p {whole['p']:.2f}"
    return (
        f"{said} Beside the notebook's log, training by training: {found['verdict']} (averaged over "
        f"{found['trainings_compared']} trainings {_mean(whole['ours'])} here, {whole['published']:.2f} there{told})."
    )


def _mean(entry: Mapping[str, Any]) -> str:
    error = "" if entry["standard_error"] is None else f" ± {entry['standard_error']:.2f}"
    return f"{entry['mean']:.2f}{error}"


def _p(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _key(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{path} cannot be read ({error}); run label_bias_mnist.py --out {path.parent} to its end."
        ) from error
    return found
