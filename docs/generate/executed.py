"""Pages whose commands and code are run: what they print is written below them, and checked again by a test.

    python docs/generate/executed.py                 # run every page again, write output and pictures
    python docs/generate/executed.py start.md        # one page
    python docs/generate/executed.py --check start.md  # say where what runs differs from what the page shows

A block ```console holds commands after "$ " and what they print. A block ```python is run, all of a page's in one
program, and the block ```text behind it holds what it printed. Pictures that a page shows are copied beside it.
Commands that a page lists in a block without a language are not run.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
PAGES = (
    "start.md",
    "concepts/gaps.md",
    "concepts/fading.md",
    "concepts/levelling-down.md",
    "howto/audit-predictions.md",
    "tutorials/own-loop.md",
    "tutorials/scikit-learn.md",
    "tutorials/wrong-labels.md",
    "tutorials/table.md",
)
NEEDS_DATA = ("tutorials/table.md",)  # Adult, from FAIRWEIGHT_DATA
SEPARATOR = "---8<---"
_BLOCK = re.compile(r"^```(console|python)\n(.*?)^```\n(?:(\n*)```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
_EPOCH = re.compile(r"([\w-]+): epoch \d+/")
_TIMES = re.compile(r"\d+(?:\.\d+)? (?:seconds?|minutes?|s|ms)\b")
TOLERANCE = 0.02  # another processor may round otherwise
# Pages with a long FORML training in float32, which makes a last digit a tenth of a logit: there a test sample may get
# another prediction. What one sample is of the smallest class, of 18 validation rows here.
ONE_SAMPLE = {"tutorials/wrong-labels.md": 1 / 18}


def run_page(path: Path) -> tuple[str, dict[str, bytes]]:
    """The page with what its blocks print now, and the pictures that it shows, by their link.

    Commands run one after the other, all Python blocks as one program: first whichever the page begins with.
    """
    text = path.read_text(encoding="utf-8")
    blocks = [(match.group(1), match.group(2)) for match in _BLOCK.finditer(text)]
    said: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in dict.fromkeys(kind for kind, _ in blocks):
            bodies = [body for other, body in blocks if other == kind]
            said[kind] = [_console(body, folder) for body in bodies] if kind == "console" else _python(bodies, folder)
        links = re.findall(r"!\[[^\]]*\]\((pictures/[\w.-]+)\)", text)
        made = {link: folder / Path(link).name for link in links}
        pictures = {link: file.read_bytes() for link, file in made.items() if file.is_file()}

    def rewritten(match: re.Match[str]) -> str:
        kind, body = match.group(1), match.group(2)
        out = said[kind].pop(0)
        if kind == "console":
            return f"```console\n{out}```\n"
        return f"```python\n{body}```\n" + (f"\n```text\n{out}```\n" if out else "")

    return _BLOCK.sub(rewritten, text), pictures


def differences(shown: str, found: str, sample: float = 0.0) -> list[str]:
    """Lines that differ by more than seconds and the last digits of numbers; sample: the share that one may move."""
    lines = [], []
    for text, kept in zip((shown, found), lines, strict=True):
        kept += [re.sub(r"\s+", " ", _TIMES.sub("SECONDS", line)).strip() for line in text.splitlines()]
    if len(lines[0]) != len(lines[1]):
        return [f"{len(lines[0])} lines are shown and {len(lines[1])} come out"]
    wrong, ranking = [], False
    for a, b in zip(*lines, strict=True):
        ranking = bool(a) and (ranking or a.startswith("rank "))  # rounding decides who comes first of equals
        if not (_words(a) == _words(b) if ranking else _alike(a, b, sample)):
            wrong.append(f"shown: {a}\nfound: {b}")
    return wrong


def _words(line: str) -> str:
    return _NUMBER.sub("#", line)


def _alike(a: str, b: str, sample: float) -> bool:
    numbers = zip(_NUMBER.findall(a), _NUMBER.findall(b), strict=False)
    return _words(a) == _words(b) and all(_near(x, y, sample) for x, y in numbers)


def _near(a: str, b: str, sample: float) -> bool:
    x, y = (float(number.replace(",", "")) for number in (a, b))
    size = max(1.0, abs(x), abs(y))
    if "." not in a + b:  # of counts, one sample may lie on the other side of a limit
        least = float(min(x, y) >= 10) + float(sample > 0)
    else:
        in_percent = size > 1 and len(a.rpartition(".")[2]) <= 2
        least = 100 * sample if in_percent else sample
    return abs(x - y) <= max(TOLERANCE * size, least)


def _environment() -> dict[str, str]:
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "COLUMNS": "96", "OMP_NUM_THREADS": "1",
            "MPLBACKEND": "agg", "PYTHONWARNINGS": "ignore"}  # fmt: skip


def _console(body: str, folder: Path) -> str:
    commands = [line[2:] for line in body.splitlines() if line.startswith("$ ")]
    parts = []
    for command in commands:
        words = (
            command.replace("fairweight", f"{sys.executable} -m fairweight", 1)
            if command.startswith("fairweight")
            else command
        )
        words = re.sub(r"^python ", f"{sys.executable} ", words).replace(" examples/", f" {ROOT}/examples/")
        done = subprocess.run(  # noqa: S602 - the pages are ours
            words,
            shell=True,
            cwd=folder,
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{command}: exit status {done.returncode}\n{done.stdout}")
        printed = _tidy(done.stdout)
        parts.append(f"$ {command}\n{printed}" if printed else f"$ {command}\n")
    return "\n".join(parts)


def _python(blocks: list[str], folder: Path) -> list[str]:
    """What each block prints; one program, so that later blocks see what earlier ones made."""
    if not blocks:
        return []
    program = f"\nprint({SEPARATOR!r}, flush=True)\n".join(blocks)
    (folder / "page.py").write_text(program, encoding="utf-8")
    words = [sys.executable, "page.py"]
    done = subprocess.run(words, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return [_tidy(part.removeprefix("\n")) for part in done.stdout.split(f"{SEPARATOR}\n")]


def _tidy(text: str) -> str:
    """Without blanks at line ends; of many epochs in a row, the first and the last."""
    lines = [line.rstrip() for line in text.replace("python -m fairweight", "fairweight").splitlines()]
    kept: list[str] = []
    for place, line in enumerate(lines):
        inner = (
            _EPOCH.match(line),
            place and _EPOCH.match(lines[place - 1]),
            place + 1 < len(lines) and _EPOCH.match(lines[place + 1]),
        )
        same = all(inner) and len({match.group(1) for match in inner if match}) == 1
        if not same:
            kept.append(line)
        elif kept[-1] != "...":
            kept.append("...")
    return "".join(f"{line}\n" for line in kept).strip("\n") + ("\n" if any(kept) else "")


def readme() -> str:
    """The README with the three commands of start.md and the head of what each printed there."""
    text = (DOCS / "start.md").read_text(encoding="utf-8")
    parts = []
    for verb in ("train", "audit", "predict"):
        found = re.search(rf"^(\$ fairweight {verb} [^\n]*)\n(.*?)(?=^\$|^```)", text, re.DOTALL | re.MULTILINE)
        assert found is not None, f"start.md runs no {verb}"
        paragraphs = [part.strip("\n") for part in found.group(2).split("\n\n") if part.strip()]
        verdict = next((part for part in paragraphs if "→" in part), paragraphs[0])
        lines = [line for line in paragraphs[0].splitlines() if not line.startswith("Reading ")]
        more = next((k for k, line in enumerate(lines[1:], 1) if not line.startswith(" ")), len(lines))
        finding = "\n".join(lines[:more])  # the first one, with the lines that belong to it
        page = next((f"\n...\n{part.splitlines()[0]}" for part in paragraphs if part.startswith("Page: ")), "")
        shown = {"train": f"...\n{verdict}\n...", "audit": finding + page, "predict": finding}[verb]
        parts.append(f"{found.group(1)}\n{shown}")
    block = "<!-- executed -->\n```console\n" + "\n\n".join(parts) + "\n```\n<!-- /executed -->"
    before = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.sub(r"<!-- executed -->.*?<!-- /executed -->", lambda _: block, before, flags=re.DOTALL)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("pages", nargs="*", default=PAGES)
    words.add_argument("--check", action="store_true")
    said = words.parse_args()
    wrong = []
    for name in said.pages:
        path = DOCS / name
        done, pictures = run_page(path)
        if said.check:
            wrong += [
                f"{name}: {line}"
                for line in differences(path.read_text(encoding="utf-8"), done, ONE_SAMPLE.get(name, 0.0))
            ]
            continue
        path.write_text(done, encoding="utf-8")
        for link, content in pictures.items():
            (path.parent / link).parent.mkdir(exist_ok=True)
            (path.parent / link).write_bytes(content)
    if wrong:
        raise SystemExit("\n".join(wrong))
    if not said.check:
        (ROOT / "README.md").write_text(readme(), encoding="utf-8")


if __name__ == "__main__":
    main()
