"""Records add up, and pages are made from them."""

import json
import re
from itertools import islice
from pathlib import Path

import pytest

from fairweight.errors import BadInput, FolderRefused
from fairweight.paper import records
from fairweight.paper._table_text import marked, more_tables, share_text
from fairweight.paper.pages import block, filled, main, pages
from fairweight.paper.plan import planned
from fairweight.paper.records import grouped
from fairweight.paper.results_page import results
from fairweight.paper.results_page import table_page as page_of
from fairweight.paper.status import standings
from fairweight.paper.verdict import with_statistics

ROOT = Path(__file__).resolve().parents[2]


def record_of(values, size="paper", table="mnist", date="2030-01-02T03:04:05+00:00", **changes):
    """A record of these values: by row, by seed, the accuracy; the other numbers follow."""
    what = planned(table, size=size)
    by_key = {row.key: row for row in what.every}
    rows = [
        {
            "key": key,
            "title": by_key[key].title,
            "kind": by_key[key].kind,
            "printed_row": by_key[key].printed,
            "against": list(by_key[key].against),
            "spec": None if by_key[key].spec is None else by_key[key].spec.to_dict(),
            "moved": None,
            "seeds": {
                str(seed): {"accuracy": a, "tprd": 100 - a, "max_fnr": 110 - a, "seconds": 10.0 + seed}
                for seed, a in seeds.items()
            },
            "failed": {},
        }
        for key, seeds in values.items()
    ]
    record = {
        **what.heading(),
        "seeds": sorted({seed for seeds in values.values() for seed in seeds}),
        "rows": rows,
        "command": what.command,
        "wall_seconds": 5.0,
        "walls": {"noon": 5.0},
        "date": date,
        "versions": {"torch": "9.9"},
        "devices": ["a GPU"],
        "commits": ["abc"],
        **changes,
    }
    return with_statistics(record)


def row_of(record, key):
    return next(row for row in record["rows"] if row["key"] == key)


def test_more_seeds_of_the_same_settings_add_to_the_record(tmp_path):
    path = records.keep(record_of({"uniform": {0: 95.0, 1: 96.0}}), tmp_path)
    assert path == tmp_path / "2030-01-02_mnist" / "record.json"
    more = record_of(
        {"uniform": {2: 97.0}, "lb": {0: 90.0}},
        devices=["another"],
        walls={"noon": 7.0, "later": 3.0},
        versions={"torch": "9.10"},
    )
    again = records.keep(more, tmp_path)
    assert again == path
    found = records.read(path)
    assert row_of(found, "uniform")["means"]["accuracy"]["mean"] == pytest.approx(96.0)
    assert row_of(found, "uniform")["means"]["accuracy"]["n"] == 3
    assert row_of(found, "uniform")["means"]["accuracy"]["verdict"] == "undecided"
    assert row_of(found, "lb")["means"]["accuracy"]["n"] == 1
    assert row_of(found, "lb")["compared"]["uniform"]["accuracy"]["mean"] == pytest.approx(-5.0)
    assert found["seeds"] == [0, 1, 2]
    assert found["devices"] == ["a GPU", "another"]
    assert found["versions"] == {"torch": "9.9, 9.10"}
    assert found["wall_seconds"] == 10.0
    assert len(found["commands"]) == 1


def test_a_seed_that_was_run_twice_counts_once_and_the_later_one():
    merged = records.merged([record_of({"uniform": {0: 95.0}}), record_of({"uniform": {0: 97.0}})])
    assert row_of(merged, "uniform")["means"]["accuracy"]["mean"] == 97.0


def test_a_row_that_is_trained_otherwise_replaces_the_old_one():
    old, new = record_of({"uniform": {0: 95.0, 1: 95.0}}), record_of({"uniform": {2: 97.0}})
    old["rows"][0]["spec"] = {**old["rows"][0]["spec"], "lr": 0.5}
    assert row_of(records.merged([old, new]), "uniform")["seeds"].keys() == {"2"}


def test_other_settings_make_another_record(tmp_path):
    records.keep(record_of({"uniform": {0: 95.0}}), tmp_path)
    records.keep(record_of({"uniform": {0: 80.0}}, size="short"), tmp_path)
    assert sorted(records.read_all(tmp_path)) == ["2030-01-02_mnist", "2030-01-02_mnist-short"]


def test_other_epochs_on_the_same_day_do_not_replace_a_record(tmp_path):
    records.keep(record_of({"uniform": {0: 95.0}}), tmp_path)
    other = record_of({"uniform": {0: 80.0}}, epochs=3)
    assert records.keep(other, tmp_path).parent.name == "2030-01-02_mnist-2"
    assert records.keep(record_of({"uniform": {1: 70.0}}, epochs=3), tmp_path).parent.name == "2030-01-02_mnist-2"
    found = records.read_all(tmp_path)
    assert row_of(found["2030-01-02_mnist"], "uniform")["seeds"].keys() == {"0"}
    assert row_of(found["2030-01-02_mnist-2"], "uniform")["seeds"].keys() == {"0", "1"}


