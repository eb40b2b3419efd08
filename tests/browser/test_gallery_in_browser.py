"""Pages that other pages show: candidates side by side, the pictures of the docs, and the gallery."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests import audits

from fairweight.metrics import compare
from fairweight.report import html
from fairweight.report.front import of_comparison
from fairweight.report.page import front_html

GALLERY = sorted((Path(__file__).parents[2] / "docs" / "gallery").glob("*.html"))


@pytest.fixture(scope="module")
def front_page(tmp_path_factory):
    """A comparison of five methods over five seeds."""
    rows = []
    ends = {"uniform": (18, 85.2), "forml": (9, 84.8), "jtt": (14, 83), "group-dro": (11, 82.6), "focal": (19, 84.9)}
    for place, (key, (gap, accuracy)) in enumerate(ends.items()):
        random = np.random.default_rng(place)
        seeds = {
            str(seed): {"tprd": gap + random.normal(0, 1.2), "accuracy": accuracy + random.normal(0, 0.25)}
            for seed in range(5)
        }
        tested = {} if key == "uniform" else {"uniform": {"tprd": {"p": 0.002 + 0.1 * (place - 1)}}}
        rows.append({"key": key, "title": key, "spec": {"method": key}, "seeds": seeds, "compared": tested})
    record = {
        "rows": rows,
        "numbers": [{"key": "tprd", "title": "TPRD", "better": "lower"}],
        "source": "people.csv",
        "protocol": "mlp, adam at 0.001, 10 epochs for every method",
        "left_out": {},
        "seeds": list(range(5)),
        "cost": {"uniform": 1.0, "forml": 2.1, "jtt": 1.9, "group-dro": 1.0, "focal": 1.0},
        "command": "fairweight compare people.csv --label income --group sex --seeds 5",
    }
    path = tmp_path_factory.mktemp("front") / "compare.html"
    path.write_text(front_html(of_comparison(record)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def judged_page(tmp_path_factory):
    """A training that helped: verdict, candidates, weights by cell."""
    before, after = (audits.table(rates, n=1_500, group_names=["Women", "Men"]) for rates in ([0.62, 0.8], [0.74, 0.8]))
    change = compare(before, after, "tprd")
    names = ("plain", "reweighing-0.5", "reweighing-1", "multipliers-2", "positives", "forml-0.3")
    gaps, accuracies = (0.181, 0.12, 0.066, 0.09, 0.15, 0.07), (0.802, 0.801, 0.799, 0.79, 0.785, 0.797)
    candidates = [
        {
            "name": name,
            "learner": "trees",
            "gap": gap,
            "accuracy": accuracy,
            "epoch": 20,
            "within_budget": accuracy > 0.795,
        }
        | {"low": gap - 0.181 - 0.04, "high": gap - 0.181 + 0.04}
        for name, gap, accuracy in zip(names, gaps, accuracies, strict=True)
    ]
    verdict = {
        "verdict": "helps",
        "chosen": "reweighing-1 (trees)",
        "criterion": "equal-opportunity",
        "gap_before": {"value": before.tprd},
        "gap_after": {"value": after.tprd, "low": 0.02, "high": 0.1},
        "gap_change": {"value": change.value, "low": change.low, "high": change.high},
        "accuracy_before": before.accuracy,
        "accuracy_after": after.accuracy,
        "accuracy_change": {"low": -0.004, "high": 0.03},
        "sentence": "Helps.",
        "judged": {
            "reference": "plain (trees)", "chosen": "reweighing-1 (trees)", "rows": 9_000, "candidates": candidates
        },
    }  # fmt: skip
    trained = audits.trained(audits.weights(400, groups=("Women", "Men"), wrong=0.08))
    whole = audits.audit(after, base=before, trained=trained)
    path = tmp_path_factory.mktemp("judged") / "report.html"
    path.write_text(html(replace(whole, metrics={**whole.metrics, **verdict})), encoding="utf-8")
    return path


def test_a_dot_gives_its_row_and_its_command(browser, front_page):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    browser.open(front_page)
    detail = browser.find(".front-detail")
    ActionChains(browser.driver).move_to_element(browser.find('.dot[data-choice="1"] .mark')).perform()
    assert "forml" in detail.text
    assert "--methods forml" in detail.find_element("css selector", "code").text
    browser.run("document.querySelector('.dot[data-choice=\"1\"]').focus()")
    browser.press(Keys.ARROW_RIGHT)
    assert "jtt" in detail.text
    assert "training time" in detail.text.lower()
    browser.assert_quiet()


@pytest.mark.slow
def test_pictures_of_the_docs_are_kept(browser, judged_page, front_page):
    """What docs/pictures shows: the same pages at two widths, in the light and in the dark."""
    for name, path in {"audit": judged_page, "compare": front_page}.items():
        for width, dark in ((1400, False), (1400, True), (400, False), (400, True)):
            browser.open(path, width=width, height=900, dark=dark, mobile=width == 400)
            height = 1250 if width == 1400 else 1500
            kept = browser.picture(f"docs_{name}_{width}_{'dark' if dark else 'light'}", height=height)
            assert kept.stat().st_size > 10_000
            assert browser.run("return document.documentElement.scrollWidth") <= width
            assert browser.barriers() == {}
    browser.assert_quiet()


@pytest.mark.slow
@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_a_page_of_the_gallery_is_quiet_small_and_open_to_everybody(browser, path):
    assert path.stat().st_size < 400_000
    browser.open(path, width=1400, height=900)
    browser.assert_quiet()
    browser.picture(f"gallery_{path.stem}", height=900)
    assert browser.barriers() == {}
