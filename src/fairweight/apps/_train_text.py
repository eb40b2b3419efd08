"""What a training says for people, before and after."""

from __future__ import annotations

import math
import shutil
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from fairweight import catalog
from fairweight.data import Dataset
from fairweight.errors import option
from fairweight.methods import Reweighter
from fairweight.runs.spec import Spec
from fairweight.types import Cells

if TYPE_CHECKING:
    from fairweight.apps.trade_off import TradeOff
    from fairweight.apps.train import Prepared, Trained
    from fairweight.apps.verdict import Verdict
    from fairweight.metrics import GroupTable


Spelling = Callable[[str], str]  # how a sentence spells the options that it names


def opening(prepared: Prepared, device: str, spelled: Spelling = str) -> str:
    """What was found in the data, and every setting that was chosen or given."""
    dataset = prepared.dataset
    notes = sorted(dataset.notes, key=lambda note: not note.startswith("Warning: "))
    lines = [f"Data: {dataset.name}", *(_wrapped(spelled(note), "  ") for note in notes), "Settings"]
    settings = {**in_words(prepared.spec, dataset), "device": device}
    if prepared.asked is not None:
        settings = _search_in_words(prepared, device)
    else:
        settings["network"] += f" ({prepared.parameters:,} parameters)"
    lines += [_wrapped(f"{name:10s} {value}", "  ", hang=11) for name, value in settings.items()]
    return "\n".join(lines) + "\n"


def _search_in_words(prepared: Prepared, device: str) -> dict[str, str]:
    asked = prepared.asked
    assert asked is not None
    wish = asked.wish
    limits = [f"gap at most {wish.bound:g} points"] if wish.bound is not None else []
    limits += [f"at most {wish.allowed:g} points of accuracy given up"] if wish.allowed < 100 else []
    return {
        "criterion": f"{wish.criterion.title}: {wish.criterion.sentence}",
        "within": ", ".join(limits),
        "candidates": ", ".join(asked.families) + f", by {asked.learner or 'trees, linear and mlp'}",
        "judged": "on rows that they were not trained on (5 folds), then trained on all rows that are not for test",
        "seed": str(prepared.spec.seed) + (f", and {asked.seeds - 1} more to judge by" if asked.seeds > 1 else ""),
        "device": device,
    }


def closing(done: Trained, seconds: float, spelled: Spelling = str) -> str:
    """The last screen: the table by group, plain training beside it, and what changed in words."""
    parts = [_verdict(done.verdict, done.result.spec.method, spelled)]
    parts += ["\n".join(_wrapped(f"{name:9s} {text}", "  ", hang=10) for name, text in ending(done))]
    title = done.result.spec.title if done.verdict is None else done.verdict.chosen
    parts += [f"{title} on the test rows\n\n{done.table.text(_columns_of_terminal())}"]
    if done.verdict is not None and done.baseline is not None:
        parts.append(_columns([("points [95 %]", "plain", title, "difference"), *done.verdict.rows()]))
    if done.verdict is not None and done.verdict.calibration:
        parts.append(_calibration(done.verdict))
    folder = done.result.folder.path
    found = [run.spec.title for run in (done.result, done.baseline) if run is not None and run.reused]
    reused = f" ({' and '.join(dict.fromkeys(found))} found finished)" if found else ""
    parts.append(f"Run folder: {folder}{reused}. Trained in {seconds:.0f} seconds.")
    width = max(len(command) for command, _ in next_steps(done))
    steps = [f"  {command:{width}s}  {what}" for command, what in next_steps(done)]
    parts.append("\n".join(["Look next:", *steps]))
    return "\n" + "\n\n".join(parts)


def _verdict(found: Verdict | None, method: str, spelled: Spelling) -> str:
    if found is None and method == "uniform":
        return "No verdict: this is plain training, and nothing stands beside it."
    if found is None:
        why = f"no plain training stands beside this run; leave out {option('no_baseline')} to get one."
        return _wrapped(spelled(f"No verdict: {why}"))
    lines = [found.sentence(), *(line for line in (found.together(),) if line), *found.notes]
    return "\n".join(_wrapped(line) for line in lines)


