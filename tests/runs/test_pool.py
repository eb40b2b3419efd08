"""Many runs: failures stay alone, finished ones are not repeated, killed ones go on, in every engine."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import torch
from tests.tables import people

from fairweight.errors import BadInput, FolderRefused, MissingData, MissingDependency
from fairweight.runs import pool as parallel
from fairweight.runs.pool import _job, run_all, run_each
from fairweight.runs.pool._job import Settings, Watcher, perform
from fairweight.training.lock import claimed

SCRIPT = Path(__file__).with_name("run_many.py")


@pytest.fixture
def one_thread(monkeypatch):
    """For everybody: sums over two threads end in other last digits."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Seen(Watcher):
    def __init__(self):
        self.started, self.outcomes, self.epochs, self.ended = [], [], [], 0

    def on_start(self, specs):
        self.started = specs

    def on_epoch(self, fingerprint, epoch, epochs):
        self.epochs.append((fingerprint, epoch, epochs))

    def on_outcome(self, outcome):
        self.outcomes.append(outcome)

    def on_end(self):
        self.ended += 1


def test_one_after_another_a_failure_stays_alone_and_nothing_is_repeated(tiny, tmp_path):
    wrong = tiny.with_(method_options={"colour": "red"})
    seen = Seen()
    found = run_all([tiny, wrong, tiny.with_(seed=1)], tmp_path / "pool", jobs=1, watcher=seen)
    assert [found[s.fingerprint].error is None for s in (tiny, wrong, tiny.with_(seed=1))] == [True, False, True]
    assert "no option 'colour'" in found[wrong.fingerprint].error
    assert found[wrong.fingerprint].cause == "UnknownName"
    assert (tiny.fingerprint, 2, 2) in seen.epochs
    assert seen.ended == 1
    assert json.loads((tmp_path / "pool" / tiny.folder_name / "metrics.json").read_text())["accuracy"] > 0.1
    written = (tmp_path / "pool" / tiny.folder_name / "metrics.json").stat().st_mtime_ns
    again = run_all([tiny], tmp_path / "pool", jobs=1)
    assert again[tiny.fingerprint].reused
    assert (tmp_path / "pool" / tiny.folder_name / "metrics.json").stat().st_mtime_ns == written


def test_a_failure_that_nobody_foresaw_leaves_its_trace(tiny, tmp_path, monkeypatch):
    def broken(*arguments, **options):
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr(_job, "run", broken)
    found = run_all([tiny], tmp_path, jobs=1)[tiny.fingerprint]
    assert found.error.startswith("ZeroDivisionError: of all things")
    assert "Traceback" in (tmp_path / tiny.folder_name / "error.txt").read_text()


