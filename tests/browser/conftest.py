"""Debian's chromium, headless, started by the tests that need it."""

import base64
import json
import os
import shutil
import time
from pathlib import Path

import pytest

ARTEFACTS = Path(os.environ.get("FAIRWEIGHT_ARTEFACTS", Path(__file__).parents[2] / "runs" / "browser"))


class Browser:
    """One page in one window, and what it has complained of and asked for."""

    def __init__(self, driver, downloads):
        self.driver, self.downloads = driver, downloads

    def open(self, path, *, width=1280, height=900, dark=False, mobile=False, media=""):
        """Load a page; seconds until it is ready."""
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
        return time.perf_counter() - started

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

    def find(self, selector):
        """The first element."""
        return self.driver.find_element("css selector", selector)

    def texts(self, selector):
        """The text of every element, in order."""
        return self.run(
            "return Array.from(document.querySelectorAll(arguments[0]), e => e.textContent.trim())", selector
        )

    def picture(self, name, selector=None):
        """Keep a screenshot of an element, or of the whole page, as an artefact."""
        box = self.run(
            "const e = arguments[0] ? document.querySelector(arguments[0]) : document.documentElement;"
            "const r = e.getBoundingClientRect();"
            "return [r.x + scrollX, r.y + scrollY, r.width, Math.min(r.height, 2500)]",
            selector,
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
