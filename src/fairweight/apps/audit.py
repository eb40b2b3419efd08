"""Audit a finished run: read its folder, compare it with a baseline, and write the page and the model card."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from fairweight import catalog
from fairweight.apps.suspects import ranked_labels
from fairweight.apps.verdict import limits_of, table_of
from fairweight.data import Dataset, Request
from fairweight.data.source import find, folders
from fairweight.errors import BadInput, FairweightError, MissingData, Sentence, option
from fairweight.metrics import compare
from fairweight.report import Audit, Baseline, Finding, Trained, findings, headline, html, model_card
from fairweight.report.front import training_command
from fairweight.report.samples import thumbnails, worth_a_picture
from fairweight.report.suspects import detection
from fairweight.report.table_rows import SUMMARY
from fairweight.runs.folder import METRICS, PREPROCESSING, RUN, RunFolder
from fairweight.runs.run_place import BASELINE, finished
from fairweight.runs.spec import Spec
from fairweight.runs.spec_data import dataset_for, options_from
from fairweight.training.state import write_atomically

PAGE, CARD, IMAGES = "report.html", "MODEL_CARD.md", 600  # the last: pictures that a page carries


@dataclass(frozen=True)
class Audited:
    """What was found, and where it is written."""

    audit: Audit
    findings: list[Finding]
    page: Path
    card: Path | None
    shared: Path | None = None  # a second page, to hand on

    def to_dict(self) -> dict[str, Any]:
        trained, baseline = self.audit.trained, self.audit.baseline
        return {
            "page": str(self.page),
            "model_card": None if self.card is None else str(self.card),
            **({} if self.shared is None else {"shared": str(self.shared)}),
            "findings": [asdict(finding) for finding in self.findings],
            "baseline": None if baseline is None else baseline.name,
            "differences": {} if baseline is None else dict(baseline.differences),
            "wrong_labels": trained.detection.to_dict() if trained and trained.detection else None,
            "missing": list(self.audit.missing),
        }

    def text(self, width: int = 110, spelled: Callable[[str], str] = str) -> str:
        """The verdict and the findings for a terminal; spelled: how a sentence spells the options that it names."""
        top = headline(self.audit)
        lines = [f"{top.sentence} Do next: {top.action}"]
        for found in self.findings:
            no_action = found.level == "note" or found.action == top.action
            lines.append(f"{found.level:5s} {found.sentence}" + ("" if no_action else f" Do next: {found.action}"))
        fill = partial(textwrap.fill, width=width, break_long_words=False, break_on_hyphens=False)  # flags stay whole
        filled = [fill(line, subsequent_indent=" " * 6) for line in lines]
        notes = [fill(spelled(note)) for note in self.audit.missing]
        places = {"Page": self.page, "Model card": self.card, "To share": self.shared}
        where = "   ".join(f"{name}: {path}" for name, path in places.items() if path is not None)
        return "\n\n".join("\n".join(part) for part in (filled, notes, [where]) if part)


def write_audit(audit: Audit, out: str | Path, *, rows: bool | None = None, share: Path | None = None) -> Audited:
    """Write the page; of a run its model card, too, and of mere predictions their numbers.

    share: a file for a second page, to hand on. rows: whether pages show single rows; None: all but the shared one.
    """
    page, facts = html(audit, rows=rows is not False), audit.facts
    if share is not None:
        write_atomically(share, html(audit, rows=bool(rows)).encode())
    folder = RunFolder(out)
    files = {PAGE: page.encode()}
    if audit.trained is None:
        files[METRICS] = (json.dumps(dict(audit.metrics), indent=2) + "\n").encode()
    else:
        name = f"{facts['method']} on {facts['source']}"
        files[CARD] = model_card(audit, data=facts["source"], name=name).encode()
    with folder.claimed():
        folder.put(files)
    return Audited(audit, findings(audit), folder.path / PAGE, folder.path / CARD if CARD in files else None, share)


def audit_of(
    run: str | Path, *, baseline: str | Path | None = None, data_dir: str | Path | None = None, images: int = IMAGES
) -> Audit:
    """Audit a finished run, beside plain training on the same data where such a run is known.

    baseline: its folder; None looks among the folders beside the run. images: how many pictures to carry.
    """
    folder, missing = finished(run), list[str]()
    about, metrics, spec = folder.read(RUN), folder.read(METRICS), folder.read_spec()
    trained = _with_inputs(_trained(folder, spec, metrics), folder, spec, data_dir, images, missing)
    beside = _baseline(folder, spec, metrics, None if baseline is None else finished(baseline), missing)
    notes = [str(note) for note in about.get("data", {}).get("notes", ())]
    if (metrics.get("judged") or {}).get("rows") == len(trained.weights):  # by cross-fitting
        notes.append(f"The chosen model was trained on all {len(trained.weights):,} rows but those of test.")
    return Audit(
        title=f"Audit: {_source_name(spec)}, {trained.method}",
        facts=_facts(spec, about, metrics, trained.method),
        metrics=metrics,
        baseline=beside,
        trained=trained,
        notes=tuple(notes),
        missing=tuple(missing),
    )


def _called(spec: Spec, metrics: Mapping[str, Any]) -> str:
    """What was trained, as a sentence begins with it."""
    if spec.weights:
        return "Training with given weights"
    return str(metrics["chosen"] if "judged" in metrics else catalog.load("methods", spec.method).__name__)


def _trained(folder: RunFolder, spec: Spec, metrics: Mapping[str, Any]) -> Trained:
    """What training left of every sample, without inputs."""
    weights = folder.read_weights()
    scores, path = folder.read_paths("scores"), folder.read_paths("weights")
    ranked = ranked_labels(folder, weights)
    record, kept = metrics.get("run", {}), scores or path
    return Trained(
        method=_called(spec, metrics),
        weights=weights,
        suspects=ranked.table,
        detection=detection(weights, ranked.table),
        suspect_rule=ranked.rule,
        wrong_counts=ranked.counts(),
        history=record.get("history", ()),
        warnings=record.get("warnings", ()),
        scores=metrics.get("scores", {}),
        path_rows=None if kept is None else kept[0].numpy(),
        score_path=None if scores is None else scores[1].numpy(),
        weight_path=None if path is None else path[1].numpy(),
        grouped=metrics["by"] != "label",
        kind=str(folder.read(PREPROCESSING)["kind"]),
    )


def _source_name(spec: Spec) -> str:
    """The source without the folders that it lies in; bytes of a file's name that are no text are shown as ?."""
    return (Path(spec.source).name or spec.source).encode(errors="replace").decode()


