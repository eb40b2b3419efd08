"""The last words of a training: verdict, gap, accuracy, which epoch was kept, and where to look next."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairweight.apps.train import Trained
    from fairweight.apps.verdict import Verdict
    from fairweight.metrics import GroupTable


def ending(done: Trained) -> list[tuple[str, str]]:
    """Lines of a title and a few words each: gap, accuracy, what was kept, how sure it is."""
    found = done.verdict
    numbers = _alone(done.table) if found is None else _changes(found)
    return [*numbers, *_kept(done, found), _sure(done.table.n)]


def next_steps(done: Trained) -> list[tuple[str, str]]:
    """Commands that go on from here, and what each is for."""
    folder = done.result.folder.path
    return [
        (f"fairweight audit {folder}", "a page with the verdict, the groups and the weights"),
        (f"fairweight predict {folder} FILE --out predictions.csv", "predictions for new rows"),
    ]


def _changes(found: Verdict) -> Iterator[tuple[str, str]]:
    before, after = found.gap
    change, low, high = found.change
    if math.isnan(after.value):
        yield "Gap", f"cannot be estimated on {found.before.n:,} test rows"
    elif found.kept_plain or math.isnan(change):
        yield "Gap", f"{_points(after.value)}{_span(after.low, after.high)}"
    else:
        moved = f"{100 * change:+.2f}, 95 % interval {100 * low:+.1f} to {100 * high:+.1f}"
        yield "Gap", f"{100 * before.value:.2f} → {_points(after.value)} ({moved})"
    if found.kept_plain:
        yield "Accuracy", f"{100 * found.accuracy.b:.2f} %"
        return
    apart = found.accuracy
    size = 100 * apart.value
    word = "costs" if size < 0 else "gains"
    interval = f"95 % interval {100 * apart.low:+.1f} to {100 * apart.high:+.1f}"
    cost = "unchanged" if abs(size) < 0.005 else f"{word} {abs(size):.2f} points"
    yield "Accuracy", f"{100 * apart.a:.2f} → {100 * apart.b:.2f} % ({cost}, {interval})"


def _alone(table: GroupTable) -> Iterator[tuple[str, str]]:
    gap, accuracy = table.estimate("tprd"), table.estimate("accuracy")
    if math.isnan(gap.value):
        yield "Gap", f"cannot be estimated on {table.n:,} test rows"
    else:
        yield "Gap", f"{_points(gap.value)}{_span(gap.low, gap.high)} in true positive rate"
    yield "Accuracy", f"{100 * accuracy.value:.2f} %{_span(accuracy.low, accuracy.high)}"


def _kept(done: Trained, found: Verdict | None) -> Iterator[tuple[str, str]]:
    run: dict[str, Any] = done.result.metrics.get("run", {})
    kept = found.kept_epoch if found is not None and found.kept_epoch else run.get("best_epoch") or run.get("epochs")
    title = done.result.spec.title if found is None else found.chosen
    of = f" of {run['epochs']}" if run.get("epochs") and kept != run["epochs"] else ""
    yield "Kept", f"{title}, epoch {kept}{of}" if kept else title


def _sure(n: int) -> tuple[str, str]:
    return "How sure", f"one seed, {n:,} test rows: intervals tell chance in these rows, not in training"


def _points(value: float) -> str:
    return f"{100 * value:.2f} points"


def _span(low: float, high: float) -> str:
    return "" if math.isnan(low) else f" [{100 * low:.1f}, {100 * high:.1f}]"
