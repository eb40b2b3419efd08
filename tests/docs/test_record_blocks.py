"""Places of docs/*.md that show records of single benchmarks."""

from tests.docs.generators import generator

block = generator("record_blocks").block


def test_what_a_history_costs_is_a_table_of_the_latest_record():
    row = {"epoch_ms_per_step": 0.75, "history_ms": 0.0133, "n": 41}
    row |= {"share_of_epoch": 0.0176, "share_of_epoch_quartiles": [0.017, 0.0185]}
    row |= {"share_by_difference": 0.022, "share_by_difference_quartiles": [-0.003, 0.053]}
    about = {"kind": "dynamics_cost", "device": "CPU", "command": "python b.py", "commit": "abc"}
    table = block("history-cost", {"a": {**about, "rows": {"MLP": row}}})
    assert "| MLP | 0.75 | 0.0133 | 1.76 % (1.70 to 1.85) | 2.20 % (-0.30 to 5.30) | 41 |" in table
    assert table.endswith("CPU; `python b.py`; commit abc.")
    assert "No record" in block("history-cost", {})


def test_label_bias_stands_beside_its_notebook():
    accuracy = {"mean": 96.0, "standard_error": 0.1, "n": 5, "sd": 0.22, "least": 95.7, "most": 96.3}
    at = {"training": 1, "multiplier": {**accuracy, "mean": 0.0, "sd": 0.0}, "test_accuracy": accuracy}
    published = {"test_accuracy": 94.07, "multiplier": 0.0, "p": 0.476}
    run = {"settings": {"rate": 1.0}, "n": 5, "remark": "They agree."}
    first = {**at, "test_tprd": accuracy, "published": published}
    second = {**at, "training": 2, "test_tprd": accuracy}
    log = {"kind": "label bias", "what": "LB", "device": "a device", "commits": ["abc"], "test": "a test"}
    text = block("label-bias-notebook", {"x": {**log, "runs": [{**run, "trainings": [first, second]}]}})
    assert "| 1 | 0.000 (0.000) | 96.00 (0.22) | 96.00 (0.22) | 0.000 | 94.07 | 0.48 |" in text
    assert "| 2 | 0.000 (0.000) | 96.00 (0.22) | 96.00 (0.22) | – | – | – |" in text
    assert "Rate 1, 5 seeds. They agree." in text


def test_the_default_on_wrong_labels_stands_with_its_conditions_and_sets():
    change = {"mean": -1.0, "low": -2.0, "high": 0.25, "n": 8}
    known = {"accuracy": change, "gap": change}
    mean = {"accuracy": {"mean": 85.0, "standard_error": 0.5, "n": 8}, "gap": {"mean": 7, "standard_error": 1, "n": 8}}
    means = dict.fromkeys(("plain", "FORML, shared scores", "FORML by the rule"), mean)
    record = {
        "kind": "wrong labels", "device": "CPU", "command": "python b.py", "commit": "abc",
        "differences": {"all labels": {"plain": known, "FORML, beside plain": known}},
        "checks": {"a": True, "b": False},
        "sets": [{"set": "s", "noise": "group", "n": 8, "found": 7, "means": means, "change": known}],
        "delivered": {"difference": known},
    }  # fmt: skip
    text = block("wrong-label-default", {"x": record})
    assert "| all labels | FORML by the rule, beside plain | -1.00 [-2.00, +0.25] |" in text
    assert "| all labels | FORML, beside plain | -1.00 [-2.00, +0.25] |" in text
    assert "- Holds: a.\n- Fails: b." in text
    assert "| s | 20 % of a group's | 8 | 7 | 85.00 ± 0.50 / 7.00 ± 1.00 |" in text
    assert "beside plain: accuracy -1.00 [-2.00, +0.25], gap" in text
