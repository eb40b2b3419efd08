"""Compare a method with plain training on the same test rows, in numbers and in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from fairweight.data import Dataset
from fairweight.data.meaning import Meaning
from fairweight.errors import Sentence, option
from fairweight.metagradient.passes import predicted
from fairweight.metrics import Difference, GroupTable, compare, group_table
from fairweight.runs.defaults import knows_groups
from fairweight.runs.folder import RunFolder

NUMBERS = {"tprd": "TPRD", "max_fnr": "maxFNR", "accuracy": "accuracy"}


def table_of(folder: RunFolder, dataset: Dataset, part: str = "test") -> GroupTable:
    """Table by group of a finished run on a part."""
    found, labels, groups = folder.read_logits(part)
    return by_group(dataset.preprocessing.meaning, labels, predicted(found), groups)


def by_group(meaning: Meaning, labels: Tensor, predictions: Tensor, groups: Tensor | None) -> GroupTable:
    """Table by group, with the names that the data gives to labels and groups."""
    title = ", ".join(meaning.group)
    return group_table(
        labels,
        predictions,
        None if groups is None else {title: groups},
        label_names=meaning.label_names,
        group_names=None if groups is None else {title: meaning.group_names},
        missing="ignore",
    )


@dataclass(frozen=True)
class Differences:
    """Two tables of the same samples, and their paired differences."""

    method: str
    before: GroupTable  # plain training
    after: GroupTable
    dataset: Dataset

    @cached_property
    def numbers(self) -> dict[str, Difference]:
        """Paired differences: the method's number minus that of plain training."""
        return {name: compare(self.before, self.after, name) for name in NUMBERS}

    def to_dict(self) -> dict[str, Any]:
        found = {
            name: {
                "before": _plain(d.a),
                "after": _plain(d.b),
                "difference": _plain(d.value),
                "interval": [_plain(d.low), _plain(d.high)],
                "larger_than_interval": d.beyond_interval,
                "n": d.n,
            }
            for name, d in self.numbers.items()
        }
        return {"numbers": found, "sentence": self.sentence(), "notes": self.notes()}

    def rows(self) -> list[tuple[str, str, str, str]]:
        """For a table in points: name, plain training, method, and the difference with its interval."""
        found = []
        for name, title in NUMBERS.items():
            d = self.numbers[name]
            before, after = (in_points(table, name) for table in (self.before, self.after))
            apart = "–" if math.isnan(d.value) else f"{100 * d.value:+.2f} [{100 * d.low:+.1f}, {100 * d.high:+.1f}]"
            found.append((title, before, after, apart))
        return found

    def sentence(self) -> str:
        """Say what changed, and whether by more than its interval."""
        gap, accuracy = self.numbers["tprd"], self.numbers["accuracy"]
        what = "the gap between the classes' true positive rates (TPRD)"
        if not self.before.by_label:
            what = f"the gap in true positive rate between the groups of {self._attribute()} (TPRD)"
        if math.isnan(gap.value):
            return (
                f"{self.method}: {what} cannot be estimated on these {gap.n:,} test rows; "
                f"accuracy went {_moved(accuracy)}."
            )
        verb, link = "did not clearly move", ": it went"
        if gap.beyond_interval:
            verb, link = "lowered" if gap.value < 0 else "raised", ""
        changed = f"{self.method} {verb} {what}{link} {_moved(gap)}"
        return f"Against plain training, {changed}; accuracy went {_moved(accuracy)}."

    def notes(self) -> list[str]:
        """Caveats to read with the sentence."""
        found = []
        lowered = self.numbers["tprd"].beyond_interval and self.numbers["tprd"].value < 0
        if lowered and (together := self._together()):
            found.append(together)
        sees = bool(self.dataset.spec.get("options", {}).get("table", {}).get("group_in_inputs"))
        # Only where train rows have the group could the model be shown it.
        blind = self.dataset.kind == "table" and self.dataset.group_names and not sees
        if blind and not lowered and knows_groups(self.dataset.train):
            said = f"The model does not see {self._attribute()}, so weights tell its groups apart only through other"
            how = f"{option('table.group_in_inputs')} gives them a grip, where using it is allowed"
            found.append(Sentence(f"{said} columns; {how}."))
        return found

    def _together(self) -> str:
        """Sentence for a gap that fell because all groups' rates moved the same way, or nothing."""
        if self.before.by_label or self.before.has_cells:
            return ""
        before, after = self.before.by_group("tpr"), self.after.by_group("tpr")
        moves = [after[g] - before[g] for g in before if not math.isnan(after[g] - before[g])]
        if len(moves) < 2 or not (all(m > 0 for m in moves) or all(m < 0 for m in moves)):
            return ""
        way = "up" if moves[0] > 0 else "down"
        shares = [_selected(table) for table in (self.before, self.after)]
        least, most = sorted((min(map(abs, moves)), max(map(abs, moves))))
        return (
            f"The true positive rates of all groups went {way} (by {100 * least:.1f} to {100 * most:.1f} points), and "
            f"the share predicted positive from {100 * shares[0]:.1f} to {100 * shares[1]:.1f} %."
        )

    def _attribute(self) -> str:
        return ", ".join(self.dataset.preprocessing.meaning.group)


def _selected(table: GroupTable) -> float:
    """Share of all samples that is predicted positive."""
    positive = table.samples.positive
    return float((table.samples.predictions == positive).mean())


def _moved(d: Difference) -> str:
    verdict = "more" if d.beyond_interval else "no more"
    return (
        f"from {100 * d.a:.2f} to {100 * d.b:.2f} points ({100 * d.value:+.2f}, interval {100 * d.low:+.1f} to "
        f"{100 * d.high:+.1f}: {verdict} than chance explains)"
    )


def in_points(table: GroupTable, name: str) -> str:
    """Number of the table with its interval, in points."""
    estimate = table.estimate(name)
    if math.isnan(estimate.value):
        return "–"
    return f"{100 * estimate.value:.2f} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value
