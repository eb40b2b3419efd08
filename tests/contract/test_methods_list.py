"""`fairweight list methods` names every method with its sentence, its paper and what it needs."""

from __future__ import annotations

import json

from tests.command import fairweight

from fairweight import catalog


def test_every_method_is_listed_with_its_sentence_and_paper(tmp_path):
    said = fairweight(tmp_path, "list", "methods").stdout
    sentences = " ".join(said.split())  # lines are as wide as the terminal
    for name in catalog.names("methods"):
        kind = catalog.load("methods", name)
        assert f"\n{name} " in f"\n{said}"
        assert catalog.summary("methods", name) in sentences
        assert kind.paper in sentences


def test_what_each_needs_is_said(tmp_path):
    listed = json.loads(fairweight(tmp_path, "list", "methods", "--json").stdout)
    assert list(listed) == list(catalog.names("methods"))
    for name, entry in listed.items():
        assert entry.keys() == {"summary", "paper", "needs"}
        assert set(entry["needs"]) == set(catalog.load("methods", name).needs)
    said = " ".join(fairweight(tmp_path, "list", "methods").stdout.split())
    assert said.count("needs: the group of each training sample") == 3
