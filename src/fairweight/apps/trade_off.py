"""Sweep the strength: the front of accuracy and gap on validation, and one point of it chosen by a stated rule."""

from __future__ import annotations

import inspect
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fairweight import catalog
from fairweight.apps.train import Prepared, Trained
from fairweight.apps.verdict import in_points, table_of, verdict_between
from fairweight.errors import BadInput, MissingGroups, option
from fairweight.metrics import GroupTable
from fairweight.report.front import Dot, Front
from fairweight.report.page import front_html
from fairweight.runs.defaults import comparing_term
from fairweight.runs.folder import METRICS, SEALED, RunFolder
from fairweight.runs.manifest import FILE as MANIFEST
from fairweight.runs.run import Result
from fairweight.runs.run_place import BASELINE, PICTURE, SWEEP, Watching, run_into
from fairweight.runs.spec import Spec
from fairweight.training import state


@dataclass(frozen=True)
class Point:
    """One strength on validation: what multiplies the terms that compare groups; 0 is plain training."""

    strength: float
    result: Result
    table: GroupTable  # on validation

    @property
    def title(self) -> str:
        return "uniform" if self.strength == 0 else f"strength {self.strength:g}"

    @property
    def accuracy(self) -> float:
        return self.table.accuracy

    @property
    def gap(self) -> float:
        return self.table.tprd

    @property
    def accuracy_text(self) -> str:
        return in_points(self.table, "accuracy")

    @property
    def gap_text(self) -> str:
        return in_points(self.table, "tprd")


@dataclass(frozen=True)
class TradeOff:
    """The points, the one that was chosen on validation, and its run with the numbers on test."""

    points: tuple[Point, ...]  # plain training first, then by strength
    give_up: float  # accuracy on validation, as a fraction
    chosen_run: Trained
    picture: Path

    @property
    def chosen(self) -> Point:
        return choose(self.points, self.give_up)

    @cached_property
    def front(self) -> tuple[Point, ...]:
        """Points that no other beats in both accuracy and gap, and whose gap is known."""
        known = [p for p in self.points if not math.isnan(p.gap)]
        return tuple(p for p in known if not any(_beats(other, p) for other in known))

    @property
    def rule(self) -> str:
        return (
            f"Chosen on validation: the smallest TPRD among the points that give up at most {100 * self.give_up:g} "
            f"point{'' if self.give_up == 0.01 else 's'} of uniform's accuracy, which is {self.chosen.title}. "
            "Test rows played no part in the choice."
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "points": [
                {
                    "strength": p.strength,
                    "folder": str(p.result.folder.path),
                    "validation": {
                        "accuracy": p.accuracy,
                        "tprd": None if math.isnan(p.gap) else p.gap,
                        "n": p.table.n,
                    },
                    "on_front": p in self.front,
                    "chosen": p is self.chosen,
                }
                for p in self.points
            ],
            "chosen": self.chosen_run.to_dict(),
            "picture": str(self.picture),
        }


def trade_off(
    prepared: Prepared,
    out: str | Path,
    strengths: Sequence[float],
    give_up: float = 0.01,
    *,
    device: str = "cpu",
    watching: Watching = lambda title: (),
) -> TradeOff:
    """Train plain and at every strength, choose on validation, and put the chosen run into the folder itself."""
    if not 0 <= give_up <= 1:
        raise BadInput(f"give_up={give_up:g}; give a share of accuracy from 0 to 1, such as 0.01 for one point.")
    dataset, folder = prepared.dataset, Path(out)
    specs = strength_specs(prepared, strengths)
    whole = RunFolder(folder)
    whole.make()
    whole.tidy(SWEEP, PICTURE)
    if not (folder / SWEEP).is_file():
        whole.write(SWEEP, {"of": prepared.spec.fingerprint})  # a sweep that is stopped goes on from here
    points = []
    for strength, spec in specs.items():
        where = folder / (BASELINE if strength == 0 else f"strength_{strength:g}")
        name = spec.method if strength == 0 else f"{spec.method}, strength {strength:g}"
        done = run_into(spec, where, dataset, device, lambda _, name=name: watching(name))  # type: ignore[misc]
        points.append(Point(strength, done, table_of(done.folder, dataset, "validation")))
    chosen = choose(points, give_up)
    found = TradeOff(tuple(points), give_up, _finished(points[0], chosen, folder, prepared), folder / PICTURE)
    draw(found)
    whole.write(SWEEP, {"of": prepared.spec.fingerprint, **found.to_dict()})
    whole.seal(SWEEP, PICTURE)
    return found


