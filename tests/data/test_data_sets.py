"""Named sets: real ones at reduced size, and synthetic ones against the answer on paper."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
import torch

from fairweight import catalog
from fairweight.data import Exemplar, GroupOptions, ImageOptions, Options, Split, load, named_set
from fairweight.data.corrupt import OneClass
from fairweight.data.sets.synthetic import Synthetic
from fairweight.data.sets.synthetic_noise import SyntheticNoise
from fairweight.errors import BadInput, MissingData


@pytest.mark.parametrize("name", catalog.names("data.sets"))
def test_every_named_set_keeps_the_contract(name):
    made = named_set(name)
    assert isinstance(made.label, str)
    assert isinstance(made.group, tuple)
    assert made.needs
    assert catalog.summary("data.sets", name).endswith(".")


def test_the_named_sets():
    assert set(catalog.names("data.sets")) >= {
        "adult", "celeba", "cifar10", "cifar100", "compas", "digits", "fairface", "fashion-mnist", "mnist", "synthetic",
    }  # fmt: skip


@pytest.mark.parametrize(
    "name", ["adult", "celeba", "cifar10", "cifar100", "compas", "fairface", "fashion-mnist", "mnist"]
)
def test_absent_sets_say_which_file_to_put_where(name, tmp_path):
    with pytest.raises(MissingData) as caught:
        load(name, data_dir=tmp_path)
    sentence = str(caught.value)
    assert str(tmp_path / name) in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    with pytest.raises(MissingData, match="FAIRWEIGHT_DATA"):
        load(name)


def test_the_data_folder_may_come_from_the_environment(real, monkeypatch, tmp_path):
    import os

    monkeypatch.setenv("FAIRWEIGHT_DATA", os.pathsep.join([str(tmp_path), str(real("compas"))]))
    assert load("compas").name == "compas"


def test_adult(real):
    data = load("adult", data_dir=real("adult"))
    assert data.label_names == ("<=50K", ">50K")
    assert data.group_names == ("Female", "Male")
    assert len(data.test) == 16281
    assert len(data.train) + len(data.validation) + len(data.exemplar) == 32561
    # The published shares: 24.08 % of train above 50K, 23.62 % of test (7,841 and 3,846 rows).
    assert int(data.test.labels.sum()) == 3846
    above = sum(int(getattr(data, part).labels.sum()) for part in ("train", "validation", "exemplar"))
    assert above == 7841
    names = data.preprocessing.feature_names
    assert "workclass=(missing)" in names
    assert not any("?" in name or name.startswith(("sex", "fnlwgt", "income")) for name in names)
    assert torch.isfinite(data.train.inputs).all()
    assert not data.warnings


def test_adult_by_sex_and_race(real):
    options = Options(limit=3000, groups=GroupOptions(floor=60, below="merge"))
    data = load("adult", group="sex,race", data_dir=real("adult"), options=options)
    assert "Female & Black" in data.group_names
    assert data.group_names[-1] == "other"
    assert any("merged into 'other'" in note for note in data.notes)


def test_compas(real):
    data = load("compas", data_dir=real("compas"))
    assert data.group_names == ("African-American", "Caucasian")
    # ProPublica's own counts after its filter: 6,172 rows, of which 3,175 and 2,103 of these two groups.
    assert any("6,172 of 7,214" in note for note in data.notes)
    parts = [data.train, data.validation, data.exemplar, data.test]
    assert torch.bincount(torch.cat([part.groups for part in parts])).tolist() == [3175, 2103]
    assert set(data.preprocessing.feature_names) == {
        "age", "sex=Female", "sex=Male", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count",
        "c_charge_degree=F", "c_charge_degree=M",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (
            GroupOptions(only=("African-American", "Caucasian"), rest="merge"),
            {"African-American", "Caucasian", "other"},
        ),
        (
            GroupOptions(below="keep"),
            {"African-American", "Caucasian", "Hispanic", "Other", "Asian", "Native American"},
        ),
    ],
)
def test_compas_with_the_other_races(real, groups, expected):
    data = load("compas", data_dir=real("compas"), options=Options(groups=groups))
    assert set(data.group_names) == expected
    assert sum(len(rows) for rows in data.rows.values()) == 6172


def test_compas_by_another_attribute(real):
    data = load("compas", group="sex", data_dir=real("compas"))
    assert data.group_names == ("Female", "Male")
    assert "race=Hispanic" in data.preprocessing.feature_names


def test_fairface(real):
    options = Options(limit=400, image=ImageOptions(size=32))
    data = load("fairface", data_dir=real("fairface"), options=options)
    assert data.label_names == ("Female", "Male")
    assert len(data.group_names) == 7
    assert data.input_shape == (3, 32, 32)
    assert len(data.test) == 400
    old = load("fairface", label="age>=30", group="race,gender", data_dir=real("fairface"), options=Options(
        limit=600, image=ImageOptions(size=16), groups=GroupOptions(below="keep")))  # fmt: skip
    assert old.label_names == ("age<30", "age>=30")
    assert len(old.group_names) == 14
    assert 0.4 < old.train.labels.float().mean() < 0.6
    with pytest.raises(BadInput, match="cuts through a step of age"):
        load("fairface", label="age>=35", data_dir=real("fairface"), options=options)


def test_cifar100(real):
    options = Options(limit=500, split=Split(validation=0.0), exemplar=Exemplar(size=1))
    data = load("cifar100", data_dir=real("cifar100"), options=options)
    assert len(data.label_names) == 100
    assert data.label_names[:2] == ("apple", "aquarium_fish")
    assert data.input_shape == (3, 32, 32)
    assert len(data.train) == 400
    assert [round(value, 1) for value in data.preprocessing.mean] == [0.5, 0.5, 0.4]  # 0.507, 0.487, 0.441 over all


def test_mnist(real):
    data = load("mnist", data_dir=real("mnist"), options=Options(corruptions=(OneClass("2", 0.2),)))
    assert len(data.test) == 10000
    assert data.preprocessing.mean[0] == pytest.approx(0.1307, abs=0.001)  # as published everywhere
    assert data.preprocessing.std[0] == pytest.approx(0.3081, abs=0.001)
    wrong = (data.train.labels != data.true_labels).float().mean()
    assert wrong == pytest.approx(0.18, abs=0.01)  # a fifth was chosen, and a tenth of it was a 2 already


def test_digits():
    data = load("digits")
    assert data.kind == "image"
    assert data.input_shape == (1, 8, 8)
    assert sum(len(rows) for rows in data.rows.values()) == 1797
    assert int(data.train.inputs.max()) == 240


def _line(inputs, labels, weights):
    """The best line through 0 under weighted logistic loss, by Newton's method."""
    x = inputs.double()
    sign = labels.double() * 2 - 1
    theta = torch.zeros(x.shape[1], dtype=torch.float64)
    for _ in range(50):
        p = torch.sigmoid(-sign * (x @ theta))
        gradient = -(weights * p * sign) @ x
        hessian = (x * (weights * p * (1 - p))[:, None]).T @ x + 1e-9 * torch.eye(x.shape[1], dtype=torch.float64)
        theta = theta - torch.linalg.solve(hessian, gradient)
    return theta