def test_a_record_from_before_an_option_was_there_counts_as_its_default(tmp_path):
    old = record_of({"uniform": {0: 95.0}})
    del old["options"]["selection"]
    path = records.keep(old, tmp_path)
    assert records.keep(record_of({"uniform": {1: 96.0}}), tmp_path) == path
    assert row_of(records.read(path), "uniform")["seeds"].keys() == {"0", "1"}


def test_a_folder_that_takes_no_record_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FolderRefused, match=r"cannot be written .*records"):
        records.keep(record_of({}), tmp_path / "file")


def test_a_damaged_record_is_named(tmp_path):
    path = records.keep(record_of({"uniform": {0: 95.0}}), tmp_path)
    path.write_text("{")
    with pytest.raises(BadInput, match=r"record\.json is no record"):
        records.read_all(tmp_path)


def table_page(record, root):
    """With spaces that break."""
    return page_of(record, root).replace("\u00a0", " ")


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
    page = results([short, full])
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
    made = filled(text, lambda name: block(name, {"d": demo}, grouped({"d": demo})))
    assert made.startswith("before\n<!-- records:demo -->\n| mean ± standard error, 5 seeds |")
    assert "50.00 ± 1.00" in made
    assert "AUC 0.990 ± 0.001" in made
    assert "old" not in made
    assert "after\n<!-- records:methods -->\nNo record yet" in made
    assert made.endswith("<!-- /records:methods -->\nend\n")
    assert filled(made, lambda name: block(name, {"d": demo}, grouped({"d": demo}))) == made
    somebody_elses = "<!-- records:speed -->\n1 ms\n<!-- /records:speed -->"
    assert filled(somebody_elses, lambda name: block(name, {}, grouped({}))) == somebody_elses


def test_methods_show_what_they_cost_and_gave():
    found = {"a": record_of({"uniform": {0: 95.0, 1: 96.0}, "lb": {0: 96.0, 1: 98.0}})}
    table = block("methods", found, grouped(found))
    apart = "-1.50 [-7.85, +4.85] | +1.50 [-4.85, +7.85]"  # 0.5 · t with one degree of freedom, 12.71
    assert f"| label-bias | mnist, full | LB | 2 | {apart} |" in table


def test_the_first_page_lists_pages_and_their_seeds():
    options = {**record_of({})["options"], "selection": "last"}
    found = {"a": record_of({"uniform": {0: 95.0, 1: 96.0}, "lb": {0: 95.0}}, options=options)}
    page = results(grouped(found))
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


@pytest.mark.parametrize(("share", "text"), [(-0.3, "0 %"), (94.6, "95 %"), (-27.2, "-27 %"), (None, "–")])
def test_shares_have_no_negative_nothing(share, text):
    assert share_text(share) == text


def test_the_command_writes_the_pages_that_changed(tmp_path, capsys):
    (tmp_path / "records" / "x").mkdir(parents=True)
    (tmp_path / "records" / "x" / "record.json").write_text(json.dumps(record_of({"uniform": {0: 95.0}})))
    (tmp_path / "README.md").write_text("<!-- records:methods -->\n")
    main(["--root", str(tmp_path)])
    assert "results.md" in capsys.readouterr().out
    assert "records:methods -->\nNo record yet" in (tmp_path / "README.md").read_text()
    main(["--root", str(tmp_path)])
    assert "nothing changed" in capsys.readouterr().out


def test_the_pages_of_this_repository_are_up_to_date():
    for path, text in pages(ROOT).items():
        assert path.is_file(), f"{path} is missing: make docs"
        assert path.read_text(encoding="utf-8") == text, f"{path} is out of date: make docs"


def test_no_record_names_a_folder_of_the_machine_it_was_made_on():
    root = Path(__file__).resolve().parents[2]
    folder = re.compile(r"(?<![\w.])/(?:home|root|tmp|work|Users|mnt|opt)/")
    for path in sorted((root / "records").rglob("*.*")):
        if path.suffix in (".json", ".md"):
            assert not folder.search(path.read_text(encoding="utf-8")), path.relative_to(root)


def test_a_number_that_one_pair_lacks_leaves_its_place_empty():
    """Its neighbours must not stand under the name of another."""
    entry = {"n": 2, "mean": 1.0, "standard_error": 0.1, "p": 0.5}
    pairs = {"a": {}, "b": {"a": {"tprd": entry, "accuracy": entry}}, "c": {"a": {"accuracy": entry}}}
    rows = [{"key": key, "title": key, "compared": found, "beside": {}} for key, found in pairs.items()]
    numbers = [{"key": "tprd", "title": "TPRD"}, {"key": "accuracy", "title": "accuracy"}]
    tables = list(islice(more_tables({"rows": rows, "numbers": numbers}), 2))  # type: ignore[arg-type]
    assert [titles[0] for titles, _ in tables] == ["difference by seed", "p-values"]
    assert [row[-2:] for _, (_, row) in tables] == [["–", marked(entry)], ["–", "0.5"]]
