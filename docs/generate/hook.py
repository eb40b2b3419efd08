"""What mkdocs calls while it builds the site: pages made from the code and from records, and pages of the root."""

from __future__ import annotations

import os
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


# Pages that may or may not be there, and the tab and title under which they are then found.
OPTIONAL = {
    "trainers.md": ("Tutorials", "Hugging Face, Lightning, Accelerate"),
    "scaling.md": ("How to", "Several GPUs in detail"),
}


def on_config(config: Any) -> Any:
    """Add pages that the navigation does not name: each must be reachable."""
    sections = {title: entries for entry in config.nav for title, entries in entry.items() if isinstance(entries, list)}
    named = set(re.findall(r"[\w/-]+\.md", str(config.nav)))
    folder = Path(config.docs_dir)
    linked = re.findall(r"\]\((results/[\w-]+\.md)\)", (folder / "results.md").read_text(encoding="utf-8"))
    table_pages = sorted(set(linked), key=linked[::-1].index, reverse=True)  # in the order of the list of all pages
    named |= set(table_pages)
    for path in sorted(folder.rglob("*.md")):
        uri = path.relative_to(folder).as_posix()
        if uri not in named and not uri.startswith(("generate/", "gallery/")):
            section, title = OPTIONAL.get(uri, ("Project", ""))
            sections[section].append({title: uri} if title else uri)
    tables = next(k for k, entry in enumerate(sections["Results"]) if "results.md" in str(entry))
    sections["Results"][tables] = {"Every table": ["results.md", *table_pages]}
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that nobody writes by hand."""
    sys.path[:0] = [
        str(ROOT / "src"),
        str(Path(__file__).parent),
    ]  # here: mkdocs puts the path back after loading hooks
    import api
    import choosing
    import command_line
    import condensed
    import gallery
    import run_folder

    curve = condensed.picture(ROOT)
    made: dict[str, str | bytes] = {
        "reference/api.md": api.page(),
        "reference/command-line.md": command_line.page(),
        "reference/run-folder.md": run_folder.page(),
        "gallery/index.md": gallery.page(ROOT, choosing.judgement(ROOT)["folder"], curve[0] if curve else ""),
        **({"gallery/condense.svg": curve[1]} if curve else {}),
        **{target: root_page(name, target) for name, target in ROOT_PAGES.items()},
    }
    for uri, text in made.items():
        files.append(File.generated(config, uri, content=text))
    for picture in sorted((ROOT / "records" / choosing.judgement(ROOT)["folder"]).glob(PICTURES)):
        files.append(File.generated(config, f"gallery/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Fill the places that are made from records, and lead links out of docs/ to where the site has the page."""
    import choosing

    markdown = re.sub(r"<!-- where (\S+): (.+?) -->", _where, choosing.filled(markdown, ROOT))
    return _led(markdown, page.file.src_uri, Path("docs") / page.file.src_uri) + _explained(page.file.src_uri)


def _explained(uri: str) -> str:
    """Abbreviations of the glossary, shown where a reader points at one."""
    if uri in ("glossary.md", "reference/api.md"):
        return ""
    rows = re.findall(
        r"^\| (\S+) \| (.+?) \|$", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    short = [(word, meaning) for word, meaning in rows if re.fullmatch(r"[A-Z]{2,}|maxFNR", word)]
    return "\n\n" + "\n".join(f"*[{word}]: {meaning}" for word, meaning in short) + "\n"


def _where(match: re.Match[str]) -> str:
    """The words where a page or picture of docs/ is there, else nothing."""
    return match.group(2) if (ROOT / "docs" / match.group(1)).is_file() else ""


def root_page(name: str, target: str) -> str:
    """A page of the root with its links as the site has them."""
    return _led((ROOT / name).read_text(encoding="utf-8"), target, Path(name))


def _led(markdown: str, uri: str, path: Path) -> str:
    """Links to files of the repository, as the page at this address must write them; words alone for what the site lacks."""
    up = "../" * uri.count("/")

    def led(match: re.Match[str]) -> str:
        words, link = match.group(1), match.group(2)
        where, mark, anchor = link.partition("#")
        if not where:
            return match.group(0)
        found = os.path.normpath(path.parent / where)
        if found.startswith("docs" + os.sep):
            return f"[{words}]({up}{found.removeprefix('docs' + os.sep)}{mark}{anchor})"
        if found in ROOT_PAGES or found == "README.md":
            return f"[{words}]({up}{ROOT_PAGES.get(found, 'index.md')}{mark}{anchor})"
        return words

    return re.sub(r"\[([^\]\[]+)\]\(([^)\s:]+)\)", led, markdown)
