"""What is shipped: pure Python, typed, licensed, and nothing that belongs to the repository alone."""

import subprocess
import sys
import tarfile
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
    assert {"src/fairweight/py.typed", "src/fairweight/paper/published.toml"} <= inside


def test_the_lock_names_torch_exactly_and_no_range():
    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if line.strip()]
    assert "torch==2.13.0" in lines
    assert all("==" in line for line in lines)
    assert not [line for line in lines if "@" in line or "://" in line]
