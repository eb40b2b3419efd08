"""The head of docs/performance.md, and the start-up record that it reads."""


def bench(times, memory=1.2):
    """A GPU's record: one call of compiled steps, and double backward as a graph."""
    rows = [("plain", "compiled", 1.0, 100.0), ("forward, traced", "compiled", times, 100.0 * memory)]
    rows += [("plain", "graph", 2.0, 100.0), ("double backward", "graph", 12.0, 300.0), ("forward", "graph", 6.0, 1.0)]
    found = [
        {"name": name, "regime": regime, "median_ms": ms, "peak_mib": mib, "batch": 128, "call": 1}
        for name, regime, ms, mib in rows
    ]
    return {"kind": "bench", "device": "a GPU", "results": found}


def test_a_target_is_met_or_not(script):
    targets = script("performance_targets").targets
    good, bad = targets([bench(2.4)]), targets([bench(3.1, memory=1.6)])
    assert "| exact step on a GPU: at most 2.7 × plain, both compiled | 2.40 | a GPU, batch 128 | yes |" in good
    assert "| its memory: at most 1.5 × plain | 1.20 | a GPU, batch 128 | yes |" in good
    assert "5.0 times: compiled, against the fastest double backward measured (graph); within one regime 2.0" in good
    assert "| 3.10 | a GPU, batch 128 | no |" in bad
    assert "| 1.60 | a GPU, batch 128 | no |" in bad
    assert "3.9 times" in bad
    assert bad.count("| no |") == 3


def test_one_call_above_the_target_is_not_hidden_by_the_newest(script):
    record = bench(2.4)
    record["results"] += [{**row, "call": 2} for row in bench(2.3)["results"]]
    record["results"][1]["median_ms"] = 2.9
    assert "| 2.30 (2.30 to 2.90 in 2 calls) | a GPU, batch 128 | no |" in script("performance_targets").targets(
        [record]
    )


def test_without_records_there_is_no_table(script):
    assert script("performance_targets").targets([]) == ""


def test_the_first_start_is_not_counted(script, monkeypatch):
    start_up = script("start_up")
    taken = {"help": iter([9.0, 0.2, 0.3, 0.4]), "": iter([9.0, 0.1, 0.1, 0.1]), "names": iter([9.0, 0.3, 0.3, 0.3])}
    monkeypatch.setattr(start_up, "help_takes", lambda: next(taken["help"]))
    monkeypatch.setattr(start_up, "import_takes", lambda then="": next(taken["names" if then else ""]))
    found = start_up.measured(3)
    assert (found["help"]["median_s"], found["import"]["median_s"], found["help"]["n"]) == (0.3, 0.1, 3)
    record = {"kind": "start up", "device": "a CPU", "rows": found}
    page = script("performance_targets").targets([record])
    assert "| `fairweight --help`: under 0.5 s | 0.30 s | a CPU | yes |" in page
    assert "under 0.2 s | 0.100 s; 0.30 s once every name has been asked for | a CPU | yes |" in page


def test_help_starts_and_says_how_long_it_took(script):
    assert 0.0 < script("start_up").help_takes() < 60.0
