"""Pages are made from records, and those of this repository are up to date."""

import json
import re

import pytest
from tests.docs.generators import ROOT, generator
from tests.paper.test_records import record_of

from fairweight.paper import records
from fairweight.paper.records import grouped
from fairweight.paper.status import standings

record_pages, results_page = generator("record_pages"), generator("results_page")


def table_page(record, root):
    """With spaces that break."""
    return results_page.table_page(record, root).replace("\u00a0", " ")


def test_results_show_every_table_and_what_is_missing(tmp_path):
    found = {
        "a": record_of(
            {
                "uniform": {0: 95.0, 1: 96.0},
                "lb": dict.fromkeys(range(10), 95.0),
                "uniform-clean": {0: 98.0},
                "forml-default": {0: 97.0},
            }
        ),
        "b": record_of({"uniform": {0: 93.0}, "class-difficulty": {0: 92.9}}, table="cifar10", size="short"),
    }
    notes = tmp_path / "records" / "b" / "notes.md"
    notes.parent.mkdir(parents=True)
    notes.write_text("What was tried: patience.\n")
    short, full = grouped(found)
    page = results_page.results([short, full])
    assert page.index("| [cifar10, short](") < page.index("| [mnist, full](")
    assert "| [cifar10](results/cifar10-short.md) | not run | 200 epochs of 9 rows" in page
    assert "Run so far: short (1 seed). |" in page
    assert (
        "| [mnist](results/mnist-full.md) | not reproduced | 10 seeds. Not run: Uniform (clean data), Uniform, FORML. |"
        in page
    )
    of_short, of_full = (table_page(record, tmp_path) for record in (short, full))
    assert of_short.startswith("# cifar10, short\n")
    assert "8 epochs in place of 200" in of_short
    assert "What was tried: patience." in of_short
    assert "on the front" in of_short
    assert "8.79 ± 0.14" not in of_short, "what is printed is of the full size"
    assert "95.50 ± 0.50" in of_full
    assert "95.24 ± 0.36: undecided" in of_full
    assert "share of the gap to clean labels" in of_full


@pytest.mark.slow
def test_the_first_screen_says_what_the_command_says():
    tables = grouped(records.read_all(ROOT / "records"))
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    first = page.split("## ")[0]
    for one in standings(tables):
        assert re.search(rf"^\| \[?{one.table}\b.*\| {one.state} \| {re.escape(one.why)} \|$", first, re.M), one.table
    assert first.count("\n| ") == 1 + len(standings(tables))
    for link in re.findall(r"\]\((results/\S+)\)", page):
        assert (ROOT / "docs" / link).is_file()


def test_a_difference_carries_marks_and_its_p_values_stand_apart(tmp_path):
    noise = (0.0, 0.1, -0.1, 0.05, 0.02, -0.04, 0.03, 0.08, -0.06, 0.01)
    rows = {"uniform": dict.fromkeys(range(10), 95.0), "lb": {k: 96 + e for k, e in enumerate(noise)}}
    page = table_page(grouped({"a": record_of(rows)})[0], tmp_path)
    assert re.search(r"\| LB \| Uniform \| 10 \| -1\.01 ± 0\.02 \\\*\\\* \|", page)
    folded = page[page.index("<details") :]
    assert re.search(r"\| LB \| Uniform \| \S+ / \S+ / 0\.002 \|", folded)


def test_a_table_whose_rows_train_on_different_rows_says_so(tmp_path):
    rows = {"uniform": {0: 93.0}, "uniform-same": {0: 92.0}, "class-bias": {0: 92.0}}
    page = table_page(grouped({"a": record_of(rows, table="cifar10", size="short")})[0], tmp_path)
    assert "| Uniform / Proportion | 1 | all rows |" in page
    assert "| Uniform, exemplars held out too | 1 | all but the exemplars |" in page
    assert "| Uniform with a bias per class at its full strength | 1 | all but the exemplars |" in page
    assert "trains on" not in table_page(grouped({"a": record_of({"uniform": {0: 95.0}})})[0], tmp_path)


