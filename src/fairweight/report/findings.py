"""What was found, as sentences, each with its numbers; the most pressing first."""

from __future__ import annotations

from fairweight.report.audit import Audit
from fairweight.report.change_findings import beside_baseline
from fairweight.report.finding import LEVELS, Finding
from fairweight.report.group_findings import about_gaps, about_groups, about_the_whole
from fairweight.report.weight_findings import about_training

_MAKERS = (about_gaps, beside_baseline, about_groups, about_training, about_the_whole)


def findings(audit: Audit) -> list[Finding]:
    """Everything that the numbers say in words."""
    found = [finding for maker in _MAKERS for finding in maker(audit)]
    return sorted(found, key=lambda finding: LEVELS.index(finding.level))  # stable: makers in order


__all__ = ["Finding", "findings"]
