"""Write the model that was chosen into a run folder, with plain training's beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairweight.apps.before_after import by_group
from fairweight.apps.candidates import Asked, Candidate, Search, Tell, search
from fairweight.apps.judge import BUDGET
from fairweight.apps.verdict import Verdict
from fairweight.data import Dataset
from fairweight.metagradient.passes import predicted
from fairweight.metrics import GroupTable
from fairweight.runs.folder import METRICS, PREPROCESSING, RUN, RunFolder
from fairweight.runs.held_out import held_out_parts
from fairweight.runs.learners import Fitted
from fairweight.runs.manifest import FILE as MANIFEST
from fairweight.runs.manifest import VERSION as MANIFEST_VERSION
from fairweight.runs.provenance import provenance
from fairweight.runs.run import Result, final_predictions, score_numbers
from fairweight.runs.shift import shifted
from fairweight.runs.spec import Spec
from fairweight.training.predict import logits
from fairweight.types import RunRecord

PLAIN = "uniform"  # the folder of plain training inside that of the run


def deliver(
    spec: Spec, asked: Asked, dataset: Dataset, out: Path, *, device: str = "cpu", tell: Tell | None = None
) -> tuple[Result, Result | None, Verdict]:
    """Search, and write what was chosen: the run, plain training where that is another model, and the verdict."""
    found = search(dataset, asked, seed=spec.seed, device=device, tell=tell)
    folder = RunFolder(out)
    folder.make()
    about = {**provenance(device), "asked": spec.to_dict(), "fingerprint": spec.fingerprint}
    verdict = verdict_of(found, dataset)
    plain = None
    if not found.kept_plain:
        beside = RunFolder(out / PLAIN)
        beside.make()
        ours = chosen_spec(spec, found, found.plain, found.fitted_plain)
        own = {**provenance(device), "fingerprint": ours.fingerprint}
        plain = _written(beside, ours, found, found.fitted_plain, own, {}, dataset)
    final = chosen_spec(spec, found, found.chosen, found.fitted)
    more = {**verdict.to_dict(), "judged": found.to_dict()}
    return _written(folder, final, found, found.fitted, about, more, dataset), plain, verdict


def verdict_of(found: Search, dataset: Dataset) -> Verdict:
    """What the chosen model changes on test rows."""
    before, after = (_table(one, dataset) for one in (found.fitted_plain, found.fitted))
    allowed = found.wish.allowed
    return Verdict(
        found.wish.criterion,
        before,
        after,
        found.chosen.title,
        found.plain.title,
        found.fitted.epoch,
        found.kept_plain,
        allowed if np.isfinite(allowed) else max(BUDGET, 100.0),
        found.notes,
    )


def chosen_spec(spec: Spec, found: Search, one: Candidate, fitted: Fitted) -> Spec:
    """The Spec of a training on all rows with what was chosen."""
    way = one.way
    options = dict(way.options)
    if way.cells is not None:
        options = {"online": False, "multipliers": multipliers(way.cells, by_label=found.rows.by_label)}
    return spec.with_(
        method=way.method,
        method_options=options,
        network=dict(fitted.network),
        epochs=fitted.epoch,
        early_stopping={},
        judge={} if fitted.shift is None else {"shift": [list(row) for row in fitted.shift]},
        data=_all_rows(spec.data, found.dataset),
    )


def multipliers(cells: Any, *, by_label: bool) -> list[list[float]]:
    """Label-bias's λ, by label and group, for weights σ(2 λ) in these proportions."""
    table = cells.T if by_label else np.concatenate([cells.mean(axis=0, keepdims=True), cells]).T  # [K, G + 1]
    share = table / (2 * table.max())
    found: list[list[float]] = (0.5 * np.log(share / (1 - share))).tolist()
    return found


def _all_rows(data: Any, whole: Dataset) -> dict[str, Any]:
    """Options of the data that put every row that is not for test into train, where they were drawn from it."""
    found = dict(data)
    if whole.validation is None and isinstance((data.get("split") or {}).get("validation", 0.1), float):
        found["split"] = {**(data.get("split") or {}), "validation": 0.0}
    exemplar = dict(data.get("exemplar") or {})
    if exemplar.get("source", "train") == "train":
        found["exemplar"] = {**exemplar, "inside": True}
    return found


def _held_out(found: Search, fitted: Fitted) -> dict[str, Tensor]:
    """Loss and margin of each row by a model that was not trained on it, where training kept no history of its own."""
    if bool((fitted.dynamics.table()["visits"] > 0).any()):
        return {}
    one = found.plain if fitted is found.fitted_plain else found.chosen
    chances = torch.from_numpy(np.clip(one.chances, 1e-7, 1.0)).log()  # [N, K]
    labels = found.dataset.train.labels
    loss = -chances.gather(1, labels[:, None]).squeeze(1)
    best_other = chances.scatter(1, labels[:, None], -torch.inf).amax(dim=1)
    margin = torch.where(loss.isnan(), loss, -loss - best_other)
    return {"ema_loss": loss, "ema_weighted_loss": loss * fitted.weights, "margin": margin, "mean_margin": margin}


def _table(fitted: Fitted, dataset: Dataset) -> GroupTable:
    said = predicted(shifted(logits(fitted.model, dataset.test), dataset.test.groups, fitted.shift)).cpu()
    return by_group(dataset.preprocessing.meaning, dataset.test.labels, said, dataset.test.groups)


def _written(
    folder: RunFolder,
    spec: Spec,
    found: Search,
    fitted: Fitted,
    about: dict[str, Any],
    more: dict[str, Any],
    dataset: Dataset,
) -> Result:
    whole = found.dataset
    for name in (MANIFEST, METRICS):
        (folder.path / name).unlink(missing_ok=True)
    data = {**dataset.spec, "fingerprint": dataset.fingerprint, "notes": list(dataset.notes)}
    folder.write(RUN, {"spec": spec.to_dict(), "data": data, **about, "manifest": MANIFEST_VERSION})
    folder.write(PREPROCESSING, dataset.preprocessing.to_dict())
    folder.write_model(fitted.model)
    parts = {"test": dataset.test, "exemplar": dataset.exemplar, "validation": dataset.validation}
    found_logits = {n: (part, logits(fitted.model, part)) for n, part in parts.items() if part is not None}
    kept = {n: (part, shifted(out, part.groups, fitted.shift)) for n, (part, out) in found_logits.items()}
    folder.write_logits({**kept, **held_out_parts(whole, data)})
    said = {**final_predictions(fitted.model, whole.train, fitted.shift), **_held_out(found, fitted)}
    folder.write_weights(whole, fitted.reweighter, fitted.dynamics, said)
    folder.write_predictions(dataset, final_predictions(fitted.model, dataset.test, fitted.shift))
    seconds = found.seconds if more else 0.0
    record = RunRecord(fitted.epoch, 0, "finished", fitted.epoch, seconds=seconds)
    metrics = {**_table(fitted, dataset).to_dict(), "run": record.to_dict(), **more}
    if fitted.reweighter.scores is not None:
        metrics["scores"] = score_numbers(torch.as_tensor(fitted.reweighter.scores), whole)
    folder.write(METRICS, metrics)
    folder.seal()
    return Result(spec, folder, folder.read(METRICS), reused=False)
