"""Attack the program as a stranger would, in four ways, and count what is refused, what is harmless and what is wrong.

    python benchmarks/hostile_input.py [flips altered kills options] [--most 200] [--seconds 600]
        [--jobs 16] [--out hostile.json]

flips: one bit of one file of a finished run is turned; what reads it says so, or gives what it gave before.
altered: every place of every JSON file of a run is taken away or gets a strange value, and the manifest says that all
is well; each verb that reads a run goes on or says one sentence, and code that the folder names is not run.
kills: a training is killed at a random time; the same command comes to the same end and leaves nothing behind.
options: every option of every verb gets strange values; the command runs or says one sentence, and a refused one
leaves nothing behind.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import typer
from fault_injection import FIRST, OF, SMALL, command, left, people
from spoiled_disk import forked, quiet, shared_out

from fairweight.cli import app
from fairweight.runs.folder import METRICS, PREPROCESSING, RUN, RunFolder
from fairweight.runs.manifest import FILE as MANIFEST

JUDGED = (*OF, "--learner", "linear", "--candidates", "reweighing", "--budget", "20", "--out", "judged")
VERBS: dict[str, tuple[str, ...]] = {
    "predict": ("predict", "first", "people.csv", "--out", "said.csv"),
    "judged": ("audit", "judged", "--out", "page"),
    "judged again": ("train", *JUDGED),
    "verify": ("verify", "first"),
    "suspects": ("suspects", "first", "--out", "suspects.csv"),
    "condense": ("condense", "first", "--out", "kept"),
    "audit": ("audit", "first", "--out", "page"),
    "refit": ("refit", "first", "--out", "again", "--no-baseline", "--device", "cpu"),
    "train": FIRST,
}
GONE = object()
STRANGE: tuple[Any, ...] = (
    GONE, None, True, -1, 0, 10**30, 1e308, float("nan"), float("-inf"), "", "x", "evil.py:Net", "../../people.csv",
    "/dev/zero", "\u001b[31m", "a" * 100_000, [], [[]], [1, "x"], {}, {"": None},
)  # fmt: skip
EVIL = "from pathlib import Path\nPath('ran').touch()\nfrom torch import nn\nclass Net(nn.Linear):\n    pass\n"
ODD = (
    "", " ", "0", "-1", "nan", "inf", "1e400", "1.5", "x", "a,b", "a=b", ":", "os:abort", "sys:exit", "evil.py:Net",
    "..", "/dev/zero", "/dev/null", "people.csv", "nobody.csv", "first", "9" * 25, "é", "\u001b[31m", "'",
    '"', "x" * 300, "-", "--", "%s", "{}", "\u202e", "=1+1", "~", "*", "?", "[",
)  # fmt: skip
_SLOW = ("demo", "bench", "reproduce")  # they need no source and take minutes; their options are read before that
_BASE: dict[str, tuple[str, ...]] = {
    **{name: words for name, words in VERBS.items() if name == words[0] != "train"},
    "train": ("train", *SMALL, "--epochs", "1", "--method", "uniform", "--no-baseline", "--out", "out"),
    "compare": ("compare", *OF, "--epochs", "1", "--methods", "uniform", "--seeds", "1", "--jobs", "1", "--out", "out"),
    "weights": ("weights", *OF[:5], "--out", "weights.csv"),
    "check": ("check", "torch.nn:Flatten"),
    "list": ("list", "methods"),
    "clean": ("clean", "first", "--out", "cleaned"),
}


def fresh(at: Path) -> Path:
    """A folder with a table, a finished run, and code that must not run."""
    at.mkdir()
    people().to_csv(at / "people.csv", index=False)
    (at / "evil.py").write_text(EVIL)
    with contextlib.chdir(at), quiet():
        command(*FIRST)
        command("train", *JUDGED)
        for words in VERBS.values():  # what the processes below would each have to import is there
            with contextlib.suppress(SystemExit):
                command(*words)
        for name in ("kept", "page", "again"):
            shutil.rmtree(name, ignore_errors=True)
        for name in ("said.csv", "suspects.csv"):
            Path(name).unlink(missing_ok=True)
    return at


def _outcome(folder: Path, words: tuple[str, ...], but: str = "") -> tuple[int, str, dict[str, str]]:
    done = forked(lambda: command(*words), folder)
    return done.status, done.said, left(folder, but) if done.status == 0 else {}


def _untold(status: int, said: str) -> str | None:
    """What is wrong with the way in which a command has ended; None where it ran, or said one sentence."""
    if "Traceback" in said or status not in (0, 1, 2):
        return f"status {status}: {said[-300:]}"
    return "no sentence" if status == 2 and not said.strip() else None


def flips(desk: Path, work: Path, numbers: range) -> Iterator[tuple[str, str | None]]:
    """Turn one bit each."""
    files = sorted(
        path.relative_to(desk) for run in ("first", "judged") for path in (desk / run).rglob("*") if path.is_file()
    )
    sizes = [(desk / path).stat().st_size for path in files]
    good = {}
    for verb, words in VERBS.items():
        shutil.copytree(desk, work)
        good[verb] = _outcome(work, words)[2]
        shutil.rmtree(work)
    for number in numbers:
        draw = random.Random(number)  # noqa: S311
        # half of them by size, half of them by file: the small ones say most
        path = draw.choices(files, sizes)[0] if number % 2 else draw.choice(files)
        content = bytearray((desk / path).read_bytes())
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        judged = path.parts[0] == "judged"
        verb = draw.choice([verb for verb in VERBS if verb.startswith("judged") == judged])
        shutil.copytree(desk, work)
        (work / path).write_bytes(content)
        status, said, after = _outcome(work, VERBS[verb], str(path))
        bad = _untold(status, said)
        kept = {name: found for name, found in good[verb].items() if name != str(path)}
        if bad is None and status == 0 and after != kept:
            names = sorted(name for name in {**after, **kept} if after.get(name) != kept.get(name))
            bad = f"{verb} gave something else after a flip in {path}: {names[:4]}"
        if bad is None and verb == "verify" and status == 0 and path.name != MANIFEST:
            bad = f"verify has not seen a flip in {path}"
        yield ("found" if status else "harmless"), bad
        shutil.rmtree(work)


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value inside plain values; of a long list, the first and the last."""
    yield way
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*way, key))
    elif isinstance(value, list):
        for place in sorted({0, len(value) - 1}) if value else ():
            yield from places(value[place], (*way, place))


