"""The site opens from a folder in a real browser: search works, nothing is fetched, nothing is cut off."""

import time

import pytest
from tests.docs.site import built

pytestmark = pytest.mark.slow
PAGES = ("index", "start", "choose", "concepts/step", "tutorials/wrong-labels", "reference/command-line")


@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_fit_the_window_and_ask_for_nothing(browser, tmp_path_factory, width, dark):
    site = built(tmp_path_factory)
    browser.open(site / "index.html")
    browser.run("localStorage.clear()")  # where another test's page has remembered its colours
    for name in PAGES:
        browser.open(site / f"{name}.html", width=width, dark=dark, mobile=width < 600)
        browser.run("localStorage.clear()")
        assert browser.run("return document.documentElement.scrollWidth") <= width, name
        assert browser.requests() == []
        assert browser.complaints() == []
        shade = browser.run("return getComputedStyle(document.body).backgroundColor")
        lightness = sum(float(part) for part in shade[shade.index("(") + 1 : -1].split(",")[:3])
        assert (lightness < 200) == dark, (name, shade)
        browser.picture(f"site_{name.replace('/', '_')}_{width}_{'dark' if dark else 'light'}")


def test_search_finds_a_page_without_a_server(browser, tmp_path_factory):
    browser.open(built(tmp_path_factory) / "index.html", width=1400)
    field = browser.find("input[data-md-component=search-query]")
    browser.run("arguments[0].focus(); arguments[0].value = ''", field)
    field.send_keys("levelling")
    begun = time.perf_counter()
    while not (found := browser.texts(".md-search-result__item a h1")) and time.perf_counter() - begun < 15:
        time.sleep(0.1)
    assert any("Levelling down" in title for title in found), found
    assert browser.requests() == []
