"""Print a lock file with hashes from what `pip freeze` says on stdin.

    pip freeze | python tools/lock.py > requirements.lock

Every file of a version that the index has is named, so that any platform finds its own; files in the folders of
PIP_FIND_LINKS, such as a CPU build of torch, are added.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

INDEX = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
JSON = "application/vnd.pypi.simple.v1+json"


def plain(name: str) -> str:
    """The name as an index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def version_of(file: str) -> str:
    """The version in a file's name."""
    if file.endswith(".whl"):
        return file.split("-")[1]
    return re.sub(r"\.(tar\.gz|zip)$", "", file).rsplit("-", 1)[-1]


def hashes(pinned: str) -> list[str]:
    """The sha256 of every file of a pinned package."""
    name, version = pinned.split("==")
    request = urllib.request.Request(f"{INDEX}/{plain(name)}/", headers={"Accept": JSON})  # noqa: S310 -- pip's index
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        page = answer.read().decode()
    if page.lstrip().startswith("{"):
        files = [(file["filename"], file["hashes"]["sha256"]) for file in json.loads(page)["files"]]
    else:  # a mirror that speaks HTML alone
        files = re.findall(r'href="[^"]*?([^/"#]+)#sha256=([0-9a-f]{64})"', page)
    found = {sha256 for file, sha256 in files if version_of(file) == version}
    for folder in os.environ.get("PIP_FIND_LINKS", "").split():
        for path in Path(folder).glob("*.whl") if Path(folder).is_dir() else ():
            if plain(path.name.split("-")[0]) == plain(name) and version_of(path.name).split("+")[0] == version:
                found.add(hashlib.sha256(path.read_bytes()).hexdigest())
    if not found:
        sys.exit(f"{INDEX} has no file of {pinned}; take it out of the environment, or pin another version.")
    return sorted(found)


def main() -> None:
    """From stdin to stdout."""
    pins = [line.strip().split("+")[0] for line in sys.stdin if "==" in line]
    with ThreadPoolExecutor(8) as several:
        for pinned, found in zip(pins, several.map(hashes, pins), strict=True):
            print(" \\\n".join([pinned, *(f"    --hash=sha256:{one}" for one in found)]))


if __name__ == "__main__":
    main()
