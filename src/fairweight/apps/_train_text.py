"""What a training says for people, before and after."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from fairweight import catalog
from fairweight.data import Dataset
from fairweight.errors import option
from fairweight.methods import Reweighter
from fairweight.runs.build import LINEAR, TREES
from fairweight.runs.spec import Spec
from fairweight.sampling import Cells

if TYPE_CHECKING:
    from fairweight.apps.train import Prepared, Trained
    from fairweight.apps.verdict import Verdict

Spelling = Callable[[str], str]  # how a sentence spells the options that it names


def opening(prepared: Prepared, device: str, spelled: Spelling = str) -> str:
    """What was found in the data, and every setting that was chosen or given."""
    dataset, asked = prepared.dataset, prepared.asked
    notes = sorted(dataset.notes, key=lambda note: not note.startswith("Warning: "))
    lines = [f"Data: {dataset.name}", *(wrapped(spelled(note), "  ") for note in notes), "Settings"]
    settings = in_words(prepared.spec, dataset)
    if prepared.spec.network.get("name") != TREES:  # which are not grown yet
        settings["network"] += f" ({prepared.built.parameters:,} parameters)"
    if asked is not None:
        wish = prepared.wish
        limits = [f"gap at most {wish.bound:g} points"] if wish.bound is not None else []
        limits += [f"at most {wish.allowed:g} points of accuracy given up"] if wish.allowed < 100 else []
        settings = {
            "criterion": f"{wish.criterion.title}: {wish.criterion.sentence}",
            "within": ", ".join(limits),
            "candidates": ", ".join(asked.families) + f", by {asked.learner or 'trees, linear and mlp'}",
            "judged": "on rows that they were not trained on (5 folds), then trained on all rows that are not for test",
            "seed": str(prepared.spec.seed) + (f", and {asked.seeds - 1} more to judge by" if asked.seeds > 1 else ""),
        }
    lines += [wrapped(f"{name:10s} {value}", "  ", 11) for name, value in {**settings, "device": device}.items()]
    return "\n".join(lines) + "\n"


def closing(done: Trained, seconds: float, spelled: Spelling = str) -> str:
    """The last screen: what changed in words, the table by group, plain training beside it."""
    found, folder = done.verdict, done.result.folder.path
    title = done.result.spec.title if found is None else found.chosen
    why = f"no plain model was trained to compare with; leave out {option('no_baseline')} to get one."
    said = [f"No verdict: {why}"]
    if found is not None:
        said = [found.sentence(), found.perhaps(), levelled(found), found.together(), found.alike(), *found.notes]
    elif done.result.spec.method == "uniform":
        said = ["No verdict: this is plain training, with nothing to compare it with."]
    parts = ["\n".join(wrapped(spelled(line)) for line in said if line)]
    parts += ["\n".join(wrapped(f"{name:9s} {text}", "  ", 10) for name, text in ending(done).items())]
    parts += [f"{title} on the test rows\n\n{done.table.text(shutil.get_terminal_size((120, 24)).columns)}"]
    if found is not None and done.baseline is not None and not found.kept_plain:
        parts.append(columns([("points [95 %]", "plain", title, "difference"), *found.rows()]))
    if found is not None and found.calibration:
        parts.append(_calibration(found))
    again = [run.spec.title for run in (done.result, done.baseline) if run is not None and run.reused]
    reused = f" ({' and '.join(dict.fromkeys(again))} found finished)" if again else ""
    parts.append(f"Run folder: {folder}{reused}. Trained in {seconds:.0f} seconds.")
    steps = next_steps(done)
    width = max(map(len, steps))
    parts.append("\n".join(["Look next:", *(f"  {command:{width}s}  {what}" for command, what in steps.items())]))
    return "\n" + "\n\n".join(parts)


def levelled(found: Verdict) -> str:
    """Say that the gap fell because its best group did, or nothing."""
    one_rate = not (found.before.by_label or found.before.has_cells) and "tpr" in found.criterion.rates
    if not one_rate or found.kept_plain:
        return ""
    rates = [[100 * rate for rate in table.by_group("tpr").values()] for table in (found.before, found.after)]
    (worst, best), (worst_now, best_now) = ((min(each), max(each)) for each in rates)
    fell, lost = (best - worst) - (best_now - worst_now), best - best_now
    if not (fell >= 1 and lost >= max(0.5, 0.5 * fell)):  # as on the audit page
        return ""
    return (
        f"Levelling down: of the {fell:.1f} points that the gap in true positive rates is smaller, {lost:.1f} come "
        f"from the best group, which fell from {best:.1f} to {best_now:.1f} %; the worst went from {worst:.1f} to "
        f"{worst_now:.1f} %."
    )


def ending(done: Trained) -> dict[str, str]:
    """What was kept, and how sure it is."""
    found, run = done.verdict, done.result.metrics.get("run", {})
    kept = found.kept_epoch if found is not None and found.kept_epoch else run.get("best_epoch") or run.get("epochs")
    title = done.result.spec.title if found is None else found.chosen
    network = done.result.spec.network.get("name")
    if kept and network != LINEAR:
        of = f" of {run['epochs']}" if run.get("epochs") and kept != run["epochs"] else ""
        title += f", {kept} rounds of trees" if network == TREES else f", epoch {kept}{of}"
    sure = f"one seed, {done.table.n:,} test rows: intervals tell chance in these rows, not in training"
    return {"Kept": title, "How sure": sure}


def next_steps(done: Trained) -> dict[str, str]:
    """Commands that go on from here, and what each is for."""
    folder = done.result.folder.path
    return {
        f"fairweight audit {folder}": "a page with the verdict, the groups and the weights",
        f"fairweight predict {folder} FILE --out predictions.csv": "predictions for new rows",
    }


def _calibration(found: Verdict) -> str:
    """Mean probability by group beside how often it came true; error: mean distance of the two over ten bins."""
    positive = found.before.samples.positive
    what = "the predicted label" if positive is None else str(found.before.labels[positive])
    shown = {f"{found.chosen} says (error)": found.calibration["after"]}
    if not found.kept_plain:
        shown = {"plain says (error)": found.calibration["before"], **shown}
    rows = [("calibration, %", f"{what} is", *shown)]
    for group, before in found.calibration["before"].items():
        said = [f"{100 * o[group]['predicted']:.1f} ({100 * o[group]['error']:.1f})" for o in shown.values()]
        rows.append((group, f"{100 * before['observed']:.1f}", *said))
    return columns(rows)


def front(found: Mapping[str, Any]) -> str:
    """The points on validation, and why one was chosen."""
    rows = [("validation, points", "accuracy", "gap", "")]
    for point in found["points"]:
        title = f"strength {point['strength']:g}" if point["strength"] else "uniform"
        marks = ["on the front"] * point["on_front"] + ["chosen"] * point["chosen"]
        accuracy, gap = point["validation"]["accuracy"], point["validation"]["gap"]
        rows.append((title, f"{100 * accuracy:.2f}", "–" if gap is None else f"{100 * gap:.2f}", ", ".join(marks)))
    return f"\n{columns(rows)}\n\n{wrapped(found['rule'])}\nPage: {found['picture']}"


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of a table: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    signs = ["<", *[">"] * (len(widths) - 1)]
    shown = (map("{:{}{}}".format, row, signs, widths) for row in rows)
    return "\n".join("  ".join(line).rstrip() for line in shown)


def wrapped(text: str, indent: str = "", hang: int = 2) -> str:
    """The text in lines as wide as the terminal, within reason."""
    width = max(60, min(120, shutil.get_terminal_size((120, 24)).columns))
    rest = indent + " " * (hang if indent else 0)
    return textwrap.fill(
        text, width, initial_indent=indent, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


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
    how = {"optimizer": ", ".join(optimizer), "epochs": epochs, "batch": batch + "; flips and shifts" * spec.augment}
    if (network := spec.network.get("name")) in (TREES, LINEAR):  # neither takes steps along gradients
        how = {"training": f"{spec.epochs} rounds of trees" if network == TREES else "solved for, without epochs"}
    searched = [f"{spec.search['name']} over many trainings", *_listed(spec.search)] if spec.search else []
    return {
        "method": ", ".join([*method, *_listed(options)]),
        **({"search": ", ".join(searched)} if searched else {}),
        "network": ", ".join([str(spec.network.get("name") or "as the data has it"), *_listed(spec.network)]),
        **how,
        "seed": str(spec.seed),
    }


def _listed(options: Mapping[str, Any]) -> Iterable[str]:
    return [f"{key} {_plain(value)}" for key, value in options.items() if key != "name"]


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key} {_plain(item)}" if key != "name" else str(item) for key, item in value.items())
    return "-".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
