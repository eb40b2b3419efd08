"""The page that lists what lies in docs/gallery: audit pages, fronts and curves; a click opens the real page."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

HEAD = """# Gallery

Click a picture to open it, or a page to see the real audit page that `fairweight audit` or `fairweight compare` wrote.
"""
EMPTY = "`docs/gallery` has no page yet: `fairweight audit RUN` writes one."


def page(root: Path, record: str, condensed: str = "") -> str:
    """Pages first, each with its picture where there is one; then pictures alone; then fronts of the newest judgement."""
    folder = root / "docs" / "gallery"
    pages = sorted(folder.glob("*.html"))
    shown = {p.stem for p in pages}
    pictures = [p for p in sorted((*folder.glob("*.png"), *folder.glob("*.svg"))) if p.stem not in shown]
    parts = [HEAD, "## Audit pages", "\n\n".join(_card(p) for p in pages) or EMPTY]
    curves = sorted((root / "docs").glob("front_*.svg"))
    if curves:
        shown_curves = (f"### {_title(p.stem)}\n\n[![{_title(p.stem)}](../{p.name})](../{p.name})" for p in curves)
        parts += ["## Fronts of the paper's tables", "\n\n".join(shown_curves)]
    if condensed:
        about = f"{condensed}. Mean and standard error; stars are the kept rows, in brackets how many rows. [How to condense](../howto/condense.md)."
        parts += ["## Condensing", about, "[![Accuracy against TPRD after condensing](condense.svg)](condense.svg)"]
    if pictures:
        parts += ["## Pictures", "\n\n".join(f"[![{_title(p.stem)}]({p.name})]({p.name})" for p in pictures)]
    fronts = sorted((root / "records" / record).glob("front_*.png"))
    if fronts:
        parts += [
            "## Fronts: accuracy against gap",
            "One picture per data set of the [judgement record](../choose.md#measured-side-by-side): every method's mean and "
            "standard error; the star is `fairweight train`; hollow marks need the group at prediction.",
            "\n\n".join(f"### {_title(p.stem)}\n\n[![{_title(p.stem)}]({p.name})]({p.name})" for p in fronts),
        ]
    return "\n\n".join(parts) + "\n"


def _card(path: Path) -> str:
    title = re.search(r"<title>(.*?)</title>", path.read_text(encoding="utf-8")[:20_000], re.DOTALL)
    words = title.group(1).strip() if title else escape(_title(path.stem))
    picture = next((p for p in (path.with_suffix(".png"), path.with_suffix(".svg")) if p.is_file()), None)
    shown = f"\n\n[![{words}]({picture.name})]({path.name})" if picture else ""
    return f"### {words}\n\n[Open the page]({path.name}){shown}"


def _title(stem: str) -> str:
    return stem.replace("front_", "Front of ").replace("_", " ").replace("-", " ")
