"""Sweep the strength: the front of accuracy and gap on validation, and one point of it chosen by a stated rule."""

from __future__ import annotations

import inspect
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairweight import catalog
from fairweight.apps.judge import Goal
from fairweight.apps.pair import adopt, best_of
from fairweight.apps.train import Prepared, Trained
from fairweight.apps.verdict import verdict_between
from fairweight.errors import BadInput, MissingGroups, option
from fairweight.metrics.criterion import default_criterion
from fairweight.report.front import SPREAD, Dot, Front, judged_dots, on_front, training_command, without
from fairweight.report.page import front_html
from fairweight.runs.folder import METRICS, RUN, RunFolder
from fairweight.runs.run import Result
from fairweight.runs.run_place import BASELINE, PICTURE, SWEEP, Watching, run_into
from fairweight.runs.spec import Spec
from fairweight.training import state


def trade_off(
    prepared: Prepared,
    out: str | Path,
    specs: Mapping[float, Spec],
    give_up: float = 1.0,
    *,
    device: str = "cpu",
    watching: Watching = lambda title: (),
) -> tuple[Trained, dict[str, Any]]:
    """Train plain and at every strength, choose on validation, and put the chosen run into the folder itself.

    specs: by strength, as strength_specs makes them. give_up: points of accuracy. Return the chosen run, and the rule,
    every point and the chosen one as plain values.
    """
    dataset, folder = prepared.dataset, RunFolder(out)
    goal = Goal(prepared.goal.criterion, budget=give_up)
    folder.make()
    folder.tidy(SWEEP, PICTURE)
    if not (folder.path / SWEEP).is_file():
        folder.write(SWEEP, {"of": prepared.spec.fingerprint})  # a sweep that is stopped goes on from here
    runs: dict[str, Result] = {}
    for strength, spec in specs.items():
        title, where = (f"strength {strength:g}", f"strength_{strength:g}") if strength else (BASELINE, BASELINE)
        name = f"{spec.method}, {title}" if strength else title
        runs[title] = run_into(spec, folder.path / where, dataset, device, lambda _, name=name: watching(name))  # type: ignore[misc]
    folders = {title: run.folder for title, run in runs.items()}
    chosen, _, judged = best_of(folders, goal, dataset, prepared.spec.seed, alone=True)
    plain, winner = runs[BASELINE], runs[chosen]
    adopt(folder, winner)
    result = Result(winner.spec, folder, winner.metrics, winner.reused)
    verdict = None if winner is plain else verdict_between(result, plain, dataset, goal)
    trained = Trained(result) if verdict is None else Trained(result, plain, verdict)
    folder.write(METRICS, winner.metrics | ({} if verdict is None else verdict.to_dict()))
    front = _front(runs, judged, goal)
    state.write_atomically(folder.path / PICTURE, front_html(front).encode())
    folder_of = {strength: run.folder.path for strength, run in zip(specs, runs.values(), strict=True)}
    values = {"rule": front.sentence, "points": points(folder_of, judged, front.dots), "chosen": trained.to_dict()}
    values |= {"picture": str(folder.path / PICTURE)}
    folder.write(SWEEP, {"of": prepared.spec.fingerprint, **values})
    folder.seal(SWEEP, PICTURE)
    return trained, values


def points(folders: Mapping[float, Path], judged: Mapping[str, Any], dots: Sequence[Dot]) -> list[dict[str, Any]]:
    """Every strength on validation, in the order in which the runs were judged."""
    best = [dot.title for dot in on_front(dots)]
    return [
        {
            "strength": strength,
            "folder": str(path),
            "validation": {"accuracy": candidate["accuracy"], "gap": candidate["gap"]},
            "on_front": candidate["name"] in best,
            "chosen": candidate["name"] == judged["chosen"],
        }
        for (strength, path), candidate in zip(folders.items(), judged["candidates"], strict=True)
    ]