def test_missing_data_stops_everything_with_its_sentence_and_writes_nothing(tiny, tmp_path, monkeypatch):
    monkeypatch.delenv("FAIRWEIGHT_DATA", raising=False)
    seen = Seen()
    with pytest.raises(MissingData, match=r"cifar10 is not here: put .* into .*cifar10"):
        run_all([tiny.with_(source="cifar10", data={}), tiny], tmp_path / "pool", jobs=1, watcher=seen)
    assert not (tmp_path / "pool").exists()
    assert seen.outcomes == []
    assert seen.ended == 1


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_side_by_side_gives_what_one_after_another_gives(tiny, tmp_path):
    specs = [tiny.with_(seed=seed) for seed in range(2)] + [tiny.with_(method_options={"colour": "red"})]
    side = run_all(specs, tmp_path / "side", jobs=2, watcher=(seen := Seen()))
    alone = run_all(specs[:2], tmp_path / "alone", jobs=1)
    assert "no option 'colour'" in side[specs[2].fingerprint].error
    assert len(seen.outcomes) == 3
    assert {epoch for _, epoch, _ in seen.epochs} == {1, 2}
    for spec in specs[:2]:
        assert alone[spec.fingerprint].error is None
        model = (tmp_path / "side" / spec.folder_name / "model.safetensors").read_bytes()
        assert model == (tmp_path / "alone" / spec.folder_name / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_a_killed_worker_is_one_failure_and_the_same_command_goes_on(tiny, tmp_path):
    long = tiny.with_(epochs=4000)

    class Killer(Seen):
        def on_epoch(self, fingerprint, epoch, epochs):
            super().on_epoch(fingerprint, epoch, epochs)
            if fingerprint == long.fingerprint and epoch == 3:
                (child,) = [p for p in _children() if _at_work_on(p, tmp_path / "pool" / long.folder_name)]
                os.kill(child, signal.SIGKILL)

    seen = Killer()
    found = run_all([long, tiny, tiny.with_(seed=1)], tmp_path / "pool", jobs=2, watcher=seen)
    assert "killed by signal 9" in found[long.fingerprint].error
    assert found[tiny.fingerprint].error is None
    assert found[tiny.with_(seed=1).fingerprint].error is None
    log = (tmp_path / "pool" / long.folder_name / "log.jsonl").read_text()
    assert '"event": "epoch"' in log  # its work is kept


@pytest.mark.slow
def test_a_pool_that_is_left_early_stops_its_workers(tiny, tmp_path):
    with closing(run_each([tiny, tiny.with_(epochs=1_000_000)], tmp_path, jobs=2)) as outcomes:
        assert next(outcomes).spec == tiny
    assert _children() == []


def _children() -> list[int]:
    return [p.pid for p in multiprocessing.active_children()]


def _at_work_on(pid: int, folder: Path) -> bool:
    """Whether the process holds the folder's lock file open."""
    links = Path(f"/proc/{pid}/fd")
    return any(link.readlink() == folder / ".lock" for link in links.iterdir() if link.is_symlink())


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for left-over processes in /proc")
def test_a_killed_command_leaves_no_process_and_goes_on_from_its_checkpoints(tmp_path):
    before = _epochs_until_killed(tmp_path, least=2)
    folders = sorted((tmp_path / "pool").iterdir())
    assert len(folders) == 2
    assert all((folder / "checkpoint.safetensors").is_file() for folder in folders)
    after = _epochs_until_killed(tmp_path, least=1)
    for run, epochs in before.items():
        assert epochs[0] == 1
        assert after[run][0] >= epochs[-1]  # and not 1: it may have come further than it could tell


def _epochs_until_killed(folder: Path, least: int) -> dict[str, list[int]]:
    """Start the command, kill it without warning once both runs have come so far, and see its workers gone."""

    def epochs() -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for line in (folder / "out").read_text().splitlines(keepends=True):
            if line.startswith("epoch ") and line.endswith("\n"):
                found.setdefault(line.split()[1], []).append(int(line.split()[2]))
        return found

    with (folder / "out").open("w") as out:
        victim = subprocess.Popen([sys.executable, str(SCRIPT), str(folder / "pool"), "100000"], stdout=out)
    began = time.monotonic()
    while (len(epochs()) < 2 or min(map(len, epochs().values())) < least) and time.monotonic() - began < 120:
        time.sleep(0.05)
    tasks = Path(f"/proc/{victim.pid}/task").glob("*/children")
    children = [int(p) for task in tasks for p in task.read_text().split()]
    victim.kill()
    victim.wait()
    assert len(children) >= 2
    while any(_alive(p) for p in children) and time.monotonic() - began < 180:
        time.sleep(0.05)
    assert not any(_alive(p) for p in children)
    return epochs()


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for workers in /proc")
def test_a_worker_that_is_only_starting_does_not_hear_of_ctrl_c(tmp_path):
    people(300).to_csv(tmp_path / "people.csv", index=False)
    words = ("people.csv", "--label", "income", "--group", "sex", "--methods", "forml", "--seeds", "2", "--jobs", "2")
    command = [sys.executable, "-m", "fairweight", "compare", *words, "--epochs", "50"]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is born deaf to it
    with (tmp_path / "said").open("w") as said:
        begun = subprocess.Popen(command, cwd=tmp_path, stdout=said, stderr=said, start_new_session=True)
    signal.signal(signal.SIGINT, before)
    deadline = time.monotonic() + 100
    while not (workers := _workers(begun.pid)) and time.monotonic() < deadline and begun.poll() is None:
        time.sleep(0.02)
    for _ in range(20):  # while it imports torch
        os.kill(workers[0], signal.SIGINT)
        time.sleep(0.02)
    assert workers[0] in _workers(begun.pid)
    os.killpg(begun.pid, signal.SIGINT)  # as a terminal does
    assert begun.wait(60) == 130
    assert "Traceback" not in (tmp_path / "said").read_text()


def test_a_starting_worker_ends_at_sigterm_as_any_process_does():
    code = "import sys, signal; sys.modules['__mp_main__'] = sys; import fairweight.__main__; "
    code += "print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)"
    for begin, said in ((code, "True"), (code.replace("__mp_main__", "another"), "False")):
        done = subprocess.run([sys.executable, "-c", begin], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == said


def _workers(pid):
    """The workers of a process, beside what multiprocessing has for itself."""
    found = []
    for file in Path("/proc", str(pid), "task").glob("*/children"):
        try:
            for one in file.read_text().split():
                found += [int(one)] * (b"spawn_main" in Path("/proc", one, "cmdline").read_bytes())
        except OSError:  # over in the meantime
            continue
    return found


def test_a_folder_that_another_process_holds_is_left_alone(tiny, tmp_path):
    place = tmp_path / tiny.folder_name
    place.mkdir()
    with claimed(place), ThreadPoolExecutor(1) as another:  # the thread that holds it may ask again, no other
        found = another.submit(perform, tiny, Settings(str(tmp_path)), lambda *_: None).result()
    assert "another process is at work" in found.error
    assert not (place / "run.json").exists()
    assert perform(tiny, Settings(str(tmp_path)), lambda *_: None).error is None


def test_runs_wait_for_those_that_they_build_on(tiny, tmp_path):
    rule = {"train": {"drop": 0.2, "lowest": "ema_loss", "runs": [tiny.to_dict()]}}
    seen = Seen()
    found = run_all([tiny.with_(rows=rule)], tmp_path / "pool", jobs=1, watcher=seen)
    assert [outcome.spec.rows != {} for outcome in seen.outcomes] == [False, True]
    assert all(outcome.error is None for outcome in found.values())
    wrong = tiny.with_(method_options={"colour": "red"})
    rule = {"train": {"drop": 0.2, "lowest": "ema_loss", "runs": [wrong.to_dict()]}}
    found = run_all([tiny.with_(rows=rule)], tmp_path / "pool", jobs=1)
    assert "builds on" in found[tiny.with_(rows=rule).fingerprint].error


def test_settings_that_make_no_sense_are_refused(tiny, tmp_path):
    with pytest.raises(BadInput, match="processes or ray"):
        run_all([tiny], tmp_path, engine="slurm")


def test_a_gpu_takes_several_small_networks_at_a_time_and_one_large(tiny, monkeypatch):
    monkeypatch.setattr(parallel, "cores", lambda: 16)
    large = tiny.with_(network={"name": "resnet18"})
    assert parallel._jobs(None, "cuda:0", [tiny] * 20, "processes") == 8
    assert parallel._jobs(None, "cuda:0", [tiny] * 3, "processes") == 3
    assert parallel._jobs(None, "cuda:0", [tiny, large], "processes") == 1
    assert parallel._jobs(3, "cuda:0", [large] * 5, "processes") == 3
    assert parallel._jobs(None, "cpu", [large] * 20, "processes") == 16
    assert parallel._jobs(None, "cpu", [large] * 20, "ray") == 20


def test_ray_that_is_not_installed_is_a_sentence(tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependency, match=r"pip install .fairweight\[ray\]."):
        run_all([tiny], tmp_path, engine="ray")


class _Lost(Exception):
    pass


def _stand_in(lose: int) -> types.SimpleNamespace:
    """Ray's few functions that the engine calls, in this process; the task of that number is lost."""
    tasks: list[object] = []

    def remote(**resources):
        assert resources["num_gpus"] == 0

        def bind(function):
            return types.SimpleNamespace(
                remote=lambda *arguments: tasks.append((function, arguments)) or len(tasks) - 1
            )

        return bind

    def get(number):
        if number == lose:
            raise _Lost
        function, arguments = tasks[number]
        return json.loads(json.dumps(function(*json.loads(json.dumps(arguments)))))  # what travels is plain

    calls = {"init": 0, "shutdown": 0}
    return types.SimpleNamespace(
        is_initialized=lambda: False,
        init=lambda **options: calls.update(init=calls["init"] + 1),
        shutdown=lambda: calls.update(shutdown=calls["shutdown"] + 1),
        remote=remote,
        get=get,
        wait=lambda references: (references[:1], references[1:]),
        cancel=lambda *_, **__: None,
        exceptions=types.SimpleNamespace(RayError=_Lost),
        calls=calls,
    )


def test_ray_engine_hands_over_plain_values_and_survives_a_lost_task(tiny, tmp_path, monkeypatch):
    ray = _stand_in(lose=1)
    monkeypatch.setitem(sys.modules, "ray", ray)
    specs = [tiny.with_(seed=seed) for seed in range(3)]
    found = run_all(specs, tmp_path, engine="ray", jobs=1)  # the stand-in numbers tasks as they come
    assert [found[spec.fingerprint].error is None for spec in specs] == [True, False, True]
    assert "Ray lost it" in found[specs[1].fingerprint].error
    assert ray.calls == {"init": 1, "shutdown": 1}
    again = run_all(specs, tmp_path, engine="ray")
    assert again[specs[0].fingerprint].reused


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_a_local_ray_gives_what_processes_give(tiny, tmp_path):
    pytest.importorskip("ray", reason="the extra fairweight[ray] is not installed")
    models = []
    for engine in ("ray", "processes"):
        found = run_all([tiny], tmp_path / engine, engine=engine, jobs=1)
        assert found[tiny.fingerprint].error is None
        models.append((tmp_path / engine / tiny.folder_name / "model.safetensors").read_bytes())
    assert models[0] == models[1]


def test_a_pool_that_cannot_be_stops_everything_in_a_sentence(tiny, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FolderRefused, match=r"cannot be made .*choose another folder"):
        run_all([tiny, tiny.with_(seed=1)], tmp_path / "file" / "pool", jobs=1)


def test_a_pool_that_takes_no_files_too(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # for the superuser every folder takes files
    with pytest.raises(FolderRefused, match="cannot be written to; choose another folder"):
        run_all([tiny], tmp_path / "pool", jobs=1)


def test_a_worker_that_is_stopped_before_its_first_run_ends_without_a_word(monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_job.signals, "mind", stopped)  # as SIGTERM does from there on
    ours, theirs = multiprocessing.Pipe()
    with ours, theirs:
        assert _job._serve(theirs, Settings("unused"), 1) is None
