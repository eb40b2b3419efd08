"""What importing a name costs; which names there are is kept in golden/public_names.txt."""

import subprocess
import sys

import pytest

import fairweight as fw


def test_names_that_do_not_exist_say_so():
    assert not hasattr(fw, "nothing")


def loaded_after(code: str) -> set[str]:
    command = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_fairweight_imports_no_torch():
    assert "torch" not in loaded_after("import fairweight")


def test_help_imports_no_torch():
    loaded = loaded_after("import fairweight.cli")
    assert not loaded & {"torch", "numpy", "pandas", "sklearn"}


@pytest.mark.slow
def test_the_core_imports_torch_and_the_standard_library_alone():
    loaded = loaded_after("import fairweight; fairweight.FORML, fairweight.fit, fairweight.MaxLossDiscrepancy")
    assert not loaded & {"pandas", "pyarrow", "sklearn", "rich", "matplotlib", "safetensors", "typer"}