def choose(points: Sequence[Point], give_up: float) -> Point:
    """Choose the smallest gap on validation among the points within give_up of plain training's accuracy there."""
    least = points[0].accuracy - give_up
    kept = [p for p in points if p.accuracy >= least - 1e-12 and not math.isnan(p.gap)]
    return min(kept, key=lambda p: (p.gap, -p.accuracy), default=points[0])


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
    spec = prepared.spec
    if prepared.dataset.validation is None:
        raise BadInput(
            f"a trade-off is chosen on validation, and there are no validation rows; give "
            f"{option('split.validation', 0.1)}."
        )
    groups = prepared.dataset.validation.groups
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
    term = comparing_term(len(prepared.dataset.label_names), groups=bool(prepared.dataset.group_names))
    objective = str(spec.method_options.get("objective") or f"mean + {term}")
    specs = {0.0: prepared.baseline}
    for strength in sorted(set(strengths)):
        options = {**spec.method_options, "objective": scaled(objective, strength)}
        specs[strength] = spec.with_(method_options=options)
    return specs


def _has_objective(method: str) -> bool:
    return "objective" in inspect.signature(catalog.load("methods", method)).parameters


def _beats(one: Point, other: Point) -> bool:
    better = one.accuracy > other.accuracy or one.gap < other.gap
    return better and one.accuracy >= other.accuracy and one.gap <= other.gap


def _finished(plain: Point, chosen: Point, folder: Path, prepared: Prepared) -> Trained:
    """Copy the chosen run into the folder itself, and compare it on test with plain training."""
    whole = RunFolder(folder)
    for name in (MANIFEST, METRICS):
        (folder / name).unlink(missing_ok=True)
    whole.copy(chosen.result.folder, [*(name for name in SEALED if name != METRICS), METRICS])
    whole.seal()
    done = Result(chosen.result.spec, whole, chosen.result.metrics, chosen.result.reused)
    table = table_of(done.folder, prepared.dataset)
    if chosen is plain:
        return Trained(done, table, None)
    verdict = verdict_between(done, plain.result, prepared.dataset, prepared.criterion, prepared.wish)
    return Trained(done, table, plain.result, verdict)


def draw(found: TradeOff) -> None:
    """Write the page that shows every strength on validation, with its row and the command that trains it."""
    spec = found.chosen_run.result.spec
    source = ["fairweight", "train", spec.source, *_flagged("label", spec.label), *_flagged("group", spec.group)]
    dots = []
    for point in found.points:
        if math.isnan(point.gap):
            continue
        gap, accuracy = point.table.estimate("tprd"), point.table.estimate("accuracy")
        options = point.result.spec.method_options
        method, objective = point.result.spec.method, options.get("objective")
        words = [*source, *_flagged("method", method), *_flagged("objective", objective)]
        dots.append(
            Dot(
                point.title,
                100 * gap.value,
                100 * accuracy.value,
                (100 * gap.low, 100 * gap.high),
                (100 * accuracy.low, 100 * accuracy.high),
                chosen=point is found.chosen,
                plain=point.strength == 0,
                row={"folder": point.result.folder.path.name},
                command=shlex.join(words),
            )
        )
    facts = {"source": found.chosen_run.result.spec.source, "seed": str(spec.seed), "strengths": str(len(dots) - 1)}
    where = f"{found.points[0].table.n:,} validation rows"
    spread = "Bars: 95 % interval, chance in these rows. One seed: nothing here tells chance in training."
    title = f"Trade-off: {Path(spec.source).name or spec.source}"
    made = Front(title, dots, "gap in true positive rate (TPRD)", where, spread, found.rule, facts)
    state.write_atomically(found.picture, front_html(made).encode())


def _flagged(name: str, value: Any) -> list[str]:
    return [] if value is None else [f"--{name}", str(value)]
