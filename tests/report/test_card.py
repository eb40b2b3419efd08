import json
import re

from tests import audits

from fairweight.metrics import group_table
from fairweight.report import model_card


def header(card):
    lines = re.match(r"---\n(.*?)\n---\n", card, re.DOTALL)
    assert lines is not None
    return {key: json.loads(value) for key, value in (line.split(": ", 1) for line in lines[1].split("\n"))}


def card(**more):
    made = audits.audit(trained=audits.trained(audits.weights(wrong=0.1)), notes=("Rows: 10 train.",), **more)
    return model_card(made, data="people.csv", name="FORML on people.csv")


def test_the_header_is_what_the_hub_reads_and_holds_what_was_measured():
    found = header(card())
    assert found["library_name"] == "fairweight"
    (entry,) = found["model-index"]
    (result,) = entry["results"]
    values = {metric["type"]: metric["value"] for metric in result["metrics"]}
    table = audits.table([0.7, 0.9])
    assert values["accuracy"] == table.accuracy
    assert values["tprd"] == table.tprd
    assert result["dataset"]["name"] == "people.csv"


def test_it_has_data_groups_metrics_method_findings_and_limits():
    text = card()
    for part in ("## Data", "## Metrics", "## What the audit found", "## Limits", "| method | FORML |"):
        assert part in text
    assert "| g0 | 400 | 80.0 % [" in text
    assert "Gaps were measured between groups of sex" in text


def test_only_what_was_measured_is_said():
    table = group_table([0, 1, 1, 0, 1, 1], [0, 1, 0, 0, 1, 1])
    text = model_card(audits.audit(table))
    assert "No group was given" in text
    assert "nan" not in text.lower()
    assert "None" not in text


def test_the_header_is_yaml_whatever_a_name_holds():
    name = 'rocket \U0001f680, Zürich: "q" \x7f\x85\x9f\u2028\ufeff\t# {[ % @ &'
    text = model_card(audits.audit(audits.table([0.7, 0.9])), name=name, data=name)
    assert header(text)["model-index"][0]["name"] == name
    head = text.split("---\n")[1]
    assert "\\ud83d" not in head  # half a character is no YAML
    assert all(c == "\n" or (c.isprintable() and c != "\ufeff") for c in head)


def test_names_cannot_break_the_table_or_the_header():
    name = "a|b <img src=x> `c`\n---\nlicense: mit"
    made = audits.audit(audits.table([0.7, 0.9], group_names=[name, "M"]))
    text = model_card(made, name=name, data=name)
    assert header(text)["model-index"][0]["name"] == name
    assert "<img" not in text.split("---\n", 2)[2]
    row = next(line for line in text.split("\n") if line.startswith("| a"))
    assert len(re.findall(r"(?<!\\)\|", row)) == 7  # six columns
