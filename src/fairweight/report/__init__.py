"""The audit: findings in words, plots, one self-contained page, a model card. It takes plain values and never trains.

An Audit holds what was measured: a GroupTable as to_dict() gives it, beside a baseline's where there is one, and what
training left of each sample. `apps/audit.py` fills one from a run folder or from a file of predictions; `html` makes
the page, `findings` the sentences, `model_card` the card. `page.front_html` draws candidates side by side.
"""

from fairweight.report.audit import Audit, Baseline, Finding, Trained
from fairweight.report.card import model_card
from fairweight.report.findings import findings
from fairweight.report.headline import headline
from fairweight.report.page import html

__all__ = ["Audit", "Baseline", "Finding", "Trained", "findings", "headline", "html", "model_card"]
