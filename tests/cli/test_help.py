"""What `fairweight --help` says."""

from tests.command import fairweight

from fairweight.cli._options import fitted


def test_every_verb_has_one_whole_line(tmp_path):
    said = fairweight(tmp_path, "--help")
    verbs, start = said.stdout.split("Commands:\n")[1].split("\n\n")
    verbs = verbs.splitlines()
    assert start.strip() == "Start with: fairweight train FILE --label COLUMN --group COLUMN"
    assert len(verbs) == 15
    assert [line for line in verbs if not line.endswith(".") or line.endswith("...")] == []
    assert max(map(len, verbs)) <= 80


def test_options_of_train_stand_in_panels_after_the_six_usual_ones(tmp_path):
    said = fairweight(tmp_path, "train", "--help").stdout
    titles = ("Arguments", "Usual", "Data", "Model", "Fairness", "Training", "Output")
    places = [said.index(f"\n{title}:\n") for title in titles]
    assert places == sorted(places)
    usual = said.split("\nUsual:\n")[1].split("\nData:\n")[0]
    listed = [line.split()[0] for line in usual.splitlines() if line.startswith("  --")]
    assert listed == ["--label", "--group", "--criterion", "--budget", "--method", "--out"]
    assert all(said.count(f"\n  {flag} ") == 1 for flag in listed)


def test_sentences_are_as_wide_as_the_terminal_and_rows_of_tables_stay(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    row = f"a name  {'1.25 ± 0.25  ' * 5}".rstrip()
    said = fitted(f"Rates are compared by --criterion equalized-odds.\n\n{row}\n  label 0: {'many words ' * 6}")
    first, second, empty, table, *rest = said.split("\n")
    assert (first, second) == ("Rates are compared by --criterion", "equalized-odds.")  # a flag's value stays whole
    assert (empty, table) == ("", row)
    assert len(rest) == 2
    assert all(line.startswith("  ") and len(line) <= 40 for line in rest)
    monkeypatch.delenv("COLUMNS")
    assert fitted("word " * 60 + "end") == "word " * 60 + "end"  # a file, where nothing is known of a width