def _facts(spec: Spec, about: Mapping[str, Any], metrics: Mapping[str, Any], method: str) -> dict[str, str]:
    record, data = metrics.get("run", {}), about.get("data", {})
    others = [*(Spec.from_dict(other).folder_name for other in spec.weights.get("runs", ())), spec.weights.get("file")]
    values = {
        "source": _source_name(spec),
        "label": str(data.get("label", spec.label or "")),
        "group": "the label" if metrics["by"] == "label" else ", ".join(data.get("group") or metrics["by"]),
        "method": method,
        "criterion": str(metrics.get("criterion", "")),
        "weights": ", ".join(f"those of {name}" for name in others if name),  # of a second training
        "network": str(spec.network.get("name", "chosen for the data")),
        "epochs": str(record.get("epochs", spec.epochs)),
        "seed": str(spec.seed),
        "trained": str(about.get("date", ""))[:16].replace("T", " "),
        "device": str(about.get("device", "")),
        "fairweight": str(about.get("versions", {}).get("fairweight", "")),
        "run": str(about.get("fingerprint", "")),
        "command": shlex.join(training_command(str(about.get("command", "")), spec.source, _source_name(spec))),
    }
    return {key: value for key, value in values.items() if value}


def _with_inputs(
    trained: Trained, folder: RunFolder, spec: Spec, data_dir: str | Path | None, images: int, missing: list[str]
) -> Trained:
    """Add pictures or columns of the samples; where the source cannot be read as it was, say so instead."""
    try:
        dataset = dataset_for(spec, data_dir, beside=folder.beside)
        if dataset.rows["train"].tolist() != trained.weights["row"].tolist():
            raise MissingData("the source has changed since the run.")
    except FairweightError as error:
        missing.append(f"The samples' own images or columns are not shown: {error}")
        return trained
    if dataset.kind == "table":
        return replace(trained, columns=_train_columns(spec, dataset, data_dir))
    places = worth_a_picture(trained, images)
    if not places:
        return trained
    if len(places) < len(trained.weights):
        missing.append(
            Sentence(
                f"The page carries the pictures of {len(places):,} samples: the most suspect, and those weighted up "
                f"and down most. Raise {option('images')} for more."
            )
        )
    pixels: Any = dataset.train.take(torch.tensor(places)).inputs
    return replace(trained, images=thumbnails(pixels.cpu().numpy(), places))