def test_the_two_group_problem_has_the_answer_on_paper():
    data = load("synthetic", seed=1, options=Options(split=Split(test=0.4, validation=0.0)))
    sizes = torch.bincount(data.train.groups).double()
    ideal = len(data.train) / (len(sizes) * sizes[data.train.groups])  # both groups count alike
    assert ideal.mean() == pytest.approx(1.0)
    angles, accuracies = {}, {}
    for name, weights in (("uniform", torch.ones(len(data.train), dtype=torch.float64)), ("ideal", ideal)):
        theta = _line(data.train.inputs, data.train.labels, weights)
        angles[name] = math.degrees(math.atan2(theta[1], theta[0]))
        right = ((data.test.inputs.double() @ theta > 0).long() == data.test.labels).double()
        accuracies[name] = [right[data.test.groups == group].mean().item() for group in range(2)]
    assert angles["ideal"] == pytest.approx(45, abs=5)
    assert min(accuracies["ideal"]) == pytest.approx(Synthetic.best_worst_accuracy, abs=0.05)
    assert angles["uniform"] < 20
    assert accuracies["uniform"][0] > 0.9
    assert accuracies["uniform"][1] < 0.65


def test_the_noise_problem_has_the_answer_on_paper():
    options = Options(corruptions=(OneClass("2", 0.4),), split=Split(test=0.4, validation=0.0))
    data = load("synthetic-noise", options=options)
    right = (data.train.labels == data.true_labels).double()
    ideal = right / right.mean()  # 0 for wrong labels, the same for all others
    assert ideal.mean() == pytest.approx(1.0)
    assert bool((ideal[data.train.labels != data.true_labels] == 0).all())
    inputs, test = (
        torch.cat([part.inputs.double(), torch.ones(len(part), 1).double()], 1) for part in (data.train, data.test)
    )
    votes = [test @ _line(inputs, (data.train.labels == k).long(), ideal + 1e-12) for k in range(3)]
    assert (torch.stack(votes, 1).argmax(1) == data.test.labels).double().mean() == SyntheticNoise.best_accuracy


@pytest.mark.slow
def test_torch_and_numpy_alone_suffice_for_idx_and_binary_files(tmp_path):
    """MNIST and CIFAR train on machines without pandas, pyarrow or scikit-learn."""
    script = """
import struct, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pandas", "pyarrow", "sklearn", "scipy", "PIL", "rich", "matplotlib"):
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
from pathlib import Path
import numpy as np
from fairweight.data import Exemplar, Options, load
root = Path(sys.argv[1])
for name in ("mnist", "cifar10"):
    (root / name).mkdir()
idx = lambda a: b"\\0\\0\\x08" + bytes([a.ndim]) + struct.pack(f">{a.ndim}I", *a.shape) + a.tobytes()
for part in ("train", "t10k"):
    (root / "mnist" / f"{part}-images-idx3-ubyte").write_bytes(idx(np.zeros((200, 28, 28), np.uint8)))
    (root / "mnist" / f"{part}-labels-idx1-ubyte").write_bytes(idx((np.arange(200) % 10).astype(np.uint8)))
for file in [f"data_batch_{n}" for n in range(1, 6)] + ["test_batch"]:
    records = np.zeros((50, 3073), np.uint8)
    records[:, 0] = np.arange(50) % 10
    (root / "cifar10" / f"{file}.bin").write_bytes(records.tobytes())
for name in ("mnist", "cifar10"):
    data = load(name, data_dir=root, options=Options(exemplar=Exemplar(size=2)))
    assert len(data.exemplar) == 20
try:
    load("adult", data_dir=root)
except Exception as error:
    assert type(error).__name__ == "MissingData", error
print("fine")
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "fine", done.stderr
