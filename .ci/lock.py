"""Write the lock files anew: every package that the checks need, with the sha256 of every file that may be installed.

    python .ci/lock.py [NAME ...]

Versions that are locked stay; those of the packages named here, and of new ones in pyproject.toml, are the newest that
fit. Hashes come from every index and folder that pip is set up with here, which no file names. Three files, each
installed with `pip install --require-hashes --no-deps`:

    requirements.lock            everything but torch
    requirements-torch-cpu.lock  torch's build for CPUs, where a folder or index that pip knows offers it
    requirements-torch.lock      torch as registries have it, with the CUDA packages that it needs on Linux
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin
from urllib.request import url2pathname

from pip._internal.commands import create_command
from pip._internal.network.lazy_wheel import dist_from_wheel_url
from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.specifiers import SpecifierSet
from pip._vendor.packaging.tags import sys_tags
from pip._vendor.packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from pip._vendor.packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
LOCK, TORCH, TORCH_CPU = (ROOT / f"requirements{end}.lock" for end in ("", "-torch", "-torch-cpu"))
HEAD = "# Written by `make lock`; {}.\n"
ON_LINUX = ' ; platform_system == "Linux"'


class Links(HTMLParser):
    """The addresses that a page links to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found += [value for key, value in attributes if tag == "a" and key == "href" and value]


class Offers:
    """The files that the indexes and folders of this machine's pip offer."""

    def __init__(self) -> None:
        command = create_command("install")
        self.options, _ = command.parse_args([])
        self.session = command._build_session(self.options)
        self._known: dict[str, list[tuple[str, Version, str]]] = {}

    def of(self, name: str) -> list[tuple[str, Version, str]]:
        """Address, version and file name of every file of a package."""
        if name not in self._known:
            self._known[name] = [
                (link, version, file)
                for link in self._links(name)
                if (named := _named(link, name))
                for version, file in [named]
            ]
        return self._known[name]

    def _links(self, name: str) -> Iterator[str]:
        for index in (self.options.index_url, *self.options.extra_index_urls):
            page = f"{index.rstrip('/')}/{name}/"
            if page.startswith("file:"):
                file = _local(page) / "index.html"
                text = file.read_text() if file.is_file() else ""
            else:
                answer = self.session.get(page)
                text = answer.text if answer.ok else ""
            yield from (urljoin(page, link) for link in Links(text).found)
        for place in self.options.find_links:
            yield from (file.resolve().as_uri() for file in Path(place).glob("*") if file.is_file())

    def hashes(self, name: str, version: Version) -> list[str]:
        """The sha256 of every file of a version."""
        return sorted({_sha256(link) for link, found, _ in self.of(name) if found == version})

    def newest(self, name: str, asked: SpecifierSet) -> Version:
        return max(found for _, found, _ in self.of(name) if found in asked and found.local is None)

    @cache  # noqa: B019 -- one of these lives as long as the program
    def needs(self, name: str, version: Version, extras: frozenset[str]) -> list[Requirement]:
        """What a version needs here, read from a wheel's own words without fetching the wheel."""
        wheels = [link for link, found, file in self.of(name) if found == version and _fits(file)]
        address = next(urldefrag(link).url for link in wheels if link.startswith("http"))
        about = dist_from_wheel_url(name, address, self.session)
        return [Requirement(str(need)) for need in about.iter_dependencies(extras)]


def _named(link: str, name: str) -> tuple[Version, str] | None:
    file = unquote(urldefrag(link).url.rsplit("/", 1)[-1])
    try:
        read = parse_wheel_filename(file) if file.endswith(".whl") else parse_sdist_filename(file)
    except ValueError:
        return None
    return (read[1], file) if read[0] == name else None


def _fits(file: str) -> bool:
    return file.endswith(".whl") and not parse_wheel_filename(file)[3].isdisjoint(sys_tags())


def _local(address: str) -> Path:
    return Path(url2pathname(address.removeprefix("file:").removeprefix("//")))


