"""Searches over whole trainings: ask for candidates, train them, tell the results.

    search = AlphaSearch(dimension=10)
    drive(search, train, path)          # train(candidate) -> {"loss": ...}; path: where the state is kept
    search.outcome.candidate.options    # for the method's constructor

A search is its settings and the results it was told, all plain values: after a kill `drive` goes on from the file,
and a candidate that was finished is not trained again. `ask` gives a whole round, so that its candidates may be
trained side by side and told in any order.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from fairweight.errors import BadCheckpoint, BadInput
from fairweight.runs.schema import SEARCH, problem

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Candidate:
    """One training to be done."""

    number: int  # from 0, in the order of asking
    options: Mapping[str, Any] = field(default_factory=dict)  # for the method's constructor, plain values
    full: bool = False  # whether to train by the whole schedule where candidates are trained by a short one


@dataclass(frozen=True)
class Finished:
    """A training that was done."""

    candidate: Candidate
    result: Result


class Search:
    """Proposes candidates from the results so far; subclasses write `propose` and `outcome`."""

    total: int  # how many trainings the search takes
    last_is_full: bool = False  # whether it ends with a training by the whole schedule
    gives: ClassVar[str] = ""  # the option of the method that it finds
    holds: ClassVar[Mapping[str, Any]] = {}  # options that the method has in every candidate, unless told otherwise
    length: ClassVar[str] = ""  # the argument that may change between two sittings: a search may be made longer

    def __init__(self) -> None:
        self._asked: list[Candidate] = []
        self._results: dict[int, dict[str, Any]] = {}

    # -- what a search writes -------------------------------------------------------------------

    def propose(self, finished: Sequence[Finished]) -> list[Mapping[str, Any]]:
        """Options of the next round's candidates; none when the search is over."""
        raise NotImplementedError

    @property
    def outcome(self) -> Finished | None:
        """Training to use, as far as the search has come."""
        raise NotImplementedError

    def wanted(self, candidate: Candidate) -> tuple[str, ...]:
        """Keys that the result of this training must hold."""
        return ()

    # -- what everybody gets --------------------------------------------------------------------

    def ask(self) -> list[Candidate]:
        """Candidates to train now: what is left of the round, or the next one; none when the search is over."""
        left = [c for c in self._asked if c.number not in self._results]
        if left:
            return left
        first = len(self._asked)
        for k, options in enumerate(self.propose(self.finished)):
            number = first + k
            self._asked.append(Candidate(number, dict(options), self.last_is_full and number == self.total - 1))
        return self._asked[first:]

    def tell(self, candidate: Candidate, result: Result) -> None:
        """Take in what a training gave."""
        if candidate not in self._asked:
            raise BadInput(f"Candidate {candidate.number} was not asked for; train what ask() gives.")
        if candidate.number in self._results:
            raise BadInput(f"Candidate {candidate.number} was told before; a result is told once.")
        missing = [key for key in self.wanted(candidate) if key not in result]
        if missing:
            raise BadInput(f"The result of candidate {candidate.number} lacks {missing[0]!r}; return it from train.")
        self._results[candidate.number] = _plain(dict(result), candidate.number)

    @property
    def finished(self) -> list[Finished]:
        """What was told, in the order of asking."""
        return [Finished(c, self._results[c.number]) for c in self._asked if c.number in self._results]

    def settings(self) -> dict[str, Any]:
        """Arguments that determine the search."""
        names = inspect.signature(type(self)).parameters
        return {name: getattr(self, name) for name in names if name != self.length}

    def state_dict(self) -> dict[str, Any]:
        """Settings, candidates and results as plain values."""
        return {
            "search": type(self).__name__,
            "settings": self.settings(),
            "asked": [asdict(c) for c in self._asked],
            "results": [[number, self._results[number]] for number in sorted(self._results)],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there; the settings must be the same."""
        mine = _plain(self.settings(), 0)
        if state.get("search") != type(self).__name__ or state.get("settings") != mine:
            differing = [k for k, v in mine.items() if (state.get("settings") or {}).get(k) != v]
            what = f"other settings ({', '.join(differing)})" if differing else "another kind of search"
            raise BadCheckpoint(f"The saved search has {what}; give the same ones, or another folder to start anew.")
        self._asked = [Candidate(c["number"], c["options"], c["full"]) for c in state["asked"]]
        self._results = {int(number): dict(result) for number, result in state["results"]}


def drive(
    search: Search,
    train: Callable[[Candidate], Result],
    path: Path | str | None = None,
    *,
    report: Callable[[Finished, int, int], None] | None = None,
) -> Finished:
    """Train every candidate in turn and return the outcome; with a path, a search that was stopped goes on from there.

    report(finished, done, total) is called after each training.
    """
    from fairweight.training.state import write_atomically

    path = None if path is None else Path(path)
    if path is not None and path.exists():
        search.load_state_dict(_read(path))
    while candidates := search.ask():
        for candidate in candidates:
            search.tell(candidate, train(candidate))
            if path is not None:
                write_atomically(path, json.dumps(search.state_dict(), indent=1).encode())
            if report is not None:
                told = next(f for f in search.finished if f.candidate == candidate)
                report(told, len(search.finished), search.total)
    outcome = search.outcome
    if outcome is None:
        raise BadInput("No training of the search gave a usable result; look at what train returned.")
    return outcome


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
        strange = problem(found, SEARCH)
    except (OSError, ValueError, RecursionError) as error:
        raise BadCheckpoint(f"{path} cannot be read ({error}); delete it to start the search anew.") from error
    if strange is not None:
        raise BadCheckpoint(f"{path} is not as a search writes it: {strange}; delete it to start the search anew.")
    return dict(found)


def _plain(values: dict[str, Any], number: int) -> dict[str, Any]:
    """Through JSON and back, so that a search goes on alike from memory and from a file."""
    try:
        found: dict[str, Any] = json.loads(json.dumps(values, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"The result of candidate {number} cannot be written as JSON ({error}); return finite numbers, texts, "
            "lists, or None."
        ) from error
    return found


def loss_of(finished: Finished) -> float | None:
    """Loss of the training; None where it failed."""
    value = finished.result.get("loss")
    return None if value is None else float(value)


def best(finished: Sequence[Finished]) -> Finished | None:
    """Training with the lowest loss, the first of equals."""
    usable = [f for f in finished if loss_of(f) is not None]
    return min(usable, key=lambda f: (loss_of(f), f.candidate.number)) if usable else None
