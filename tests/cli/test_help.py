"""What `fairweight --help` says."""

from tests.command import fairweight


def test_every_verb_has_one_whole_line(tmp_path):
    said = fairweight(tmp_path, "--help")
    verbs = said.stdout.split("Commands:\n")[1].rstrip().splitlines()
    assert len(verbs) == 12
    assert [line for line in verbs if not line.endswith(".") or line.endswith("...")] == []
    assert max(map(len, verbs)) <= 80
