"""The benchmark of fast modes: runs shortened, goes on where it was stopped, and recommends by its rule."""

import json
import sys

import pytest
import torch


@pytest.fixture
def benchmark(script):
    fast_modes = script("fast_modes")
    threads = torch.get_num_threads()
    yield fast_modes
    torch.set_num_threads(threads)


def command(benchmark, monkeypatch, out, *words):
    monkeypatch.setattr(sys, "argv", ["fast_modes.py", "--out", str(out), *words])
    benchmark.main()


@pytest.mark.slow
def test_a_shortened_run_and_its_record(benchmark, monkeypatch, tmp_path, capsys):
    words = ("--set", "digits", "--quick", "--choice", "1", "--repeats", "1", "--records", str(tmp_path / "records"))
    modes = ("--modes", "plain", "exact", "scope=head", "scope=head, every=5")
    command(benchmark, monkeypatch, tmp_path, *words, "--seeds", "1", *modes)
    first = capsys.readouterr().out
    command(benchmark, monkeypatch, tmp_path, *words, "--seeds", "3", *modes)
    second = capsys.readouterr().out
    assert "seed 0, exact" in first
    assert "seed 0, exact" not in second  # taken as it is
    assert "seed 2, scope=head, every=5" in second
    (path,) = (tmp_path / "records").glob("*_fast_modes_digits_quick/record.json")
    record = json.loads(path.read_text(), parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert record["kind"] == "fast modes"
    assert (record["chosen_on"], record["reported"]) == ([0], [1, 2])
    assert record["rows"]["scope=head"]["tprd"]["n"] == 2
    assert record["rows"]["every=2"]["times_plain"] > 0  # timed though it was not trained
    assert record["correlations"]["scope=head"]["late"]["n"] == 3 * benchmark.PROBES
    assert str(tmp_path) not in path.read_text()


def run(mode, seed, tprd):
    numbers = {"accuracy": 90.0, "tprd": tprd}
    return {"mode": mode, "seed": seed, "validation": numbers, "test": {"accuracy": 80.0, "tprd": 50.0 - tprd}}


def test_the_rule_sees_the_first_seeds_of_validation_and_the_cost_alone(benchmark):
    modes = {"exact": {}, "a": {}, "b": {}, "dear": {}}
    timed = {m: {"ms": t, "n": 1, "refusal": None} for m, t in
             {"plain": 1.0, "exact": 3.0, "a": 1.2, "b": 1.3, "dear": 1.31}.items()}  # fmt: skip
    tprd = {"plain": 9.0, "exact": 1.0, "a": 5.0, "b": 4.0, "dear": 1.0}
    runs = [run(m, seed, t if seed == 0 else 20.0 - t) for m, t in tprd.items() for seed in (0, 1, 2)]
    found = benchmark.summary(modes, runs, timed, 1)
    assert found["recommended"] == "b"
    assert found["rows"]["b"]["tprd"] == {"mean": 34.0, "se": 0.0, "n": 2}
    assert found["rows"]["b"]["tprd_minus_plain"]["mean"] == -5.0
    assert "**b**" in benchmark.table(found)


def test_rank_correlation(benchmark):
    x = torch.tensor([3.0, 1.0, 2.0, 9.0])
    assert benchmark.spearman(x, x.exp()) == pytest.approx(1.0)
    assert benchmark.spearman(x, -x) == pytest.approx(-1.0)
    assert benchmark.spearman(x, torch.tensor([2.0, 1.0, 3.0, 4.0])) == pytest.approx(0.8)


def test_packed_images_come_back(script, monkeypatch, tmp_path):
    data = script("fast_modes_data")
    x = torch.randint(0, 256, (24, 3, 32, 32), dtype=torch.uint8)
    y = torch.arange(24) % 10
    monkeypatch.setattr(data, "_cifar", lambda folder: (x[:20], y[:20], x[20:], y[20:]))
    small = data.replace(data.SETTINGS["cifar10"], train=12, held=4, test=4)
    data.pack(small, tmp_path, tmp_path / "packed.npz")
    back = data.read(small, tmp_path / "packed.npz")
    for found, expected in zip(back, (x[:20], y[:20], x[20:], y[20:]), strict=True):
        assert torch.equal(found, expected)


def test_the_page_follows_the_records(script):
    performance = script("performance")
    root = performance.ROOT
    assert (root / "docs" / "performance.md").read_text() == performance.page(root / "records")