def altered(desk: Path, work: Path, numbers: range) -> Iterator[tuple[str, str | None]]:
    """Change one place of one file each, seal the folder again, and read it."""
    files = [f"{run}/{name}" for run in ("first", "judged") for name in (RUN, METRICS, PREPROCESSING)]
    read = {name: json.loads((desk / name).read_text()) for name in files}
    every = [(name, way, value) for name in read for way in places(read[name]) for value in STRANGE]
    random.Random(0).shuffle(every)  # noqa: S311
    for number in numbers:
        if number >= len(every):
            return
        name, way, value = every[number]
        ours = [verb for verb in VERBS if verb.startswith("judged") == name.startswith("judged")]
        verb = ours[number % len(ours)]
        shutil.copytree(desk, work)
        (work / name).write_text(json.dumps(_changed(read[name], way, value)))
        RunFolder((work / name).parent).seal()
        before = {path.name for path in work.iterdir()}
        done = forked(lambda verb=verb: command(*VERBS[verb]), work)  # type: ignore[misc]
        status, said = done.status, done.said
        bad = _untold(status, said)
        if (work / "ran").exists():
            bad = "code that the folder names was run"
        if status == 2 and (more := {path.name for path in work.iterdir()} - before):
            bad = bad or f"left behind: {sorted(more)}"
        yield ("refused" if status else "harmless"), bad and f"{verb}, {name} {way} = {str(value)[:40]!r}: {bad}"
        shutil.rmtree(work)


def _changed(values: Any, way: tuple[Any, ...], value: Any) -> Any:
    if not way:
        return None if value is GONE else value
    key, *rest = way
    made = dict(values) if isinstance(values, dict) else list(values)
    if not rest and value is GONE:
        del made[key]
    else:
        made[key] = _changed(made[key], tuple(rest), value)
    return made


def kills(desk: Path, work: Path, numbers: range) -> Iterator[tuple[str, str | None]]:
    """Kill a training at a random time each; by turns with a method, judged, and a second training."""
    words = [
        ("train", *SMALL, "--method", "forml", "--out", "out"),
        ("train", *OF, "--learner", "linear", "--candidates", "reweighing", "--budget", "20", "--out", "out"),
        ("refit", "first", "--out", "out", "--device", "cpu"),
    ]
    whole, takes = [], []
    for one in words:
        shutil.copytree(desk, work)
        forked(lambda one=one: command(*one), work)  # type: ignore[misc]
        shutil.rmtree(work / "out")
        began = time.monotonic()
        assert forked(lambda one=one: command(*one), work).status == 0  # type: ignore[misc]
        takes.append(time.monotonic() - began)
        whole.append(left(work))
        shutil.rmtree(work)
    for number in numbers:
        one, seconds = words[number % 3], random.Random(number).uniform(0, takes[number % 3])  # noqa: S311
        shutil.copytree(desk, work)
        killed = forked(lambda one=one, seconds=seconds: _killed_after(seconds, one), work)  # type: ignore[misc]
        again = forked(lambda one=one: command(*one), work)  # type: ignore[misc]
        after = left(work)
        names = sorted(
            name for name in {**after, **whole[number % 3]} if after.get(name) != whole[number % 3].get(name)
        )
        bad = f"did not go on: {again.said[-300:]}" if again.status else f"differs: {names[:4]}" if names else None
        yield ("killed" if killed.status == -signal.SIGKILL else "was over before"), bad
        shutil.rmtree(work)


