"""What is shipped: pure Python, typed, licensed, and nothing that belongs to the repository alone."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def built(out, kind):
    command = [sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    (path,) = out.iterdir()
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built(tmp_path_factory.mktemp("dist"), "wheel")


def test_pure_python_typed_and_licensed(wheel):
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(n for n in names if n.endswith("METADATA"))).decode()
    assert "fairweight/py.typed" in names
    assert any(n.endswith("licenses/LICENSE") for n in names)
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: >=3.11" in metadata


def test_the_wheel_holds_the_package_alone(wheel):
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {t for t in tops if not t.endswith(".dist-info")} == {"fairweight"}


def test_the_source_archive_holds_no_test_that_cannot_run_there(tmp_path):
    with tarfile.open(built(tmp_path, "sdist")) as archive:
        inside = {name.split("/", 1)[1] for name in archive.getnames()}
    tops = {name.split("/")[0] for name in inside}
    assert tops - {".gitignore", "PKG-INFO"} == {
        "src", "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE", "pyproject.toml",
    }  # fmt: skip
    assert {
        "src/fairweight/py.typed",
        "src/fairweight/paper/published.toml",
        "src/fairweight/paper/protocol.toml",
    } <= inside


def entries(name: str) -> dict[str, list[str]]:
    """By package and version of a lock: the hashes of its files."""
    text = (ROOT / name).read_text().replace("\\\n", " ")
    lines = [line.split(" --hash=sha256:") for line in text.splitlines() if line.strip() and line[0] != "#"]
    return {first.split(";")[0].strip(): [one.strip() for one in hashes] for first, *hashes in lines}


def test_the_locks_name_one_version_and_the_hashes_of_each_package_and_no_host():
    locks = {name: entries(f"requirements{name}.lock") for name in ("", "-torch", "-torch-cpu")}
    assert "torch==2.13.0" in locks["-torch"]
    assert list(locks["-torch-cpu"]) == ["torch==2.13.0+cpu"]
    assert not set(locks[""]) & set(locks["-torch"])
    for lock in locks.values():
        assert all(re.fullmatch(r"[a-z0-9.-]+==[\w.+]+", package) for package in lock)
        assert all(hashes and all(re.fullmatch("[0-9a-f]{64}", one) for one in hashes) for hashes in lock.values())
        assert len({package.split("==")[0] for package in lock}) == len(lock)


def test_the_lock_holds_all_that_the_package_and_its_checks_need():
    read = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*read["project"]["dependencies"], *read["dependency-groups"]["dev"]]
    locked = {package.split("==")[0] for name in ("", "-torch") for package in entries(f"requirements{name}.lock")}
    assert {re.match(r"[\w-]+", one)[0].lower() for one in wanted} <= locked
