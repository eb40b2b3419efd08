"""The audit: findings in words, plots, one self-contained page, a model card. It takes plain values and never trains.

    page = html(audit)                   one file that opens offline; no request leaves it; rows=False: no single rows
    page = page.front_html(front)        the same for candidates side by side: compare, trade-off
    top = headline(audit)                the verdict, three tiles, what to do next
    card = model_card(audit)             Markdown with a Hugging Face header
    found = findings(audit)              sentences, each with its numbers
    ranked = suspects.suspicion(weights) labels that are probably wrong

An Audit holds what was measured: a GroupTable as to_dict() gives it, beside a baseline's where there is one, and what
training left of each sample where there was training. `apps/audit.py` fills one from a run folder or from a
file of predictions.
"""

from fairweight.report.audit import Audit, Baseline, Finding, Trained
from fairweight.report.card import model_card
from fairweight.report.findings import findings
from fairweight.report.headline import headline
from fairweight.report.page import html

__all__ = ["Audit", "Baseline", "Finding", "Trained", "findings", "headline", "html", "model_card"]
