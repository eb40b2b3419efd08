"""How a second training on all rows is compared."""

import json

import pytest


def rows(script):
    """Two seeds: a refit that ends 1 and 3 points under Uniform on all rows."""
    titles = script("class_refit").TITLES
    found = []
    for seed, lost in ((0, 1.0), (1, 3.0)):
        numbers = {title: {"accuracy": 60.0, "tprd": 40.0, "recall_std": 10.0, "worst": 30.0} for title in titles}
        numbers["refit, share 1"] = {"accuracy": 60.0 - lost, "tprd": 30.0, "recall_std": 8.0, "worst": 35.0}
        found.append({"seed": seed, "found": numbers})
    return found


def test_differences_are_by_seed_and_from_both_uniforms(script):
    made = {row["name"]: row for row in script("class_refit").compared(rows(script))}
    beside = made["refit, share 1"]["beside"]
    assert beside["uniform, all rows"]["accuracy"] == {"mean": -2.0, "standard_error": pytest.approx(1.0), "n": 2}
    assert beside["uniform"]["tprd"]["mean"] == -10.0
    assert "uniform, all rows" not in made["uniform, all rows"]["beside"]


def test_the_section_says_what_the_record_has(script, tmp_path):
    page = script("class_refit_page")
    assert page.section(tmp_path) == []
    record = {"rows": script("class_refit").compared(rows(script)), "device": "CPU", "commits": ["abc"]}
    (tmp_path / "2026-01-01_class_refit").mkdir()
    (tmp_path / "2026-01-01_class_refit" / "record.json").write_text(json.dumps(record))
    text = "\n".join(page.section(tmp_path))
    assert "25 % less TPRD (-10.00 ± 0.00) and 20 % less spread" in text
    assert "accuracy -2.00 ± 1.00 points" in text
    assert "| refit, share 1 | 20,000 | 58.00 ± 1.00 | -2.00 ± 1.00 | 8.00 ± 0.00 | 30.00 ± 0.00 |" in text