def _calibration(found: Verdict) -> str:
    """Mean probability by group beside how often it came true; error: mean distance of the two over ten bins."""
    positive = found.before.samples.positive
    what = "the predicted label" if positive is None else str(found.before.labels[positive])
    rows = [("calibration, %", f"{what} is", "plain says (error)", f"{found.chosen} says (error)")]
    if found.kept_plain:
        rows = [("calibration, %", f"{what} is", f"{found.chosen} says (error)", "")]
    after = found.calibration["after"]
    for group, before in found.calibration["before"].items():
        first, last = (f"{100 * one['predicted']:.1f} ({100 * one['error']:.1f})" for one in (before, after[group]))
        rows.append((group, f"{100 * before['observed']:.1f}", first, "" if found.kept_plain else last))
    return _columns(rows)


def front(found: TradeOff) -> str:
    """The points on validation, and why one was chosen."""
    heads = ("validation, points", "accuracy", "TPRD", "")
    rows = [heads]
    for point in found.points:
        marks = ["on the front"] * (point in found.front) + ["chosen"] * (point is found.chosen)
        rows.append((point.title, point.accuracy_text, point.gap_text, ", ".join(marks)))
    return f"\n{_columns(rows)}\n\n{_wrapped(found.rule)}\nPage: {found.picture}"


def _columns(rows: list[tuple[str, str, str, str]]) -> str:
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    lines = []
    for first, *rest in rows:
        cells = [f"{cell:>{width}s}" for cell, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join([f"{first:{widths[0]}s}", *cells]).rstrip())
    return "\n".join(lines)


def _wrapped(text: str, indent: str = "", hang: int = 2) -> str:
    width = max(60, min(120, _columns_of_terminal()))
    return textwrap.fill(
        text, width, initial_indent=indent, subsequent_indent=indent + " " * (hang if indent else 0),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _columns_of_terminal() -> int:
    return shutil.get_terminal_size((120, 24)).columns


def in_words(spec: Spec, dataset: Dataset) -> dict[str, str]:
    """Settings of a run, a line each, for people."""
    options = dict(spec.method_options)
    method = [spec.method if options or spec.weights else f"{spec.method}, with its own defaults"]
    method += [f"the weights of {spec.weights['file']}"] if "file" in spec.weights else []
    method += [f"objective {options.pop('objective')}"] if "objective" in options else []
    method += [f"scores shared by {options.pop('tie')}"] if options.get("tie") else []
    optimizer = [spec.optimizer, f"learning rate {spec.lr:g}"]
    optimizer += [f"weight decay {spec.weight_decay:g}"] if spec.weight_decay else []
    optimizer += [f"{spec.schedule['name']} schedule"] if spec.schedule else []
    epochs = f"{spec.epochs}, and the last one's model is kept"
    if spec.early_stopping:
        patience, metric = int(spec.early_stopping["patience"]), spec.early_stopping["metric"]
        stops = f", stops after {patience} without a better one" if patience < spec.epochs else ""
        epochs = f"up to {spec.epochs}{stops}; the best on validation ({metric}) is kept"
    batch = f"{spec.batch_size} rows"
    if "exemplar" in cast(type[Reweighter], catalog.load("methods", spec.method)).needs:
        cells = len(Cells.of(dataset.exemplar.labels, dataset.exemplar.groups))
        batch += f"; exemplars: {spec.per_cell} of each of {cells} cells at every step"
        batch += f", {spec.exemplar_batch} in all at least" if spec.exemplar_batch else ""
    searched = [f"{spec.search['name']} over many trainings", *_listed(spec.search)] if spec.search else []
    return {
        "method": ", ".join([*method, *_listed(options)]),
        **({"search": ", ".join(searched)} if searched else {}),
        "network": ", ".join([str(spec.network.get("name") or "as the data has it"), *_listed(spec.network)]),
        "optimizer": ", ".join(optimizer),
        "epochs": epochs,
        "batch": batch + "; flips and shifts" * spec.augment,
        "seed": str(spec.seed),
    }


def _listed(options: Mapping[str, Any]) -> list[str]:
    return [f"{key} {_plain(value)}" for key, value in options.items() if key != "name"]


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key} {_plain(item)}" if key != "name" else str(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return "-".join(map(str, value))
    return str(value)


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
