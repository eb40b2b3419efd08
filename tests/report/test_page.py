import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from tests import audits

from fairweight.metrics import group_table
from fairweight.report import html
from fairweight.report.page import inside_script
from fairweight.report.samples import paths
from fairweight.report.table_rows import group_rates

NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


class Outline(HTMLParser):
    """Tags with their attributes, the text of scripts, and all other text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.scripts, self.words, self._in = [], [], [], None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._in = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._in = None

    def handle_data(self, text):
        if self._in == "script":
            self.scripts[-1] += text
        elif self._in != "style":
            self.words.append(text)


def whole(**more):
    frame = audits.weights(120, wrong=0.1)
    columns = pd.DataFrame({"age": np.arange(120), "town": ["A, B" if k % 2 else 'say "hi"' for k in range(120)]})
    return audits.audit(base=audits.table([0.5, 0.9]), trained=audits.trained(frame, columns=columns, **more))


def data_of(page):
    return json.loads(Outline(page).scripts[0])


def texts(column):
    return [column["names"][place] for place in column["values"]]


@pytest.fixture(scope="module")
def page():
    return html(whole())


@pytest.mark.slow
def test_nothing_is_fetched_from_anywhere():
    page = html(whole(images=5))
    for tag, attributes in Outline(page).tags:
        for name in ("src", "href", "action", "data", "poster", "srcset", "xlink:href"):
            value = attributes.get(name) or ""
            assert value.startswith(("data:", "#")) or value == "", (tag, name, value)
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_the_policy_lets_its_own_script_run_and_nothing_else(page):
    outline = Outline(page)
    policy = next(a["content"] for tag, a in outline.tags if a.get("http-equiv") == "Content-Security-Policy")
    digest = base64.b64encode(hashlib.sha256(outline.scripts[1].encode()).digest()).decode()
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy
    assert "unsafe-eval" not in policy
    assert not re.search(r"\son\w+=", page.split("<script", 1)[0])  # no handler in the markup


def test_names_from_the_data_are_text_everywhere():
    made = audits.renamed(whole(images=3), "F", NASTY)
    made = replace(made, title=NASTY, notes=(f"Warning: {NASTY}",), facts={NASTY: NASTY}, missing=(NASTY,))
    outline = Outline(html(made))
    assert [tag for tag, _ in outline.tags].count("script") == 2
    assert not [a for tag, a in outline.tags if tag == "img" and a.get("src") == "x"]
    assert any(NASTY in words for words in outline.words)
    names = next(column["names"] for column in data_of(html(made))["columns"] if column["name"] == "group")
    assert NASTY in names


@pytest.mark.parametrize("text", ["</script>", "<!--", "\u2028", "]]>", "&amp;"])
def test_json_inside_a_script_keeps_its_meaning_and_cannot_end_it(text):
    found = inside_script({"name": text})
    assert not set(found) & set("<>&\u2028")
    assert json.loads(found)["name"] == text


def test_the_script_gets_every_sample_as_it_was_measured(page):
    trained, data = whole().trained, data_of(page)
    frame = trained.weights
    columns = {column["name"]: column for column in data["columns"]}
    assert data["n"] == len(frame)
    for name in ("score", "weight", "ema_loss", "mean_margin", "probability"):
        np.testing.assert_allclose(columns[name]["values"], frame[name], rtol=1e-6)
    for name in ("row", "forgetting_events", "visits", "pushed_up"):
        assert columns[name]["values"] == frame[name].tolist(), name
    for name in ("label", "group", "predicted", "true_label"):
        assert texts(columns[name]) == frame[name].astype(str).tolist()
    assert sorted(columns["rank"]["values"]) == list(range(1, len(frame) + 1))
    source = {column["name"]: column for column in data["source"]}
    assert texts(source["town"]) == trained.columns["town"].tolist()
    assert source["age"]["names"][:3] == ["0", "1", "2"]
    assert data["paths"] == list(paths(trained).values())


def test_a_path_sketch_leaves_the_others_blank_and_what_is_no_number_is_none():
    made, some = whole(), np.arange(0, 120, 10)
    path = {"score_path": made.trained.score_path[:, some], "weight_path": made.trained.weight_path[:, some]}
    frame = made.trained.weights.assign(score=[np.nan, np.inf, *made.trained.weights["score"][2:]])
    data = data_of(html(replace(made, trained=replace(made.trained, weights=frame, path_rows=some, **path))))
    assert data["paths"][1] == ""
    assert data["paths"][0] != ""
    score = next(column for column in data["columns"] if column["name"] == "score")
    assert score["values"][:2] == [None, None]


def test_a_page_carries_a_bounded_number_of_samples_and_says_so():
    page = html(whole(), most_samples=30)
    assert data_of(page)["n"] == 30
    assert data_of(page)["of"] == 120
    assert "carries 30 of 120 samples" in page


def test_words_come_first_then_tables_with_the_baseline_beside(page):
    order = [page.index(f'<section id="{name}"') for name in ("found", "groups", "weight", "scores", "extremes")]
    order += [page.index(f'<section id="{name}"') for name in ("suspects", "samples", "about")]
    assert order == sorted(order)
    by_group = re.search(r'<table id="by-group">(.*?)</table>', page, re.DOTALL)
    assert by_group is not None
    assert "Uniform 50.0 %" in by_group[1]
    assert "<b>70.0 %</b>" in by_group[1]
    summary = re.search(r'<table id="summary">(.*?)</table>', page, re.DOTALL)
    assert summary is not None
    row = next(line for line in summary[1].split("<tr>") if "TPRD" in line)
    cells = [re.sub("<.*?>", "", cell) for cell in row.split("</td>")]
    assert cells[1] == "40.0 %"
    assert re.fullmatch(r"−20\.0 \[−\d+\.\d, −\d+\.\d\]", cells[2]), cells[2]


def test_long_names_and_long_numbers_are_kept_short_where_people_read_them_and_whole_in_the_data():
    frame = audits.weights(40)
    name = "x" * 400
    columns = pd.DataFrame({"town": [name] * 40, "income": [0.1234567890123] * 40})
    page = html(audits.audit(trained=audits.trained(frame, columns=columns)))
    cards = page[page.index('<section id="extremes"') : page.index('<section id="samples"')]
    assert name not in cards
    assert "x" * 59 + "…" in cards
    assert "<dd>0.12346</dd>" in cards
    assert name in page
    assert "0.1234567890123" in page


def test_without_scores_the_page_says_what_is_missing():
    made = audits.trained(audits.weights(scores=False), method="Uniform")
    page = html(audits.audit(trained=made))
    assert "Uniform learns no score per sample" in page
    assert "Uniform gives every sample the same weight" in page
    names = [column["name"] for column in data_of(page)["columns"]]
    assert "score" not in names
    assert "weight" not in names
    assert "mean_margin" in names


def test_predictions_alone_make_the_same_page_without_the_weights():
    page = html(audits.audit())
    outline = Outline(page)
    ids = {attributes.get("id") for _, attributes in outline.tags}
    assert {"found", "groups", "about", "by-group", "summary"} <= ids
    assert not ids & {"weight", "scores", "extremes", "suspects", "samples", "data"}
    assert ">1 note<" in page


def test_words_of_sections_that_are_left_out_are_not_explained(page):
    assert "<dt>margin</dt>" in page
    assert "<dt>margin</dt>" not in html(audits.audit())


def test_without_rows_no_sample_is_in_the_page_and_the_rest_is():
    made = whole(images=5)
    page = html(made, rows=False)
    outline = Outline(page)
    ids = {attributes.get("id") for _, attributes in outline.tags}
    assert {"found", "groups", "weight", "suspects"} <= ids
    assert not ids & {"samples", "data"}
    assert not [tag for tag, attributes in outline.tags if tag == "article" or "data-row" in attributes]
    assert not re.search(r"data:image|row \d", page)
    assert "B, say" not in page
    assert len(page) < len(html(made))


def test_rows_are_folded_until_somebody_asks(page):
    folded = re.findall(r"<details[^>]*rows[^>]*>", page)
    assert len(folded) == 3
    assert not [tag for tag in folded if "open" in tag]


def test_the_chart_has_each_rate_of_each_group_where_it_belongs():
    made = audits.audit(audits.table([0.5, 0.9]), base=audits.table([0.6, 0.8]))
    found = group_rates(made)
    assert [metric["key"] for metric in found["charted"]] == ["tpr", "fpr", "selection_rate"]
    first = found["charted"][0]
    low, high = first["ends"]
    for group, bar in zip(made.metrics["groups"], first["rates"], strict=True):
        assert bar["at"] == group["tpr"]
        assert low <= bar["low"] <= bar["at"] <= bar["high"] <= high
    assert [bar["before"] for bar in first["rates"]] == pytest.approx([0.6, 0.8])
    page = html(made)
    for bar in first["rates"]:
        assert f'class="now" style="--at: {100 * (bar["at"] - low) / (high - low):.2f}%"' in page
    assert first["gap"] == "gap 40.0 points"


def test_of_many_groups_the_chart_has_both_ends_and_none_that_is_unknown():
    many = group_rates(audits.audit(audits.table([k / 100 for k in range(40)], n=200)))
    assert many["shown"] == [*range(20), *range(35, 40)]
    assert many["left_out"] == "The 20 lowest and the 5 highest of 40."
    empty = group_rates(audits.audit(audits.table([0.5, 0.6, 0.7], n=[100, 100, 0])))
    assert (empty["shown"], empty["left_out"]) == ([0, 1], "1 more have too few samples.")


def test_without_positives_the_chart_still_has_the_other_rates():
    found = group_rates(audits.audit(audits.table([0.0, 0.0], positives=0.0)))
    assert (found["shown"], found["left_out"]) == ([0, 1], "")
    assert found["charted"][1]["rates"][0]["at"] == 0.1


def test_many_labels_in_groups_have_a_grid():
    random = np.random.default_rng(0)
    labels = random.integers(0, 12, 600)
    table = group_table(labels, random.permutation(labels), random.integers(0, 3, 600), group_names=["a", "b", "c"])
    grid = re.search(r'<table id="by-cell">(.*?)</table>', html(audits.audit(table)), re.DOTALL)
    assert grid is not None
    assert grid[1].count("<tr>") == 13
    assert '<th scope="col" class="num">c</th>' in grid[1]


def test_the_same_audit_makes_the_same_page(page):
    assert html(whole()) == page


def test_control_characters_and_marks_that_turn_text_round_are_spelled():
    group = "F\u202egnp\x1b[201~"
    found = whole()
    page = html(replace(found, facts={**found.facts, "group": group, "command": f"fairweight train x --group {group}"}))
    assert not re.search("[\x00-\x08\x0e-\x1f\u202a-\u202e\u2066-\u2069]", page)
    assert "F\\u202egnp\\x1b[201~" in page
