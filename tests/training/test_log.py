import json

from fairweight.training.log import Log


def test_resume_drops_later_and_broken_lines(tmp_path):
    log = Log(tmp_path)
    log.start(0)
    for step in (1, 2, 3):
        log.add("epoch", step, loss=float("nan"))
    with log.path.open("ab") as file:
        file.write(b'\xff\xfe\n{"event": "epo')
    log.start(2)
    lines = [json.loads(line) for line in log.path.read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    assert lines[0]["loss"] is None


def test_a_new_run_starts_a_new_log(tmp_path):
    log = Log(tmp_path)
    log.start(0)
    log.add("epoch", 1)
    log.start(0)
    assert log.path.read_text() == ""


def test_steps_that_are_no_numbers_are_dropped(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"step": "x"}\n{"step": null}\n{"step": [1]}\n7\n{"step": 1}\n')
    Log(tmp_path).start(2)
    assert (tmp_path / "log.jsonl").read_text() == '{"step": 1}\n'
