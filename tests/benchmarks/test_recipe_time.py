"""How long a recipe takes, in words."""


def test_epochs_that_had_the_device_alone_are_counted_up(script):
    found = {"epochs": 5, "measured": 4, "first_epoch_s": 10.0, "epoch_s": {"median": 2.0, "quartiles": [2.0, 2.0]}}
    record = {"rows": {"forml": {**found, "total_s": 18.0}}, "device": "a device", "commit": "abc"}
    page = "\n".join(script("recipe_time").words({**record, "remark": "The last one was shared."}))
    assert "| forml | 10.0 | 2.00 (2.00 to 2.00) | 4 | 0.3, counted up | at most 13 |" in page
    assert page.rstrip().endswith("commit abc. The last one was shared.")