def _train_columns(spec: Spec, dataset: Dataset, data_dir: str | Path | None) -> pd.DataFrame | None:
    """The columns that were inputs, one row per training sample; None where the source is no table."""
    request = Request(spec.label, None, folders(data_dir), False, dataset.spec["seed"], options_from(spec.data))
    rows = find(spec.source, request).parts["train"]  # every training sample is of the part that was given as train
    if rows.pixels is not None:
        return None
    inputs = [column.name for column in getattr(dataset.preprocessing, "columns", ()) if column.name in rows.frame]
    found = rows.frame[list(dict.fromkeys(inputs))].iloc[dataset.rows["train"].numpy()].reset_index(drop=True)
    found = found.astype(object).where(found.notna(), None)  # pandas has several missing values
    return found.map(lambda cell: cell if pd.api.types.is_scalar(cell) else str(cell))  # lists and the like


def _baseline(
    folder: RunFolder, spec: Spec, metrics: Mapping[str, Any], given: RunFolder | None, missing: list[str]
) -> Baseline | None:
    """The run that was given, or plain training found beside; what cannot be compared is added to `missing`."""
    other = given or _found_beside(folder, spec)
    if other is None:
        return None
    theirs, name = other.read(METRICS), catalog.load("methods", other.read_spec().method).__name__
    if _tested(theirs) != _tested(metrics):
        raise BadInput(f"{other.path} was tested on other labels or groups; give a baseline of the same data.")
    frames = [other.read_predictions(), folder.read_predictions()]
    keys = [None if frame is None else frame[["row", "label"]].astype(str) for frame in frames]
    if keys[0] is None or keys[1] is None or not keys[0].equals(keys[1]):
        missing.append(
            f"Differences from {name} carry no interval: the two runs were not tested on the same samples, or kept no "
            "predictions."
        )
        return Baseline(name, theirs, {})
    before, after = table_of(other), table_of(folder)
    changes = {number: compare(before, after, number) for number in SUMMARY}
    apart = {number: limits_of(change) | {"beyond": change.beyond_interval} for number, change in changes.items()}
    change, gaps = metrics.get("gap_change") or {}, [metrics.get(when, {}) for when in ("gap_before", "gap_after")]
    if [gap.get("value") for gap in gaps] == [theirs["tprd"], metrics["tprd"]] and change.get("low") is not None:
        apart["tprd"] |= change | {"beyond": change["low"] > 0 or change["high"] < 0}  # the verdict's interval
    return Baseline(name, theirs, apart)


def _tested(metrics: Mapping[str, Any]) -> tuple[Any, ...]:
    """The labels and groups that a run was tested on."""
    groups = [group["group"] for group in metrics["groups"]]
    return metrics["by"] == "label", metrics["labels"], groups


def _found_beside(folder: RunFolder, spec: Spec) -> RunFolder | None:
    """A finished run of plain training on the same data inside the run's folder or beside it, the same seed's first."""
    if spec.method == BASELINE:
        return None
    found: list[tuple[bool, RunFolder]] = []
    here = folder.path.resolve()
    for path in sorted([*here.glob(f"*/{METRICS}"), *here.parent.glob(f"*/{METRICS}")]):
        other = RunFolder(path.parent)
        try:
            theirs = other.read_spec()
        except FairweightError:
            continue  # another version's run
        if theirs.method == BASELINE and _data(theirs) == _data(spec):
            twin = theirs.with_(method=spec.method, method_options=spec.method_options, weights=spec.weights)
            found.append((twin != spec, other))
    return min(found, key=lambda item: item[0])[1] if found else None


def _data(spec: Spec) -> tuple[Any, ...]:
    """What of a Spec determines its samples."""
    return spec.source, spec.label, spec.group, spec.data, spec.rows, spec.drawing_seed
