"""The text that `train` prints before and after a training."""

from __future__ import annotations

import shlex
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
    dataset, request = prepared.dataset, prepared.request
    notes = sorted(dataset.notes, key=lambda note: not note.startswith("Warning: "))
    lines = [f"Data: {dataset.name}", *(wrapped(spelled(note), "  ") for note in notes), "Settings"]
    settings = in_words(prepared.spec, dataset)
    if prepared.spec.network.get("name") != TREES:  # which are not grown yet
        settings["network"] += f" ({prepared.built.parameters:,} parameters)"
    if prepared.spec.judge:
        settings["judged"] = "beside plain training, on validation rows; one of the two is kept"
    if request is not None:
        goal = prepared.goal
        more_seeds = f", and {request.seeds - 1} more to judge by" if request.seeds > 1 else ""
        limits = [f"gap at most {goal.bound:g} points"] if goal.bound is not None else []
        points = "point" if goal.allowed == 1 else "points"
        limits += [f"at most {goal.allowed:g} {points} of accuracy given up"] if goal.allowed < 100 else []
        settings = {
            "criterion": f"{goal.criterion.title}: {goal.criterion.sentence}",
            "within": ", ".join(limits),
            "candidates": ", ".join(request.families) + f", by {request.learner or 'trees, linear and mlp'}",
            "judged": "on rows that they were not trained on (5 folds); the chosen one is then trained on all but the "
            "test rows",
            "seed": f"{prepared.spec.seed}{more_seeds}",
        }
    lines += [wrapped(f"{name:10s} {value}", "  ", 11) for name, value in {**settings, "device": device}.items()]
    return "\n".join(lines) + "\n"


def closing(trained: Trained, seconds: float, spelled: Spelling = str) -> str:
    """The last screen: what changed in words, the table by group, plain training beside it."""
    verdict, folder = trained.verdict, trained.result.folder.path
    title = trained.result.spec.title if verdict is None else verdict.chosen
    why = f"no plain model was trained to compare with; leave out {option('no_baseline')} to get one."
    sentences = [f"No verdict: {why}"]
    if verdict is not None:
        remarks = verdict.by_column(), verdict.caveats(), verdict.how(), verdict.one_label()
        sentences = [verdict.sentence(), *remarks, *verdict.notes]
    elif trained.result.spec.method == "uniform":
        sentences = ["No verdict: this is plain training, with nothing to compare it with."]
    parts = ["\n".join(wrapped(spelled(line)) for line in sentences if line)]
    parts += ["\n".join(wrapped(f"{name:9s} {text}", "  ", 10) for name, text in ending(trained).items())]
    parts += [f"{title} on the test rows\n\n{trained.table.text(shutil.get_terminal_size((120, 24)).columns)}"]
    if verdict is not None and trained.baseline is not None and not verdict.kept_plain:
        parts.append(columns([("points [95 %]", "plain", title, "difference"), *verdict.rows()]))
    if verdict is not None and verdict.calibration:
        parts.append(_calibration(verdict))
    reused_titles = [run.spec.title for run in (trained.result, trained.baseline) if run is not None and run.reused]
    reused_text = f" ({' and '.join(dict.fromkeys(reused_titles))} found finished)" if reused_titles else ""
    took = "" if trained.result.reused else f" Trained in {seconds:.0f} seconds."
    parts.append(f"Run folder: {folder}{reused_text}.{took}")
    steps = (f"  {command}  {what}" for command, what in next_steps(trained).items())
    parts.append("\n".join(["Look next:", *steps]))
    return "\n" + "\n\n".join(parts)


def ending(trained: Trained) -> dict[str, str]:
    """What was kept, and how sure it is."""
    verdict, run = trained.verdict, trained.result.metrics.get("run", {})
    kept = None if verdict is None else verdict.kept_epoch
    kept = kept or run.get("best_epoch") or run.get("epochs")
    title = trained.result.spec.title if verdict is None else verdict.chosen
    network = trained.result.spec.network.get("name")
    if kept and network != LINEAR:
        of = f" of {run['epochs']}" if run.get("epochs") and kept != run["epochs"] else ""
        title += f", {_rounds(kept)}" if network == TREES else f", epoch {kept}{of}"
    rows = f"{trained.table.n:,} test rows"
    if missing := trained.table.n_missing:
        rows += f" whose group is known (of {trained.table.n + missing:,})"
    how_sure = f"one seed, {rows}: intervals show chance in these rows, not in training"
    return {"Kept": title, "How sure": how_sure}


def _rounds(count: int) -> str:
    return f"{count} round{'s' * (count != 1)} of trees"


def next_steps(trained: Trained) -> dict[str, str]:
    """Commands that go on from here, and what each is for."""
    folder = shlex.quote(str(trained.result.folder.path))
    return {
        f"fairweight audit {folder}": "a page with verdict, groups and weights",
        f"fairweight predict {folder} FILE --out predictions.csv": "for new rows",
    }


def _calibration(verdict: Verdict) -> str:
    """How often a label is true in each group, and how often the model expects it; error: their distance over bins."""
    labels = verdict.before.labels
    counted = f"labelled {labels[1]}" if len(labels) == 2 else "labelled as predicted"
    shown = {f"{verdict.chosen} expects (error)": verdict.calibration["after"]}
    if not verdict.kept_plain:
        shown = {"plain expects (error)": verdict.calibration["before"], **shown}
    rows = [("calibration, %", counted, *shown)]
    for group, before in verdict.calibration["before"].items():
        cells = [f"{100 * m[group]['predicted']:.1f} ({100 * m[group]['error']:.1f})" for m in shown.values()]
        rows.append((group, f"{100 * before['observed']:.1f}", *cells))
    return columns(rows)


def front(sweep: Mapping[str, Any]) -> str:
    """The points on validation, and why one was chosen."""
    rows = [("validation, points", "accuracy", "gap", "")]
    for point in sweep["points"]:
        title = f"strength {point['strength']:g}" if point["strength"] else "uniform"
        marks = ["on the front"] * point["on_front"] + ["chosen"] * point["chosen"]
        accuracy, gap = point["validation"]["accuracy"], point["validation"]["gap"]
        rows.append((title, f"{100 * accuracy:.2f}", "–" if gap is None else f"{100 * gap:.2f}", ", ".join(marks)))
    return f"\n{columns(rows)}\n\n{wrapped(sweep['rule'])}\nPage: {sweep['picture']}"


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
        how = {"training": _rounds(spec.epochs) if network == TREES else "solved for, without epochs"}
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
