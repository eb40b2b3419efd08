"""What a run writes about itself."""

import random

from fairweight.runs.run import run
from fairweight.runs.spec import Spec


def test_the_number_of_samples_is_of_those_that_count(tmp_path):
    """A test row without a group is in no rate, so it is not in their n either."""
    draw = random.Random(0)
    rows = [
        (draw.gauss(0, 1), draw.choice("fm") if k % 9 else "", "yes" if draw.random() < 0.5 else "no")
        for k in range(400)
    ]
    path = tmp_path / "rows.csv"
    path.write_text("x,sex,y\n" + "".join(f"{x},{sex},{y}\n" for x, sex, y in rows))
    spec = Spec(str(path), "y", "sex", network={"name": "mlp", "hidden": [4]}, method="uniform", epochs=1)
    done = run(spec, tmp_path / "run")
    metrics = done.metrics
    assert metrics["n_missing"] > 0
    assert metrics["n"] == sum(group["n"] for group in metrics["groups"])
    assert metrics["n"] + metrics["n_missing"] == len(done.folder.read_predictions())