def scaled(objective: str, strength: float) -> str:
    """Multiply every term of the objective but the mean loss by the strength."""
    parts = ([word.strip() for word in term.rpartition("*")] for term in objective.split("+"))
    terms = [(float(factor or 1), name) for factor, _, name in parts]
    rest = [(strength * factor, name) for factor, name in terms if name != "mean"]
    if not rest:
        raise BadInput(f"objective {objective!r} compares no groups, so it has no strength; add a term that does.")
    terms = [*([term for term in terms if term[1] == "mean"] or [(1.0, "mean")]), *rest]
    # 1e6, not 1e+06: a plus sign parts two terms
    return " + ".join(name if factor == 1 else f"{factor:g} * {name}".replace("e+", "e") for factor, name in terms)


def strength_specs(prepared: Prepared, strengths: Sequence[float]) -> dict[float, Spec]:
    """Make the Spec of each strength, plain training first; refuse if there is nothing to sweep or to choose on."""
    spec, dataset = prepared.spec, prepared.dataset
    if dataset.validation is None:
        raise BadInput(
            "a trade-off is chosen on validation, and there are no validation rows; give "
            f"{option('split.validation', 0.1)}."
        )
    groups = dataset.validation.groups
    if groups is not None and not bool((groups >= 0).any()):
        raise MissingGroups(
            "a trade-off is chosen by the gap on validation, and no validation row has a group; give "
            f"{option('split.validation')} a file with groups."
        )
    if any(not (s > 0 and math.isfinite(s)) for s in strengths):
        raise BadInput(f"{option('strengths', ','.join(f'{s:g}' for s in strengths))}: each must be above 0.")
    if not _has_objective(spec.method):
        others = ", ".join(name for name in catalog.names("methods") if _has_objective(name))
        raise BadInput(f"{spec.method} has no objective whose strength could be swept; choose from: {others}.")
    classes, grouped = len(dataset.label_names), bool(dataset.group_names)
    term = default_criterion(classes, groups=grouped).objective(classes, groups=grouped)
    objective, options = str(spec.method_options.get("objective") or f"mean + {term}"), spec.method_options
    return {0.0: prepared.baseline} | {
        s: spec.with_(method_options={**options, "objective": scaled(objective, s)}) for s in sorted(set(strengths))
    }


def _has_objective(method: str) -> bool:
    return "objective" in inspect.signature(catalog.load("methods", method)).parameters


def _front(runs: Mapping[str, Result], judged: Mapping[str, Any], goal: Goal) -> Front:
    """Every strength on validation, with the command that trains it."""

    def details(candidate: Mapping[str, Any]) -> tuple[Mapping[str, str], str]:
        spec, folder = runs[candidate["name"]].spec, runs[candidate["name"]].folder
        words = training_command(folder.read(RUN).get("command", ""), spec.source, source)
        words = without(words, "--method", "--objective", "--strengths", "--give-up")
        flags = {"method": spec.method, "objective": spec.method_options.get("objective")}
        if not words:  # it was swept in Python
            words, flags = ["fairweight", "train", source], {"label": spec.label, "group": spec.group, **flags}
        words += [word for name, value in flags.items() if value is not None for word in (f"--{name}", str(value))]
        return {"folder": folder.path.name}, shlex.join(word for word in words if word != "--trade-off")

    rule = (
        f"Chosen on validation: {judged['chosen']} has the smallest {goal.criterion.measure} of the points that cost "
        f"at most {goal.allowed:g} point{'' if goal.allowed == 1 else 's'} of uniform's accuracy and do not predict "
        "almost the same for everybody. Test rows played no part in the choice."
    )
    spec, where = runs[BASELINE].spec, f"{judged['rows']:,} validation rows"
    source = Path(spec.source).name or spec.source
    facts = {"source": spec.source, "seed": str(spec.seed), "strengths": str(len(runs) - 1)}
    title, dots = f"Trade-off: {source}", judged_dots(judged, details)
    notes = ("A strength multiplies the terms of the objective that compare groups.",)
    return Front(title, dots, goal.criterion.measure, where, f"{SPREAD} One seed.", rule, facts, notes)
