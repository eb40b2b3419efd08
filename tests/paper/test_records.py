"""Records add up."""

import re
from pathlib import Path

import pytest

from fairweight.errors import BadInput, FolderRefused
from fairweight.paper import records
from fairweight.paper._table_text import marked, more_tables, share_text
from fairweight.paper.plan import planned
from fairweight.paper.verdict import with_statistics


def record_of(values, size="paper", table="mnist", date="2030-01-02T03:04:05+00:00", **changes):
    """A record of these values: by row, by seed, the accuracy; the other numbers follow."""
    what = planned(table, size=size)
    by_key = {row.key: row for row in what.all_rows}
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


@pytest.mark.parametrize(("share", "text"), [(-0.3, "0 %"), (94.6, "95 %"), (-27.2, "-27 %"), (None, "–")])
def test_shares_have_no_negative_nothing(share, text):
    assert share_text(share) == text


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
    tables = more_tables({"rows": rows, "numbers": numbers})
    assert [titles[0] for titles, _ in tables] == ["difference by seed", "p-values"]
    assert [row[-2:] for _, (_, row) in tables] == [["–", marked(entry)], ["–", "0.5"]]
