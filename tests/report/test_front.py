import json
import re
from dataclasses import replace
from html import unescape

import pytest
from tests import audits

from fairweight.report import html
from fairweight.report.front import Dot, Front, drawing, of_comparison, of_search, on_front, training_command
from fairweight.report.page import front_html

NASTY = "<script>alert(1)</script>"


def record(seeds=3):
    """What `compare` returns, with three methods: b is beaten by a in both."""
    rows = [
        {"key": key, "title": title, "spec": {"method": method}, "seeds": {str(s): one(s) for s in range(seeds)}}
        for key, title, method, one in (
            ("uniform", "uniform", "uniform", lambda s: {"tprd": 10.0 + s, "accuracy": 80.0, "seconds": 1.0}),
            ("a", NASTY, "a", lambda s: {"tprd": 5.0, "accuracy": 79.0 + s, "seconds": 1.0}),
            ("b", "b", "b", lambda s: {"tprd": 12.0, "accuracy": 70.0, "seconds": 1.0}),
        )
    ]
    return {
        "rows": rows,
        "numbers": [{"key": "tprd", "title": "TPRD", "better": "lower"}],
        "source": "people.csv",
        "protocol": "an mlp",
        "left_out": {"jtt": "it needs groups."},
        "seeds": list(range(seeds)),
        "cost": {"a": 2.5},
        "command": "fairweight compare people.csv --methods all --label pay",
    }


def test_the_front_is_what_no_other_beats_in_both():
    dots = [Dot("a", 1, 70), Dot("b", 2, 80), Dot("c", 3, 75), Dot("d", 0.5, 60), Dot("e", 2, 79)]
    assert [dot.title for dot in on_front(dots)] == ["d", "a", "b"]


def test_a_comparison_has_means_standard_errors_seeds_and_commands():
    front = of_comparison(record())
    plain, first, _ = front.dots
    assert (plain.gap, plain.accuracy, plain.plain) == (11.0, 80.0, True)
    assert plain.gap_span == pytest.approx((11 - 1 / 3**0.5, 11 + 1 / 3**0.5))
    assert list(first.seeds) == [(5.0, 79.0), (5.0, 80.0), (5.0, 81.0)]
    assert first.command == "fairweight compare people.csv --label pay --methods a"
    assert first.row["training time"] == "× 2.5 of plain"
    assert NASTY in front.sentence
    assert of_comparison(record(1)).dots[0].gap_span is None
    assert "One seed" in of_comparison(record(1)).spread
    assert "One seed: it could be chance" in of_comparison(record(1)).sentence
    tested = record()
    for p, says in ((0.4, "could be chance (p = 0.4)"), (0.001, "is beyond chance (p = 0.001)")):
        tested["rows"][1]["compared"] = {"uniform": {"tprd": {"p": p}}}
        assert says in of_comparison(tested).sentence


def test_dots_stand_where_their_numbers_say():
    front = of_comparison(record())
    axes = drawing(front)["axes"]
    for dot in front.dots:
        for gap, accuracy in ((dot.gap, dot.accuracy), *dot.seeds):
            assert axes.x_ticks[0] <= gap <= axes.x_ticks[-1]
            assert axes.y_ticks[0] <= accuracy <= axes.y_ticks[-1]
        place = f'class="mark" cx="{axes.x(dot.gap)}" cy="{axes.y(dot.accuracy)}"'
        assert (place in front_html(front)) is not dot.plain  # plain training is a square
    assert drawing(Front("t", [Dot("one", 1, 50)], "gap", "rows", ""))["best"]


def test_the_page_is_self_contained_and_names_are_text():
    page = front_html(of_comparison(record()))
    assert NASTY not in page
    assert NASTY in unescape(page)
    assert "Content-Security-Policy" in page
    assert page.count('class="dot') == 3
    assert "Not run: jtt" in page
    assert not re.search(r"\son\w+=", page.split("<script", 1)[0])
    assert "No candidate has a gap" in front_html(Front("t", [], "gap", "rows", ""))


def test_an_audit_of_a_search_shows_its_candidates():
    candidates = [
        {"name": "plain", "learner": "trees", "gap": 0.3, "accuracy": 0.8, "epoch": 3, "low": 0.0, "high": 0.0},
        {"name": "reweighing-0.5", "learner": "mlp", "gap": 0.2, "accuracy": 0.79, "low": -0.2, "high": -0.05},
    ]
    judged = {"candidates": candidates, "reference": "plain (trees)", "chosen": "reweighing-0.5 (mlp)", "rows": 900}
    made = audits.audit({**audits.table([0.6, 0.9]).to_dict(), "judged": json.loads(json.dumps(judged))})
    front = of_search(made)
    assert [dot.chosen for dot in front.dots] == [False, True]
    assert front.dots[1].gap_span == pytest.approx((10.0, 25.0))
    assert front.dots[1].command.endswith("--label income --group sex --learner mlp --candidates reweighing")
    told = replace(made, facts={**made.facts, "command": "fairweight train p.csv --delimiter ';' --label income"})
    assert of_search(told).dots[0].command == "fairweight train p.csv --delimiter ';' --label income --learner trees"
    assert front.dots[1].row == {"kept epoch": "", "within the budget": "yes", "gap smaller beyond chance": "yes"}
    said = {**made.facts, "command": "fairweight train p.csv --learner trees --candidates=forml"}
    assert of_search(replace(made, facts=said)).dots[1].command == (
        "fairweight train p.csv --learner mlp --candidates reweighing"
    )
    assert front.sentence == "reweighing-0.5 (mlp) was chosen instead of plain (trees)."
    kept = judged | {"chosen": "plain (trees)", "why": "Plain training keeps the bound of 40 points"}
    assert of_search(audits.audit({**made.metrics, "judged": kept})).sentence == (
        "Plain training keeps the bound of 40 points, so plain (trees) was kept."
    )
    moved = judged | {"candidates": [candidates[0], candidates[1] | {"name": "thresholds-0.5"}]}
    assert of_search(audits.audit({**made.metrics, "judged": moved})).dots[1].command.endswith("--learner mlp")
    assert 'id="front"' in html(made)
    assert of_search(audits.audit()) is None
    pair = [
        one | {"learner": "network", "name": name} for one, name in zip(candidates, ("plain", "forml"), strict=True)
    ]
    images = {"candidates": pair, "reference": "plain", "chosen": "forml", "rows": 90}
    front = of_search(audits.audit({**audits.table([0.6, 0.9]).to_dict(), "judged": images}))
    assert [(dot.title, dot.plain, dot.chosen) for dot in front.dots] == [
        ("plain", True, False),
        ("forml", False, True),
    ]
    assert front.dots[1].command == "fairweight train people.csv --label income --group sex"


def test_the_command_of_a_run_keeps_its_flags_and_loses_its_places():
    told = (
        "fairweight train /data/people.csv --epochs 5 --out runs/x --data-dir=/data --fresh --exemplars /data/few.csv"
    )
    words = training_command(told, "/data/people.csv", "people.csv")
    assert " ".join(words) == "fairweight train people.csv --epochs 5 --exemplars few.csv"
    assert training_command("python mine.py", "people.csv", "people.csv") == []
