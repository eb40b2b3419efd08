"""The site builds strictly, opens from a folder, and names all that the code has."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
import typer
from tests.docs.site import built

import fairweight as fw
from fairweight import catalog
from fairweight.cli import app
from fairweight.metrics.criterion import CRITERIA
from fairweight.runs import schema, sealed

pytestmark = pytest.mark.slow


class Page(HTMLParser):
    """What a page loads, links to, and can be linked at."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.words: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))
        self.text = " ".join(self.words)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        if tag in ("script", "img", "iframe", "source", "embed", "object") and (found.get("src") or found.get("data")):
            self.loads.append(found.get("src") or found["data"])
        if tag == "link" and found.get("href") and found.get("rel") != "canonical":
            self.loads.append(found["href"])
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return built(tmp_path_factory)


def test_nothing_is_loaded_from_elsewhere_and_every_link_leads_somewhere(site):
    own = [path for path in site.rglob("*.html") if "gallery" not in path.parts or path.name == "index.html"]
    pages = {path: Page(path) for path in own}  # audit pages in the gallery are tested where they are made
    assert len(pages) > 30
    for path, page in pages.items():
        for address in page.loads:
            assert not re.match(r"(?:https?:)?//", address), f"{path.name} loads {address}"
            if not address.startswith("data:") and path.name != "404.html":
                assert (path.parent / unquote(re.split("[?#]", address)[0])).is_file(), f"{path.name} lacks {address}"
        for address in page.links:
            if path.name == "404.html" or re.match(r"[a-z]+:", address):
                continue
            where, _, anchor = address.partition("#")
            target = (path.parent / unquote(where)).resolve() if where else path
            assert target.exists(), f"{path.name} links to {address}"
            if anchor and target in pages and not anchor.startswith("__"):
                assert unquote(anchor) in pages[target].anchors, f"{path.name} links to {address}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//|@import", sheet.read_text(encoding="utf-8")), sheet


def test_the_reference_has_every_name_flag_and_field(site):
    api, commands, files = (Page(site / "reference" / f"{n}.html") for n in ("api", "command-line", "run-folder"))
    anchors = {anchor.rpartition(".")[2] for anchor in api.anchors}
    assert {name for name in fw.__all__ if name in fw._HOME} <= anchors
    for name, verb in vars(typer.main.get_command(app))["commands"].items():
        assert name in commands.anchors
        for entry in verb.params:
            assert all(flag in commands.text for flag in entry.opts if flag.startswith("--")), (name, entry.name)
    for name in (*sealed.FILES, *schema.FORMS):
        assert name in files.text
    assert all(key in files.text for key in ("verdict", "gap_before", "gap_after", "accuracy_after", "kept_epoch"))
    for form in (schema.RUN, schema.METRICS, schema.MANIFEST):
        assert all(key.removesuffix("?") in files.text for key in form)


def test_pages_made_from_the_code_name_everything(site):
    choose, criteria = Page(site / "choose.html"), Page(site / "howto" / "criterion.html")
    assert all(name in choose.text for name in catalog.names("methods"))
    assert all(name in criteria.text for name in CRITERIA)
    assert all(package in choose.text for package in ("fairlearn", "AIF360", "OxonFair", "fairret", "cleanlab"))
    assert not re.search(r"<!-- made:", "".join(p.read_text(encoding="utf-8") for p in site.rglob("*.html")))