def test_marked_places_are_replaced_and_nothing_else():
    demo = {
        "kind": "demo",
        "date": "2030-01-02",
        "rows": {"FORML": {k: {"mean": 0.5, "standard_error": 0.01, "n": 5} for k in ("tprd", "max_fnr", "accuracy")}},
        "auc_wrong_labels": {"mean": 0.99, "standard_error": 0.001, "n": 5},
    }
    text = "before\n<!-- records:demo -->old<!-- /records:demo -->\nafter\n<!-- records:methods -->\nend\n"
    made = record_pages.filled(text, lambda name: record_pages.block(name, {"d": demo}, grouped({"d": demo})))
    assert made.startswith("before\n<!-- records:demo -->\n| mean ± standard error, 5 seeds |")
    assert "50.00 ± 1.00" in made
    assert "AUC 0.990 ± 0.001" in made
    assert "old" not in made
    assert "after\n<!-- records:methods -->\nNo record yet" in made
    assert made.endswith("<!-- /records:methods -->\nend\n")
    assert record_pages.filled(made, lambda name: record_pages.block(name, {"d": demo}, grouped({"d": demo}))) == made
    somebody_elses = "<!-- records:speed -->\n1 ms\n<!-- /records:speed -->"
    assert record_pages.filled(somebody_elses, lambda name: record_pages.block(name, {}, grouped({}))) == somebody_elses


def test_methods_show_what_they_cost_and_gave():
    found = {"a": record_of({"uniform": {0: 95.0, 1: 96.0}, "lb": {0: 96.0, 1: 98.0}})}
    table = record_pages.block("methods", found, grouped(found))
    apart = "-1.50 [-7.85, +4.85] | +1.50 [-4.85, +7.85]"  # 0.5 · t with one degree of freedom, 12.71
    assert f"| label-bias | mnist, full | LB | 2 | {apart} |" in table


def test_the_first_page_lists_pages_and_their_seeds():
    options = {**record_of({})["options"], "selection": "last"}
    found = {"a": record_of({"uniform": {0: 95.0, 1: 96.0}, "lb": {0: 95.0}}, options=options)}
    page = results_page.results(grouped(found))
    assert "| [mnist, full, selection=last](results/mnist-full-selection-last.md) | 2 | 1 to 2 | a GPU |" in page


def test_a_command_from_before_a_default_was_changed_says_what_to_name(tmp_path):
    changed = {**record_of({})["options"], "selection": "last"}
    older = record_of({"uniform": {0: 95.0}}, options=changed)
    told = "selection=last was the default: pass it explicitly now"
    assert told in table_page(grouped({"a": older})[0], tmp_path)
    named = record_of(
        {"uniform": {0: 95.0}}, options=changed, command="fairweight reproduce mnist --option selection=last"
    )
    assert told not in table_page(grouped({"a": named})[0], tmp_path)
    assert "was the default" not in table_page(grouped({"a": record_of({"uniform": {0: 95.0}})})[0], tmp_path)


def test_a_front_of_different_seeds_says_so(tmp_path):
    alike = record_of({"uniform": {0: 93.0}, "group-dro": {0: 92.9}}, table="cifar10", size="short")
    other = record_of({"uniform": {0: 93.0, 1: 94.0}, "group-dro": {0: 92.9}}, table="cifar10", size="short")
    assert "Rows differ in their seeds" not in table_page(grouped({"a": alike})[0], tmp_path)
    page = table_page(grouped({"a": other})[0], tmp_path)
    assert "Rows differ in their seeds" in page
    assert "| Uniform / Proportion | 2 | 6.50 | 93.50 | yes |" in page


def test_the_command_writes_the_pages_that_changed(tmp_path, capsys):
    (tmp_path / "records" / "x").mkdir(parents=True)
    (tmp_path / "records" / "x" / "record.json").write_text(json.dumps(record_of({"uniform": {0: 95.0}})))
    (tmp_path / "README.md").write_text("<!-- records:methods -->\n")
    record_pages.main(["--root", str(tmp_path)])
    assert "results.md" in capsys.readouterr().out
    assert "records:methods -->\nNo record yet" in (tmp_path / "README.md").read_text()
    record_pages.main(["--root", str(tmp_path)])
    assert "nothing changed" in capsys.readouterr().out


def test_the_pages_of_this_repository_are_up_to_date():
    found = record_pages.pages(ROOT)
    assert any("<!-- records:history-cost -->" in text for text in found.values())
    for path, text in found.items():
        assert path.is_file(), f"{path} is missing: make docs"
        assert path.read_text(encoding="utf-8") == text, f"{path} is out of date: make docs"
