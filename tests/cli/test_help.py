"""What `fairweight --help` says."""

from tests.command import fairweight


def test_every_verb_has_one_whole_line(tmp_path):
    said = fairweight(tmp_path, "--help")
    verbs = said.stdout.split("Commands:\n")[1].rstrip().splitlines()
    assert len(verbs) == 15
    assert [line for line in verbs if not line.endswith(".") or line.endswith("...")] == []
    assert max(map(len, verbs)) <= 80


def test_options_of_train_stand_in_panels_with_the_usual_ones_first(tmp_path):
    said = fairweight(tmp_path, "train", "--help").stdout
    places = [said.index(f"\n{title}:\n") for title in ("Arguments", "Data", "Model", "Fairness", "Training", "Output")]
    assert places == sorted(places)
    data = said.split("\nData:\n")[1].split("\nModel:\n")[0]
    assert [line.split()[0] for line in data.splitlines() if line.startswith("  --")][:2] == ["--label", "--group"]
