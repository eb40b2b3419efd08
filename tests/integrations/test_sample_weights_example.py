import runpy
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_example_runs_and_its_weights_help_gradient_boosting(capsys):
    path = Path(__file__).parents[2] / "examples" / "sample_weights.py"
    tables = runpy.run_path(str(path))["main"]()
    assert tables["learned weights"].tprd < 0.8 * tables["plain"].tprd
    assert tables["learned weights"].accuracy > tables["plain"].accuracy + 0.005
    assert "mean weight of wrong labels" in capsys.readouterr().out