def _killed_after(seconds: float, words: tuple[str, ...]) -> None:
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL))
    timer.daemon = True
    timer.start()
    command(*words)


def options(desk: Path, work: Path, numbers: range) -> Iterator[tuple[str, str | None]]:
    """Give one option of one verb one strange value each."""
    verbs: Any = getattr(typer.main.get_command(app), "commands", {})
    every = []
    for verb, made in sorted(verbs.items()):
        if verb in _SLOW or verb not in _BASE:
            continue
        for entry in made.params:
            if entry.param_type_name == "option" and not entry.is_flag:
                every += [(verb, entry.opts[0], value) for value in ODD]
            elif entry.param_type_name == "argument":
                every += [(verb, "", value) for value in ODD]
    random.Random(0).shuffle(every)  # noqa: S311
    for number in numbers:
        if number >= len(every):
            return
        verb, flag, value = every[number]
        base = _BASE[verb]
        words = (*base, flag, value) if flag else (base[0], value, *base[2:])
        shutil.copytree(desk, work)
        before = _all(work)
        done = forked(lambda words=words: command(*words), work)  # type: ignore[misc]
        bad = _untold(done.status, done.said)
        named = flag in ("--network", "--learner", "--inputs") or (verb == "check" and not flag)
        if (work / "ran").exists() and not named:
            bad = bad or "code was run that nobody named"
        if done.status == 2 and "runs failed" not in done.said and (more := _all(work) - before - {"ran"}):
            bad = bad or f"left behind: {sorted(more)[:4]}"
        if any(ord(letter) < 32 and letter != "\n" for letter in done.said):
            bad = bad or "a control character reached the terminal"
        yield ("ran" if done.status == 0 else "refused"), bad and f"{verb} {flag} {value[:40]!r}: {bad}"
        shutil.rmtree(work)


def _all(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if "__pycache__" not in path.parts}


ATTACKS: dict[str, Callable[[Path, Path, range], Iterator[tuple[str, str | None]]]] = {
    "flips": flips,
    "altered": altered,
    "kills": kills,
    "options": options,
}


def tried(name: str, numbers: range, seconds: float = math.inf) -> dict[str, Any]:
    """Carry out these of the attacks, none after so many seconds: how many ended in each way, and what went wrong."""
    found: dict[str, Any] = {"tried": 0, "ended": {}, "wrong": []}
    with tempfile.TemporaryDirectory() as inside:
        top = Path(inside)
        desk, began = fresh(top / "fresh"), time.monotonic()
        for way, bad in ATTACKS[name](desk, top / "work", numbers):
            found["tried"] += 1
            found["ended"][way] = found["ended"].get(way, 0) + 1
            found["wrong"] += [bad] if bad else []
            if time.monotonic() - began > seconds:
                break
    return found


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    asked.add_argument("attacks", nargs="*", choices=[*ATTACKS, []], default=[])
    asked.add_argument("--most", type=int, default=200, help="How many of each.")
    asked.add_argument("--first", type=int, default=0)
    asked.add_argument("--every", type=int, default=1)
    asked.add_argument("--seconds", type=float, default=math.inf, help="Try no further one of a kind after that time.")
    asked.add_argument("--jobs", type=int, default=1)
    asked.add_argument("--out", type=Path)
    given = asked.parse_args()
    torch.set_num_threads(1)
    names, found = given.attacks or list(ATTACKS), {}
    if given.jobs > 1:
        found = _together(
            shared_out(
                __file__, [*given.attacks, "--most", str(given.most), "--seconds", str(given.seconds)], given.jobs
            )
        )
    for name in names:
        if given.jobs == 1:
            found[name] = tried(name, range(given.first, given.most, given.every), given.seconds)
            if given.out is not None:
                given.out.write_text(json.dumps(found, indent=1) + "\n")
        print(
            f"{name}: {found[name]['tried']} tried, {found[name]['ended']}, {len(found[name]['wrong'])} wrong",
            flush=True,
        )
        for line in found[name]["wrong"][:25]:
            print("   ", line, flush=True)
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(any(one["wrong"] for one in found.values()))


def _together(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        name: {
            "tried": sum(part[name]["tried"] for part in parts),
            "ended": {
                way: sum(part[name]["ended"].get(way, 0) for part in parts)
                for way in sorted({way for part in parts for way in part[name]["ended"]})
            },
            "wrong": [line for part in parts for line in part[name]["wrong"]],
        }
        for name in parts[0]
    }


if __name__ == "__main__":
    main()
