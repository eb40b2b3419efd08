"""Debian's chromium, headless, started by the tests that need it."""

import base64
import json
import os
import re
import shutil
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ARTEFACTS = Path(os.environ.get("FAIRWEIGHT_ARTEFACTS", ROOT / "runs" / "browser"))
AXE = ROOT / ".cache" / "browser" / "node_modules" / "axe-core" / "axe.min.js"


class Browser:
    """One page in one window, and what it has complained of and asked for."""

    def __init__(self, driver, downloads):
        self.driver, self.downloads = driver, downloads

    def open(self, path, *, width=1280, height=900, dark=False, mobile=False, media="", unfold=False):
        """Load a page; seconds until it is ready. unfold: with everything that was folded away."""
        self.driver.get("about:blank")
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.emulate(dark=dark, media=media)
        started = time.perf_counter()
        self.driver.get(Path(path).resolve().as_uri())
        has_samples = self.run("return document.getElementById('data') !== null")
        while has_samples and self.run("return document.documentElement.dataset.ready") != "yes":
            assert time.perf_counter() - started < 20, self.complaints()
            time.sleep(0.01)
        seconds = time.perf_counter() - started
        if unfold:
            self.run("for (const fold of document.querySelectorAll('details')) fold.open = true")
        return seconds

    def barriers(self):
        """What axe-core finds to keep people out: its serious and critical findings, with the elements."""
        if not AXE.is_file():
            pytest.skip("axe-core is not installed: run tests/browser/install.sh")
        self.run(AXE.read_text(encoding="utf-8"))
        found = self.driver.execute_async_script(
            "axe.run(document, {resultTypes: ['violations']}).then(arguments[0], e => arguments[0]({error: String(e)}))"
        )
        assert "error" not in found, found
        return {
            violation["id"]: [node["html"][:200] for node in violation["nodes"][:3]]
            for violation in found["violations"]
            if violation["impact"] in ("serious", "critical")
        }

    def press(self, *keys):
        """Press keys where the focus is."""
        from selenium.webdriver.common.action_chains import ActionChains

        chain = ActionChains(self.driver)
        for key in keys:
            chain.send_keys(key)
        chain.perform()

    def pages_on_paper(self):
        """How many A4 pages the page prints on."""
        size = {"paperWidth": 8.27, "paperHeight": 11.69, "marginTop": 0.4, "marginBottom": 0.4}
        paper = self.driver.execute_cdp_cmd("Page.printToPDF", {**size, "marginLeft": 0.4, "marginRight": 0.4})
        return len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(paper["data"])))

    def emulate(self, *, dark=False, media=""):
        """A screen or paper, in the light or in the dark."""
        wishes = {"prefers-color-scheme": "dark" if dark else "light", "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in wishes.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})

    def run(self, script, *values):
        """What a script returns."""
        return self.driver.execute_script(script, *values)

    def complaints(self):
        """Everything on the console."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """Addresses that the page asked for, but for its own file and what it holds."""
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return [url for url in found if not url.startswith(("file:", "data:", "blob:", "about:"))]

    def assert_quiet(self):
        """The page has complained of nothing and asked nobody for anything."""
        assert self.complaints() == []
        assert self.requests() == []

    def find(self, selector):
        """The first element."""
        return self.driver.find_element("css selector", selector)

    def texts(self, selector):
        """The text of every element, in order."""
        return self.run(
            "return Array.from(document.querySelectorAll(arguments[0]), e => e.textContent.trim())", selector
        )

    def picture(self, name, selector=None, height=2500):
        """Keep a screenshot of an element, or of the whole page, as an artefact."""
        box = self.run(
            "const e = arguments[0] ? document.querySelector(arguments[0]) : document.documentElement;"
            "const r = e.getBoundingClientRect();"
            "return [r.x + scrollX, r.y + scrollY, r.width, Math.min(r.height, arguments[1])]",
            selector,
            height,
        )
        clip = dict(zip(("x", "y", "width", "height"), box, strict=True)) | {"scale": 1}
        options = {"captureBeyondViewport": True, "clip": clip}
        found = self.driver.execute_cdp_cmd("Page.captureScreenshot", options)
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        path = ARTEFACTS / f"{name}.png"
        path.write_bytes(base64.b64decode(found["data"]))
        return path


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """The browser, or a reason why there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver_path = shutil.which("chromedriver")
    if binary is None or driver_path is None:
        pytest.skip("chromium and chromedriver are not installed: run tests/browser/install.sh")
    from selenium.webdriver.chrome.service import Service

    downloads = tmp_path_factory.mktemp("downloads")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    profile = tmp_path_factory.mktemp("profile")
    for word in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run"):
        options.add_argument(word)
    options.add_argument(f"--user-data-dir={profile}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # chromium's own refuses to be root's
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(driver_path))
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    yield Browser(driver, downloads)
    driver.quit()
