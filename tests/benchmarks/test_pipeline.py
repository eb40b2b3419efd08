"""The benchmark of the data pipeline, and what its page says of it."""

import json
import sys

import pytest


@pytest.fixture
def pipeline(script):
    return script("pipeline")


class Queue:
    """A device with a queue, and a host that fills it, in made-up time."""

    def __init__(self):
        self.host, self.free = 0.0, 0.0  # s

    def work(self, host_ms, device_ms):
        self.host += host_ms / 1e3
        self.free = max(self.free, self.host) + device_ms / 1e3

    def now(self):
        return self.host

    def mark(self):
        return max(self.free, self.host)

    def between(self, first, last):
        return 1e3 * (last - first)

    def passed(self, mark):
        return mark <= self.host

    def wait(self):
        self.host = max(self.host, self.free)

    def hold(self, milliseconds):
        self.free = max(self.free, self.host) + milliseconds / 1e3


def watched(pipeline, host_ms, device_ms, reads=()):
    queue, setting = Queue(), pipeline.Setting()
    watch = pipeline.Stretches(queue, setting)
    watch.on_start(1, 391, 0)
    for step in range(391):
        queue.work(host_ms, device_ms)
        if step in reads:
            queue.wait()
        watch.on_step(step, None)
    return watch


def test_a_host_that_is_ahead_leaves_nothing_to_wait_for(pipeline):
    watch = watched(pipeline, 1.0, 3.0)
    found = watch.found()
    assert [stretch.held for stretch in watch.done] == [False, True] * 3 + [False]
    assert found["pace_ms"]["median"] == pytest.approx(3.0)
    assert found["device_ms"]["mean"] == pytest.approx(3.0)
    assert found["host_ms"]["median"] == pytest.approx(1.0)
    assert found["wall_ms"]["median"] == pytest.approx(3.0 + 1.0 / 64)  # the queue is empty once
    assert found["waits"] == pytest.approx(0.0)
    assert (found["dry"], found["watched"], found["device_ms"]["n"]) == (0, 4 * 63, 3 * 32)


def test_a_host_that_is_behind_is_found(pipeline):
    found = watched(pipeline, 4.0, 3.0).found()
    assert found["device_ms"]["median"] == pytest.approx(3.0)
    assert found["pace_ms"]["median"] == pytest.approx(4.0)
    assert found["waits"] == pytest.approx(0.25)
    assert found["dry"] == found["watched"] == 4 * 63


def test_one_step_that_reads_from_the_device_is_found_and_a_held_stretch_with_it_left_out(pipeline):
    found = watched(pipeline, 1.0, 3.0, reads=(40, 100)).found()  # in the first stretch, and in the second, held
    assert found["dry"] == 2  # the step that read, and the next one, for which the device waited
    assert found["waits"] == pytest.approx(1.0 / (252 * 3.0 + 1.0))
    assert found["device_ms"]["mean"] == pytest.approx(3.0)
    assert found["held_stretches"] == 2


def test_without_a_held_stretch_nothing_is_claimed(pipeline):
    found = watched(pipeline, 1.0, 3.0, reads=range(391)).found()
    assert found["device_ms"] is None
    assert found["waits"] is None


def test_work_is_timed_apart_from_the_host_that_begins_it(pipeline):
    queue = Queue()
    found = pipeline.timed(queue, lambda place: queue.work(0.2, 0.05), at_once=32, repeats=5, hold=1.0)
    assert found["device_ms"]["median"] == pytest.approx(0.05)  # after the hold was made long enough
    assert found["host_ms"]["median"] == pytest.approx(0.2)
    assert found["device_ms"]["n"] == 5

    found = pipeline.timed(queue, lambda place: queue.work(1.0, 3.0), at_once=8, repeats=3, hold=0.5, each=True)
    assert found["device_ms"]["median"] == pytest.approx(3.0)  # a hold that is shorter than the whole is enough

    def reads(place):
        queue.work(0.2, 0.05)
        queue.wait()

    for each in (False, True):
        with pytest.raises(RuntimeError, match="waits for the device itself"):
            pipeline.timed(queue, reads, at_once=2, repeats=2, hold=1.0, each=each)


@pytest.mark.slow
def test_it_runs_and_keeps_its_record(pipeline, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", ["pipeline.py", "--tiny", "--records", str(tmp_path)])
    pipeline.main()
    (path,) = tmp_path.glob("*_pipeline_tiny/record.json")
    record = json.loads(path.read_text())
    assert record["kind"] == "pipeline"
    assert record["command"] == "python benchmarks/pipeline.py --tiny"
    assert {"device", "commit", "versions", "date", "setting"} <= record.keys()
    assert set(record["parts"]) == {"draw the batch", "draw the exemplars", "augmentation"}
    assert set(record["methods"]) == {"uniform", "forml"}
    for method in record["methods"].values():
        assert set(method["fits"]) == {"neither", "augmentation", "augmentation and histories"}
        assert all(row["pace_ms"]["median"] > 0 for row in method["fits"].values())
        assert method["fits"]["augmentation and histories"]["epoch_ms"] > 0
    import performance

    page = performance.page(tmp_path)
    assert "# The data pipeline" in page
    assert "The device never waits:" not in page  # of a processor nothing is claimed
    assert page.count("| uniform |") == 3


def _record(pipeline, host_ms=1.0, augmentation_ms=0.02, reads=()):
    fits = {kind: watched(pipeline, host_ms, 3.0, reads).found() for kind in pipeline.FITS}
    fits["augmentation and histories"]["epoch_ms"] = 3.1
    part = {"device_ms": pipeline.spread([augmentation_ms] * 3), "host_ms": pipeline.spread([0.1] * 3), "at_once": 32}
    step = {**part, "device_ms": pipeline.spread([2.9] * 3), "captured": True}
    return {
        "setting": pipeline.asdict(pipeline.Setting()),
        "parts": {"augmentation": part},
        "methods": {"uniform": {"step": step, "fits": fits}},
        "device": "a GPU",
        "gpu": True,
        "precision": "bfloat16 autocast",
        "command": "x",
        "commit": None,
        "versions": {"torch": "2"},
    }


def test_the_words_say_what_was_met_and_what_was_missed(pipeline):
    text = "\n".join(pipeline.words(_record(pipeline)))
    assert "under 5 % of a step: met" in text
    assert "0.69% of the step of uniform" in text
    assert "never waits: met.** It was found dry at 0 of 756 steps" in text
    text = "\n".join(pipeline.words(_record(pipeline, host_ms=4.0, augmentation_ms=0.2)))
    assert "under 5 % of a step: missed" in text
    assert "never waits: missed.** It was found dry at 756 of 756 steps" in text
    assert "25.00%" in text
    assert "host needs at most 100% of the time" in text
    assert "waiting is not known" in "\n".join(pipeline.words(_record(pipeline, reads=range(391))))


def test_without_a_record_the_page_says_nothing(pipeline, tmp_path):
    import performance

    assert "The data pipeline" not in performance.page(tmp_path)
