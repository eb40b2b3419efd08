"""What the README shows is what runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_example_is_the_file_and_it_runs(tmp_path):
    readme = (ROOT / "README.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert block == (ROOT / "examples" / "plain_loop.py").read_text()
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "plain_loop.py")],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "TPRD" in done.stdout
    assert len([line for line in block.splitlines() if line.strip() and not line.startswith(("import", "from"))]) <= 15


def test_links_lead_somewhere():
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / name).read_text()):
            assert (ROOT / target).exists(), f"{name} points to {target}"
