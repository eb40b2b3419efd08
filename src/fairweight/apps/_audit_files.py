"""An audit written out: the page, the model card, and for predictions their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairweight.apps.audit import IMAGES, audit_of, source_name
from fairweight.apps.audit_predictions import audit_predictions
from fairweight.report import Audit, Finding, findings, html, model_card
from fairweight.runs.folder import METRICS, RunFolder
from fairweight.training.state import write_atomically

PAGE, CARD = "report.html", "MODEL_CARD.md"


@dataclass(frozen=True)
class Audited:
    """What was found, and where it is written."""

    audit: Audit
    findings: list[Finding]
    page: Path
    card: Path | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        trained = self.audit.trained
        truth = None if trained is None or trained.detection is None else trained.detection.to_dict()
        return {
            "page": str(self.page),
            "model_card": None if self.card is None else str(self.card),
            "findings": [finding.to_dict() for finding in self.findings],
            "baseline": None if self.audit.baseline is None else self.audit.baseline.name,
            "differences": {} if self.audit.baseline is None else dict(self.audit.baseline.differences),
            "wrong_labels": truth,
            "missing": list(self.audit.missing),
        }


def audit_run(
    run: str | Path,
    out: str | Path,
    *,
    baseline: str | Path | None = None,
    data_dir: str | Path | None = None,
    images: int = IMAGES,
) -> Audited:
    """Audit a finished run, and write its page and its model card."""
    audit = audit_of(run, baseline=baseline, data_dir=data_dir, images=images)
    spec = RunFolder(run).read_spec()
    trained = audit.trained
    assert trained is not None
    name = f"{trained.method} on {source_name(spec)}"
    page, card = html(audit), model_card(audit, data=source_name(spec), name=name)
    folder = Path(out)
    RunFolder(folder).make()
    write_atomically(folder / PAGE, page.encode())
    write_atomically(folder / CARD, card.encode())
    return Audited(audit, findings(audit), folder / PAGE, folder / CARD)


def audit_file(
    file: str | Path,
    out: str | Path,
    *,
    label: str | None = None,
    prediction: str | None = None,
    group: str | None = None,
    positive: str | None = None,
    threshold: float | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    seed: int = 0,
) -> Audited:
    """Audit a file of predictions, and write its page and its numbers."""
    audit = audit_predictions(
        file,
        label=label,
        prediction=prediction,
        group=group,
        positive=positive,
        threshold=threshold,
        delimiter=delimiter,
        encoding=encoding,
        seed=seed,
    )
    page = html(audit)
    folder = Path(out)
    RunFolder(folder).make()
    write_atomically(folder / PAGE, page.encode())
    RunFolder(folder).write(METRICS, dict(audit.metrics))
    return Audited(audit, findings(audit), folder / PAGE, None)