def _sha256(link: str) -> str:
    address, fragment = urldefrag(link)
    if found := re.fullmatch("sha256=([0-9a-f]{64})", fragment):
        return found[1]
    if not address.startswith("file:"):
        raise SystemExit(f"{address.rsplit('/', 1)[-1]}: its index gives no sha256")
    return hashlib.sha256(_local(address).read_bytes()).hexdigest()


def wanted() -> list[str]:
    """What pyproject.toml asks for: the package's needs, and those of its checks."""
    read = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = {**read["project"].get("optional-dependencies", {}), **read.get("dependency-groups", {})}
    return [*read["build-system"]["requires"], *read["project"]["dependencies"], *groups["dev"]]


def locked(*without: str) -> dict[str, str]:
    """The version of each package that is locked now."""
    lines = LOCK.read_text().splitlines() + (TORCH.read_text().splitlines() if TORCH.is_file() else [])
    pairs = (line.split(" ")[0].split("==") for line in lines if re.match(r"[\w.-]+==", line))
    return {canonicalize_name(name): version for name, version in pairs if canonicalize_name(name) not in without}


def resolved(pins: dict[str, str]) -> dict[str, Version]:
    """Let pip choose a version for all, as it would on a bare machine."""
    with tempfile.TemporaryDirectory() as folder:
        constraints, report = Path(folder) / "pins.txt", Path(folder) / "report.json"
        constraints.write_text("".join(f"{name}=={version}\n" for name, version in pins.items()))
        words = [
            "install",
            "--quiet",
            "--dry-run",
            "--ignore-installed",
            "--report",
            str(report),
            "-c",
            str(constraints),
        ]
        subprocess.run([sys.executable, "-m", "pip", *words, *wanted()], check=True)  # noqa: S603
        chosen = [entry["metadata"] for entry in json.loads(report.read_text())["install"]]
    return {canonicalize_name(one["name"]): Version(one["version"]) for one in chosen}


def entry(offers: Offers, name: str, version: Version, marker: str = "") -> str:
    """The lines of one package."""
    hashes = offers.hashes(name, version)
    if not hashes:
        raise SystemExit(f"no index offers {name}=={version}")
    return f"{name}=={version}{marker}" + "".join(f" \\\n    --hash=sha256:{found}" for found in hashes) + "\n"


def cuda(offers: Offers, torch: Version, known: dict[str, Version]) -> dict[str, Version]:
    """The packages that the registry's torch needs here beyond those that all builds need."""
    asked: dict[str, SpecifierSet] = {}
    while True:  # again until nobody has asked for more
        before, found = dict(asked), {}
        queue = [("torch", torch, frozenset[str]())]
        while queue:
            for need in offers.needs(*queue.pop()):
                name = canonicalize_name(need.name)
                if name in known:
                    continue
                asked[name] = asked.get(name, SpecifierSet()) & need.specifier
                if name not in found or need.extras:
                    found[name] = offers.newest(name, asked[name])
                    queue.append((name, found[name], frozenset(need.extras)))
        if asked == before:
            return dict(sorted(found.items()))


def main() -> None:
    """Write the three files."""
    offers = Offers()
    chosen = resolved(locked(*map(canonicalize_name, sys.argv[1:])))
    torch = chosen.pop("torch")
    plain = Version(torch.public)
    lines = [entry(offers, name, version) for name, version in sorted(chosen.items())]
    helpers = [entry(offers, name, found, ON_LINUX) for name, found in cuda(offers, plain, chosen).items()]
    LOCK.write_text(HEAD.format("torch has files of its own") + "".join(lines))
    TORCH.write_text(HEAD.format("torch as registries have it") + entry(offers, "torch", plain) + "".join(helpers))
    if torch.local == "cpu":  # else: no such build is known here, and what is locked stays
        TORCH_CPU.write_text(HEAD.format("torch's build for CPUs") + entry(offers, "torch", torch))
    print(f"{len(lines)} packages, torch {torch}, {len(helpers)} packages for CUDA")


if __name__ == "__main__":
    main()
