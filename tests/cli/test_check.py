import json
import sys

import pytest
from tests.command import fairweight

from fairweight.cli import main

NETS = """
import warnings
import torch
from torch import nn

class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 4, 3, 2), nn.BatchNorm2d(4), nn.Linear(4, 5)
    def forward(self, x):
        return self.head(torch.tanh(self.norm(self.conv(x))).mean((2, 3)))

class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.rnn, self.head = nn.Embedding(20, 4), nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 2)
    def forward(self, tokens):
        return self.head(self.rnn(self.words(tokens))[0][:, -1])

class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(7, 3)
    def forward(self, a, b):
        print("two parts")
        return self.head(torch.cat([a, b], 1))

class NoLogits(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 2)
    def forward(self, x):
        return None

class Infinite(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 2)
    def forward(self, x):
        return self.head(x) / 0

class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.head, self.calls = nn.Linear(3, 2), 0
    def forward(self, x):
        self.calls += 1
        return self.head(x) * self.calls

def pairs(n):
    return torch.randn(n, 3), torch.randn(n, 4)

def silent():
    return nn.Sequential(nn.Flatten())

def scripted():
    with warnings.catch_warnings(action="ignore"):  # newer versions of torch advise against it
        return torch.jit.script(nn.Linear(3, 2))

needs_argument = lambda width: nn.Linear(width, 2)
number = 3
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "nets.py").write_text(NETS)
    return tmp_path


@pytest.mark.slow
def test_a_model_is_checked_timed_and_passes(folder):
    done = fairweight(folder, "check", "nets.py:Plain", "--batch", "8", "--exemplars", "10", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["passed"]
    assert found["errors"]["forward"] < 1e-10
    assert found["errors"]["per-layer"] is None  # batch norm
    assert found["rounding"]["forward"] < 1e-3
    assert found["precision"] == "float32"
    assert found["mode"] == "double-backward"  # a tiny net
    assert found["ratio"] > 1
    assert all(found["untouched"].values())


@pytest.mark.slow
def test_words_for_people(folder):
    done = fairweight(folder, "check", "nets.py:Recurrent", "--batch", "6", "--exemplars", "6")
    assert done.returncode == 0, done.stderr
    assert "Gradient mode: per-layer; exact, as no layer mixes samples" in done.stdout
    assert "In float32, in which it trains" in done.stdout
    assert "times a plain step" in done.stdout
    assert done.stdout.rstrip().endswith("Passed.")


@pytest.mark.slow
def test_a_model_that_remembers_its_calls_fails_and_rounding_is_not_blamed(folder):
    done = fairweight(folder, "check", "nets.py:Counts")
    assert done.returncode == 1
    assert "DIFFERS from double backward" in done.stdout
    assert "conditioning" not in done.stdout


def test_inputs_from_a_function(folder):
    done = fairweight(
        folder, "check", "nets.py:Pair", "--inputs", "nets.py:pairs", "--batch", "6", "--exemplars", "6", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["passed"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nets"], "write MODULE:MODEL"),
        (["nets:Missing"], "nets has no 'Missing'"),
        (["absent:Net"], "absent cannot be imported"),
        (["absent.py:Net"], "there is no file absent.py"),
        (["nets:number"], "cannot be made without arguments"),
        (["nets:needs_argument"], "cannot be made without arguments"),
        (["nets:pairs"], "cannot be made without arguments"),
        (["nets:silent"], "No layer says what inputs"),
        (["nets:silent", "--input", "3"], "no parameters to train"),
        (["nets:scripted", "--input", "3"], "check it before torch.jit.script"),
        (["nets:Plain", "--input", "9"], "does not take these inputs"),
        (["nets:Plain", "--input", "nine"], "give whole numbers"),
        (["nets:Plain", "--input=-8"], "give whole numbers from 1"),
        (["nets:Plain", "--input", "9" * 25], "too large for memory"),
        (["nets:NoLogits"], "no logits were found"),
        (["nets:Infinite"], "returns numbers that are not finite"),
        (["nets:Plain", "--device", "cuda:99"], "is not on this machine"),
        (["nets:Plain", "--device", "abacus"], "choose cpu, cuda"),
    ],
)
def test_bad_input_is_one_sentence(folder, words, sentence, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.setattr(sys, "argv", ["fairweight", "check", *words])
    sys.modules.pop("nets", None)
    try:
        with pytest.raises(SystemExit) as stopped:
            main()
    finally:
        sys.modules.pop("nets", None)  # the next test's module of that name is another
    assert stopped.value.code == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert len(said.err.strip().splitlines()) == 1
    assert said.out == ""
