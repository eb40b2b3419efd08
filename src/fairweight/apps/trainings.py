"""Train on several sets over seeds, and say what each does beside the first one, beyond chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from fairweight.apps.verdict import table_of
from fairweight.errors import RunsFailed
from fairweight.metrics import compare
from fairweight.runs.folder import RunFolder
from fairweight.runs.pool import run_all
from fairweight.runs.pool._job import Watcher
from fairweight.runs.spec import Spec
from fairweight.runs.statistics import Mean, numbers_of, paired

PLAIN = "uniform"
NUMBERS = {"tprd": "TPRD ↓", "max_fnr": "maxFNR ↓", "accuracy": "accuracy ↑"}
SURE = 0.05  # p-value below which a difference over seeds counts, if test rows drawn anew would show it, too
HARMS, HELPS = ("widens the gap", "costs accuracy"), ("narrows the gap", "raises accuracy")
LEVELS = "narrows the gap by missing more in the worst group"  # neither harm nor help
Seeds = Mapping[str, Mapping[str, float]]  # by seed: numbers in %; what a run could not estimate is left out
Runs = dict[str, dict[str, dict[str, RunFolder]]]  # by method, set and seed
Ways = Callable[[int], Mapping[str, Mapping[str, Any]]]  # by set: how a Spec changes for a seed
Watching = Callable[[dict[str, str]], Watcher]  # who is told of the runs, given what each is called by fingerprint
Limits = Mapping[str, tuple[float, float]]  # by number


@dataclass(frozen=True)
class Trainings:
    """How sets are compared: over which seeds, and where they are trained."""

    seeds: int = 5
    first_seed: int = 0
    jobs: int | None = None
    device: str = "cpu"
    data_dir: str | Path | None = None
    watching: Watching | None = None

    def over(self, methods: Mapping[str, Spec], ways: Ways, titles: Mapping[str, str], where: Path) -> Runs:
        """Train by every method on every set that `ways` makes for a seed; give the runs by method, set and seed."""
        specs = {
            (method, arm, seed): spec.with_(seed=seed, **change)
            for seed in range(self.first_seed, self.first_seed + self.seeds)
            for arm, change in ways(seed).items()
            for method, spec in methods.items()
            if method == PLAIN or "method" not in change  # another method takes the place of plain training
        }
        titled = {spec.fingerprint: f"{method}, {titles[arm]}, seed {k}" for (method, arm, k), spec in specs.items()}
        watcher = None if self.watching is None else self.watching(titled)
        options: dict[str, Any] = {"jobs": self.jobs, "device": self.device, "data_dir": self.data_dir}
        outcomes = run_all(specs.values(), where, watcher=watcher, **options)
        runs: Runs = {method: {} for method in methods}
        for (method, arm, seed), spec in specs.items():
            outcome = outcomes[spec.fingerprint]
            if outcome.error is not None:
                raise RunsFailed(f"the run {outcome.folder} failed: {outcome.error}")
            runs[method].setdefault(arm, {})[str(seed)] = RunFolder(outcome.folder)
        return runs


def methods_of(spec: Spec) -> dict[str, Spec]:
    """Plain training, and the run's own method where it is another one that learns weights by itself."""
    rest: dict[str, Any] = {"search": {}, "weights": {}, "judge": {}, "data_seed": spec.drawing_seed}
    methods = {PLAIN: spec.with_(method=PLAIN, method_options={}, **rest)}
    if spec.method not in (PLAIN, "given") and not spec.search:
        methods[spec.method] = methods[PLAIN].with_(method=spec.method, method_options=spec.method_options)
    return methods


@dataclass(frozen=True)
class Compared:
    """Numbers of every training, and how each set differs from the one that all are compared with."""

    beside: str
    seeds: Mapping[str, Mapping[str, Seeds]]  # by method and set
    rows: Mapping[str, Mapping[str, Limits]]  # by method and set: interval of its difference over resampled test rows

    @classmethod
    def of(cls, runs: Runs, beside: str) -> Compared:
        numbers = {
            method: {arm: {seed: _numbers(one) for seed, one in each.items()} for arm, each in arms.items()}
            for method, arms in runs.items()
        }
        rows = {method: {arm: apart(each, arms[beside]) for arm, each in arms.items()} for method, arms in runs.items()}
        return cls(beside, numbers, rows)

    def values(self, method: str, arm: str, number: str) -> dict[str, float]:
        """One number by seed, where it could be estimated."""
        return {seed: found[number] for seed, found in self.seeds[method][arm].items() if number in found}

    def mean(self, method: str, arm: str, number: str) -> Mean:
        """Of one number over seeds."""
        return Mean.of(list(self.values(method, arm, number).values()))

    def difference(self, method: str, arm: str, number: str, beside: str = "") -> dict[str, Any]:
        """Mean difference over the same seeds from another set, with the p-value of a paired t-test."""
        return paired(self.values(method, arm, number), self.values(method, beside or self.beside, number))

    def is_fixed(self, method: str, arm: str) -> bool:
        """Whether training gives the same at every seed, as trees and linear models do: test rows alone are chance."""
        both = [list(self.seeds[method][name].values()) for name in (arm, self.beside)]
        return all(len(runs) > 1 and all(run == runs[0] for run in runs) for runs in both)

    def moved(self, method: str, arm: str) -> list[str]:
        """What differs beyond chance in training and in test rows, in words."""
        words = {"tprd": (HELPS[0], HARMS[0]), "accuracy": (HARMS[1], HELPS[1])}  # lower, higher
        differences, moves = {number: self.difference(method, arm, number) for number in words}, []
        for number, (low, high) in self.rows[method][arm].items():
            p, mean = 0.0 if self.is_fixed(method, arm) else differences[number]["p"], differences[number]["mean"]
            if p is not None and p < SURE and (low > 0 if mean > 0 else high < 0):
                moves.append(words[number][mean > 0])
        if HELPS[0] in moves and self.difference(method, arm, "max_fnr")["mean"] > 0:
            moves[moves.index(HELPS[0])] = LEVELS  # a model that finds nobody has no gap
        return moves

    def methods(self, arm: str, moves: Sequence[str]) -> list[str]:
        """By which methods a set does one of these."""
        return [m for m in self.seeds if arm in self.seeds[m] and any(one in moves for one in self.moved(m, arm))]


def _numbers(folder: RunFolder) -> dict[str, float]:
    return {name: value for name, value in numbers_of(folder).items() if name in NUMBERS}


def apart(runs: Mapping[str, RunFolder], beside: Mapping[str, RunFolder], part: slice = slice(None)) -> Limits:
    """Interval of the difference in % between runs of one seed, over resampled test rows; mean over seeds."""
    intervals: dict[str, list[tuple[float, float]]] = {"tprd": [], "accuracy": []}
    for seed, folder in runs.items():
        before, after = table_of(beside[seed], part), table_of(folder, part)
        for number, limits in intervals.items():
            change = compare(before, after, number)
            limits.append((100 * change.low, 100 * change.high))
    return {number: (fmean(low for low, _ in limits), fmean(high for _, high in limits))
            for number, limits in intervals.items()}  # fmt: skip
