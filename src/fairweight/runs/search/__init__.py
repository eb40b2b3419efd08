"""Searches over whole trainings: a search yields candidates, and looks at what the earlier ones gave.

    drive(AlphaSearch(dimension=10), train, path)  # train(candidate) -> {"loss": ...}; path: where the state is kept

A search is its settings and its results, all plain values: after a kill `drive` repeats its choices from the file, and
a candidate that was finished is not trained again.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from fairweight.errors import BadCheckpoint, BadInput
from fairweight.runs.schema import SEARCH, problem


@dataclass(frozen=True)
class Candidate:
    """One training to be done."""

    number: int  # from 0
    options: Mapping[str, Any] = field(default_factory=dict)  # for the method's constructor, plain values
    full: bool = False  # whether to train by the whole schedule where candidates are trained by a short one


@dataclass(frozen=True)
class Finished:
    """A training that was done."""

    candidate: Candidate
    result: Mapping[str, Any]

    @property
    def loss(self) -> float | None:
        """Loss of the training; None where it failed."""
        value = self.result.get("loss")
        return None if value is None else float(value)


class Search:
    """Chooses trainings by the results so far; subclasses write `trainings`, `wanted` and `outcome`."""

    total: int  # how many trainings the search takes
    last_is_full: bool = False  # whether it ends with a training by the whole schedule
    gives: ClassVar[str] = ""  # the option of the method that it finds
    holds: ClassVar[Mapping[str, Any]] = {}  # options that the method has in every candidate, unless told otherwise
    length: ClassVar[str] = ""  # the argument that may change between two sittings: a search may be made longer

    def __init__(self) -> None:
        self.finished: list[Finished] = []

    def trainings(self) -> Iterator[Mapping[str, Any]]:
        """Options of each candidate in turn; the results of those before it are in `finished`."""
        raise NotImplementedError

    def wanted(self, candidate: Candidate) -> tuple[str, ...]:
        """Keys that the result of this training must hold."""
        return ()

    @property
    def outcome(self) -> Finished | None:
        """Training to use, as far as the search has come."""
        raise NotImplementedError

    @property
    def best(self) -> Finished | None:
        """Training with the lowest loss, the first of equals."""
        return min((f for f in self.finished if f.loss is not None), key=lambda f: f.loss or 0.0, default=None)

    def state_dict(self) -> dict[str, Any]:
        """Settings, candidates and results as plain values."""
        names = [name for name in inspect.signature(type(self)).parameters if name != self.length]
        return {
            "search": type(self).__name__,
            "settings": {name: getattr(self, name) for name in names},
            "asked": [asdict(f.candidate) for f in self.finished],
            "results": [[f.candidate.number, f.result] for f in self.finished],
        }


def drive(
    search: Search,
    train: Callable[[Candidate], Mapping[str, Any]],
    path: Path | str | None = None,
    *,
    report: Callable[[Finished, int, int], None] | None = None,
) -> Finished:
    """Train every candidate in turn and return the outcome; with a path, a search that was stopped goes on from there.

    report(finished, done, total) is called after each training.
    """
    from fairweight.training.state import write_atomically

    path = None if path is None else Path(path)
    known = _known(search, path) if path is not None and path.exists() else {}
    for number, options in enumerate(search.trainings()):
        if number in known:
            search.finished.append(known[number])
            continue
        candidate = Candidate(number, dict(options), search.last_is_full and number == search.total - 1)
        search.finished.append(Finished(candidate, _checked(train(candidate), candidate, search)))
        if path is not None:
            write_atomically(path, json.dumps(search.state_dict(), indent=1).encode())
        if report is not None:
            report(search.finished[-1], number + 1, search.total)
    outcome = search.outcome
    if outcome is None:
        raise BadInput("No training of the search gave a usable result; look at what train returned.")
    return outcome


def _known(search: Search, path: Path) -> dict[int, Finished]:
    """Trainings that the file holds, by number; it must be of the same search."""
    from fairweight.runs.manifest import read_json

    try:
        found = read_json(path)
        strange = problem(found, SEARCH)
    except (OSError, ValueError, RecursionError) as error:
        raise BadCheckpoint(f"{path} cannot be read ({error}); delete it to start the search anew.") from error
    if strange is not None:
        raise BadCheckpoint(f"{path} is not as a search writes it: {strange}; delete it to start the search anew.")
    mine = json.loads(json.dumps(search.state_dict()))
    differing = [key for key, value in mine["settings"].items() if found["settings"].get(key) != value]
    if found["search"] != mine["search"] or differing:
        what = f"other settings ({', '.join(differing)})" if found["search"] == mine["search"] else "another kind"
        raise BadCheckpoint(f"The saved search has {what}; give the same ones, or another folder to start anew.")
    asked = {c["number"]: Candidate(c["number"], c["options"], c["full"]) for c in found["asked"]}
    return {number: Finished(asked[number], result) for number, result in found["results"]}


def _checked(result: Mapping[str, Any], candidate: Candidate, search: Search) -> dict[str, Any]:
    """The result through JSON and back, so that a search goes on alike from memory and from a file."""
    for key in search.wanted(candidate):
        if key not in result:
            raise BadInput(f"The result of candidate {candidate.number} lacks {key!r}; return it from train.")
    try:
        found: dict[str, Any] = json.loads(json.dumps(dict(result), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"The result of candidate {candidate.number} cannot be written as JSON ({error}); return finite numbers, "
            "texts, lists, or None."
        ) from error
    return found
