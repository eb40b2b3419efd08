"""MNIST's, CIFAR's and CelebA's own files, made small by the tests."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pandas as pd
import pytest
import torch

from fairweight.data import Exemplar, ImageOptions, Options, Split, load
from fairweight.data.sets.celeba import ATTRIBUTES

_QUICK = Options(split=Split(validation=0.0), exemplar=Exemplar(size=1))


def _idx(array):
    return b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def _write_mnist(folder, packed):
    draw = np.random.default_rng(0)
    made = {}
    for part, count in (("train", 60), ("t10k", 20)):
        images = draw.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = (np.arange(count) % 10).astype(np.uint8)
        for name, array in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
            folder.mkdir(parents=True, exist_ok=True)
            content = _idx(array)
            if packed:
                (folder / f"{name}.gz").write_bytes(gzip.compress(content))
            else:
                (folder / name).write_bytes(content)
        made[part] = images
    return made


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("mnist", "mnist"),
        ("mnist", "MNIST/raw"),
        ("fashion-mnist", "fashion_mnist"),
        ("fashion_mnist", "fashion-mnist"),
    ],
)
def test_idx_packed_or_not(tmp_path, name, folder, packed):
    made = _write_mnist(tmp_path / folder, packed)
    data = load(name, data_dir=tmp_path, options=_QUICK)
    assert torch.equal(data.test.inputs[:, 0], torch.from_numpy(made["t10k"]))
    assert torch.equal(data.train.inputs[:, 0], torch.from_numpy(made["train"][data.rows["train"].numpy()]))
    assert data.test.labels.tolist() == list(range(10)) * 2
    assert data.label_names[9] == ("9" if name == "mnist" else "Ankle boot")  # in the published order
    assert data.group_names == ()
    assert data.train.groups is None


def test_mnist_as_parquet(tmp_path, png):
    made = _write_mnist(tmp_path / "idx" / "mnist", packed=False)
    (tmp_path / "mnist").mkdir()
    for part, images in (("train", made["train"]), ("test", made["t10k"])):
        frame = pd.DataFrame({"label": np.arange(len(images)) % 10})
        frame["image"] = [{"bytes": png(image), "path": None} for image in images]
        frame.to_parquet(tmp_path / "mnist" / f"{part}-00000-of-00001.parquet")
    ours, theirs = (load("mnist", data_dir=folder, options=_QUICK) for folder in (tmp_path, tmp_path / "idx"))
    assert torch.equal(ours.train.inputs, theirs.train.inputs)
    assert torch.equal(ours.train.labels, theirs.train.labels)
    assert ours.label_names == theirs.label_names


def _cifar(folder, form, classes, png):
    """Twenty train and ten test images in one of the published forms; gives the pixels."""
    draw = np.random.default_rng(4)
    made = {}
    folder.mkdir(parents=True)
    files = {"train": [f"data_batch_{n}" for n in range(1, 6)], "test": ["test_batch"]} if classes == 10 else {
        "train": ["train"], "test": ["test"]}  # fmt: skip
    for part, names in files.items():
        images = draw.integers(0, 256, (50 * len(names) if classes == 10 else 400, 3, 32, 32), dtype=np.uint8)
        fine = np.arange(len(images)) % classes
        coarse = fine // 5
        made[part] = images
        blocks = zip(
            names, np.split(images, len(names)), np.split(fine, len(names)), np.split(coarse, len(names)), strict=True
        )
        if form == "parquet":
            frame = pd.DataFrame({"label": fine} if classes == 10 else {"fine_label": fine, "coarse_label": coarse})
            frame["img"] = [{"bytes": png(image.transpose(1, 2, 0)), "path": ""} for image in images]
            frame.to_parquet(folder / f"{part}-00000-of-00001.parquet")
            continue
        for name, block, y, c in blocks:
            flat = block.reshape(len(block), -1)
            labels = {"labels": y} if classes == 10 else {"coarse_labels": c, "fine_labels": y}
            columns = [values.astype(np.uint8)[:, None] for values in labels.values()]
            (folder / f"{name}.bin").write_bytes(np.concatenate([*columns, flat], axis=1).tobytes())
    return made


@pytest.mark.parametrize("form", ["binary", "parquet"])
@pytest.mark.parametrize("classes", [10, 100])
def test_cifar_in_every_form(tmp_path, form, classes, png):
    made = _cifar(tmp_path / f"cifar{classes}", form, classes, png)
    data = load(f"cifar{classes}", data_dir=tmp_path, options=_QUICK)
    assert torch.equal(data.test.inputs, torch.from_numpy(made["test"]))
    assert torch.equal(data.train.inputs, torch.from_numpy(made["train"][data.rows["train"].numpy()]))
    assert data.test.labels.tolist() == (np.arange(len(made["test"])) % classes).tolist()
    if classes == 10:
        assert data.label_names[3] == "cat"
    else:
        coarse = load("cifar100", label="coarse_label", data_dir=tmp_path, options=_QUICK)
        assert coarse.test.labels.tolist() == (np.arange(400) % 100 // 5).tolist()


def test_cifar_in_the_folder_that_the_archive_unpacks_to(tmp_path, png):
    _cifar(tmp_path / "cifar10" / "cifar-10-batches-bin", "binary", 10, png)
    assert load("cifar10", data_dir=tmp_path, options=_QUICK).input_shape == (3, 32, 32)


def _celeba(folder, png, count=48):
    """A small set in the published layout; gives pixels [N, H, W, 3] and attributes [N, 40] of -1 and 1."""
    draw = np.random.default_rng(5)
    pixels = draw.integers(0, 256, (count, 218, 178, 3), dtype=np.uint8)
    values = draw.choice([-1, 1], (count, 40))
    values[:, ATTRIBUTES.index("Attractive")] = np.where(np.arange(count) % 2, 1, -1)
    values[:, ATTRIBUTES.index("Male")] = np.where(np.arange(count) // 2 % 2, 1, -1)
    parts = np.arange(count) * 3 // count  # the published split is by blocks
    (folder / "img_align_celeba").mkdir(parents=True)
    names = [f"{i + 1:06d}.jpg" for i in range(count)]
    for name, image in zip(names, pixels, strict=True):
        (folder / "img_align_celeba" / name).write_bytes(png(image))
    lines = [
        str(count),
        " ".join(ATTRIBUTES),
        *(f"{n} {' '.join(f'{v:2d}' for v in row)}" for n, row in zip(names, values, strict=True)),
    ]
    (folder / "list_attr_celeba.txt").write_text("\n".join(lines) + "\n")
    (folder / "list_eval_partition.txt").write_text("".join(f"{n} {p}\n" for n, p in zip(names, parts, strict=True)))
    return pixels, values, parts


def test_celeba_in_its_published_layout(tmp_path, png):
    pixels, values, parts = _celeba(tmp_path / "celeba", png)
    image = ImageOptions(crop=178, size=16)
    data = load("celeba", data_dir=tmp_path, options=Options(image=image))
    assert data.label_names == ("not Attractive", "Attractive")
    assert data.group_names == ("not Male", "Male")
    assert data.input_shape == (3, 16, 16)
    assert [len(part) for part in (data.train, data.validation, data.test)] == [16, 16, 16]
    assert torch.equal(data.exemplar.inputs, data.validation.inputs)  # as in the paper
    column = ATTRIBUTES.index("Attractive")
    assert data.test.labels.tolist() == (values[parts == 2, column] == 1).astype(int).tolist()
    whole = load("celeba", data_dir=tmp_path, options=Options(image=ImageOptions(crop=178)))
    assert torch.equal(whole.test.inputs, torch.from_numpy(pixels[parts == 2][:, 20:198].transpose(0, 3, 1, 2)))


@pytest.mark.parametrize(("target", "attribute"), [("Young", "Pale_Skin"), ("Smiling", "Male,Young")])
def test_celeba_with_any_target_and_attribute(tmp_path, png, target, attribute):
    _, values, parts = _celeba(tmp_path / "celeba", png, count=96)
    from fairweight.data import GroupOptions

    options = Options(image=ImageOptions(crop=178, size=8), groups=GroupOptions(below="keep"))
    data = load("celeba", label=target, group=attribute, data_dir=tmp_path, options=options)
    expected = (values[parts == 0, ATTRIBUTES.index(target)] == 1).astype(int)
    assert data.train.labels.tolist() == expected.tolist()
    assert data.label_names == (f"not {target}", target)
    assert len(data.group_names) == 2 ** len(attribute.split(","))


@pytest.mark.parametrize("form", ["list", "columns"])
def test_celeba_as_parquet(tmp_path, png, form):
    pixels, values, parts = _celeba(tmp_path / "published" / "celeba", png)
    (tmp_path / "celeba" / "data").mkdir(parents=True)
    for number, part in enumerate(("train", "validation" if form == "list" else "valid", "test")):
        rows = np.flatnonzero(parts == number)
        frame = pd.DataFrame({"image": [{"bytes": png(pixels[row]), "path": ""} for row in rows]})
        if form == "list":
            frame["attributes"] = [values[row].tolist() for row in rows]
        else:
            for place, name in enumerate(ATTRIBUTES):
                frame[name] = values[rows, place] == 1
        frame.to_parquet(tmp_path / "celeba" / "data" / f"{part}-00000-of-00001.parquet")
    options = Options(image=ImageOptions(crop=178, size=8))
    ours = load("celeba", data_dir=tmp_path, options=options)
    theirs = load("celeba", data_dir=tmp_path / "published", options=options)
    for part in ("train", "validation", "test"):
        assert torch.equal(getattr(ours, part).inputs, getattr(theirs, part).inputs)
        assert torch.equal(getattr(ours, part).labels, getattr(theirs, part).labels)
        assert torch.equal(getattr(ours, part).groups, getattr(theirs, part).groups)


def test_class_names_from_hugging_faces_metadata(tmp_path, png):
    import json

    import pyarrow as pa
    import pyarrow.parquet as pq

    images = [{"bytes": png(np.full((2, 2), i, np.uint8)), "path": ""} for i in range(30)]
    table = pa.table({"image": images, "label": [i % 3 for i in range(30)]})
    names = ["zebra", "ant", "bee"]
    meta = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(meta)}), tmp_path / "x.parquet")
    data = load(tmp_path / "x.parquet", options=Options(exemplar=Exemplar(size=1)))
    assert data.label_names == tuple(names)  # in the order of the class numbers
    assert data.train.labels.tolist() == [row % 3 for row in data.rows["train"].tolist()]
