"""What mkdocs calls while it builds the site: pages made from the code and from records, and pages of the root."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
# Pages that lie at the root of the repository, and where the site has them.
ROOT_PAGES = {
    "ARCHITECTURE.md": "project/architecture.md",
    "SECURITY.md": "project/security.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
}
PICTURES = "front_*.png"  # of the record that the page on choosing reads


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that nobody writes by hand."""
    sys.path[:0] = [
        str(ROOT / "src"),
        str(Path(__file__).parent),
    ]  # here: mkdocs puts the path back after loading hooks
    import api
    import choosing
    import command_line
    import gallery
    import run_folder

    made = {
        "reference/api.md": api.page(),
        "reference/command-line.md": command_line.page(),
        "reference/run-folder.md": run_folder.page(),
        "gallery/index.md": gallery.page(ROOT, choosing.judgement(ROOT)["folder"]),
        **{target: root_page(name, target) for name, target in ROOT_PAGES.items()},
    }
    for uri, text in made.items():
        files.append(File.generated(config, uri, content=text))
    for picture in sorted((ROOT / "records" / choosing.judgement(ROOT)["folder"]).glob(PICTURES)):
        files.append(File.generated(config, f"gallery/{picture.name}", abs_src_path=str(picture)))
    choosing.check(ROOT)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Fill the places that are made from records, and lead links out of docs/ to where the site has the page."""
    import choosing

    markdown = choosing.filled(markdown, ROOT)
    depth = page.file.src_uri.count("/")
    up = "../" * depth

    def led(match: re.Match[str]) -> str:
        name, anchor = match.group(1), match.group(2) or ""
        if name in ROOT_PAGES:
            return f"]({up}{ROOT_PAGES[name]}{anchor})"
        return f"]({up}index.md)" if name == "README.md" else match.group(0)

    return re.sub(r"\]\((?:\.\./)+([A-Z]+\.md)(#[\w-]+)?\)", led, markdown)


def root_page(name: str, target: str) -> str:
    """A page of the root with its links as the site has them; what the site lacks is named, not linked."""
    up = "../" * target.count("/")

    def led(match: re.Match[str]) -> str:
        words, link = match.group(1), match.group(2)
        path, mark, anchor = link.partition("#")
        if path.startswith("docs/"):
            return f"[{words}]({up}{path.removeprefix('docs/')}{mark}{anchor})"
        if path in ROOT_PAGES:
            return f"[{words}]({up}{ROOT_PAGES[path]}{mark}{anchor})"
        return match.group(0) if not path else words

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^):]+)\)", led, (ROOT / name).read_text(encoding="utf-8"))
