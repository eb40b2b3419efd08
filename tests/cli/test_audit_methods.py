"""Every method and every kind of source can be audited."""

import html

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from fairweight import catalog
from fairweight.apps.audit import audit_of, write_audit
from fairweight.apps.train import TrainRequest, prepare, train
from fairweight.report import findings
from fairweight.runs.run import run
from fairweight.runs.spec import Spec


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "people.csv"
    random = np.random.default_rng(0)
    n = 160
    frame = pd.DataFrame({"x": random.normal(size=n), "sex": random.choice(["F", "M"], n)})
    frame["race"] = random.choice(["a", "b", None], n, p=[0.5, 0.4, 0.1])
    frame["pay"] = np.where(frame["x"] + random.normal(size=n) > 0, "high", "low")
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("method", catalog.names("methods"))
def test_every_method_leaves_what_an_audit_needs(table, tmp_path, method):
    torch.set_num_threads(1)
    spec = Spec(str(table), label="pay", group="sex", method=method, epochs=1, batch_size=32, per_cell=2)
    done = run(spec, tmp_path / "run")
    kinds = {finding.kind for finding in findings(audit_of(tmp_path / "run"))}
    assert ("no scores" in kinds) == ("scores" not in done.metrics)
    weights = done.folder.read_weights()
    needed = ["ema_loss", "ema_weighted_loss", "ema_weight", "margin", "mean_margin", "visits", "probability"]
    if method != "jtt":  # draws its rows, and may leave some out
        assert weights[needed].notna().all().all()


def test_crossed_groups_and_rows_without_a_group(table, tmp_path):
    data = {"groups": {"below": "merge", "floor": 2}}
    run(Spec(str(table), label="pay", group="sex,race", data=data, epochs=1, per_cell=1), tmp_path / "run")
    found = write_audit(audit_of(tmp_path / "run"), tmp_path / "run")
    assert found.audit.facts["group"] == "sex, race"
    names = {group["group"] for group in found.audit.metrics["groups"]}
    assert {name for name in names if "F" in name and "a" in name}
    page = found.page.read_text()
    assert all(f">{html.escape(name)}</span></th>" in page for name in names)
    assert any(finding.kind == "missing groups" for finding in found.findings)


def test_a_folder_of_coloured_images(tmp_path):
    random = np.random.default_rng(0)
    for label in ("cat", "dog"):
        (tmp_path / "pets" / label).mkdir(parents=True)
        for k in range(24):
            pixels = random.integers(0, 255, (40, 40, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pets" / label / f"{k}.png")
    network = {"name": "mlp", "hidden": [8]}
    data = {"image": {"size": 20, "cache": False}}
    run(Spec(str(tmp_path / "pets"), data=data, network=network, epochs=1, per_cell=2), tmp_path / "run")
    found = write_audit(audit_of(tmp_path / "run"), tmp_path / "run")
    page = found.page.read_text()
    assert page.count('class="thumb" src="data:image/jpeg;base64,') == 12 + 12 + min(
        24, len(found.audit.trained.weights)
    )


def test_a_pair_of_runs_on_images_with_groups_is_audited_beside_plain_training(tmp_path, monkeypatch):
    """The numbers of plain training name its groups as those of the run that was chosen do."""
    random = np.random.default_rng(0)
    rows = []
    for k in range(96):
        bright = 40 * (k % 2)
        pixels = random.integers(60, 120, size=(8, 8)) + bright
        Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / f"{k}.png")
        rows.append({"file": f"{k}.png", "label": "dark" if bright else "pale", "sex": "FM"[k // 2 % 2]})
    pd.DataFrame(rows).to_csv(tmp_path / "list.csv", index=False)
    monkeypatch.setattr("fairweight.apps.judge.choose", lambda plain, found, goal, sure: len(found) - 1)
    training = {"epochs": 1, "batch_size": 16, "per_cell": 2, "network": {"name": "mlp", "hidden": [4]}}
    data = {"groups": {"floor": 2}, "exemplar": {"size": 2}}
    wanted = TrainRequest(str(tmp_path / "list.csv"), "label", "sex", data=data, training=training)
    train(prepare(wanted), tmp_path / "run")
    found = audit_of(tmp_path / "run")
    assert found.trained.method == "forml"
    assert found.baseline is not None
    assert found.baseline.differences["accuracy"]["low"] is not None
