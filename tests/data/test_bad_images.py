"""Bad images and published files: one sentence that names the next step, and nothing half-written."""

from __future__ import annotations

import errno
import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairweight import errors
from fairweight.data import ImageOptions, Options, Split, load
from fairweight.data.image import pixels as cache

Desk = Any  # see conftest.py
ROWS = 120


def _forbidden(*_args, **_kwargs):
    raise PermissionError(errno.EACCES, "Permission denied")


def _cut(path: Path, count: int) -> Path:
    path.write_bytes(path.read_bytes()[:-count])
    return path


def _no_permission_to_list(desk: Desk):
    folder = desk.pictures()
    desk.patch.setattr(Path, "iterdir", _forbidden)
    return load(folder)


def _full_disk(desk: Desk):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    desk.patch.setattr(os, "posix_fallocate", full)
    return load(desk.pictures(), options=Options(image=ImageOptions(memory_gb=1e-9)))


def _almost_full_disk(desk: Desk):
    usage = type("Usage", (), {"free": 10})
    desk.patch.setattr(cache.shutil, "disk_usage", lambda _: usage)
    return load(desk.pictures(), options=Options(image=ImageOptions(memory_gb=1e-9)))


def _damaged(desk: Desk, content: bytes):
    folder = desk.pictures()
    desk.put("pictures/a/04.png", content)
    return load(folder)


def _image_parquet(desk: Desk, entry):
    good = [{"bytes": desk.image(), "path": ""} for _ in range(11)]
    frame = pd.DataFrame({"img": [*good, entry], "label": ["a", "b"] * 6})
    frame.to_parquet(desk.folder / "i.parquet")
    return load(desk.folder / "i.parquet")


def _cifar(desk: Desk, record: np.ndarray, cut: int = 0):
    for name in [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]:
        desk.put(f"cifar10/{name}.bin", record.tobytes()[: -cut or None])
    return load("cifar10", data_dir=desk.folder)


def _celeba(desk: Desk, second_line: str, parts: str = "0"):
    desk.put("celeba/img_align_celeba/000001.jpg", desk.image())
    desk.put("celeba/list_attr_celeba.txt", f"1\n{second_line}\n000001.jpg" + " 1" * 40 + "\n")
    desk.put("celeba/list_eval_partition.txt", f"000001.jpg {parts}\n")
    return load("celeba", data_dir=desk.folder)


def _forty() -> str:
    from fairweight.data.sets.celeba import ATTRIBUTES

    return " ".join(ATTRIBUTES)


def _celeba_folder(desk: Desk) -> Path:
    with pytest.raises(errors.UnreadableFile):
        _celeba(desk, _forty())
    for number, part in ((2, 1), (3, 2)):
        desk.put(f"celeba/img_align_celeba/00000{number}.jpg", desk.image())
        for name, line in (("attr", " 1" * 40), ("eval_partition", f" {part}")):
            path = desk.folder / "celeba" / (f"list_{name}_celeba.txt" if name == "attr" else f"list_{name}.txt")
            path.write_text(path.read_text() + f"00000{number}.jpg{line}\n")
    return desk.folder


CASES: dict[str, tuple[Callable[[Desk], object], type[Exception], str]] = {
    # Images
    "images without classes": (
        lambda d: load(d.put("x/a.png", d.image()).parent),
        errors.UnreadableFile,
        "1 images and no subfolders",
    ),
    "a folder that may not be read": (_no_permission_to_list, errors.UnreadableFile, "change its permissions"),
    "a corrupt image": (
        lambda d: _damaged(d, b"GIF89a nonsense"),
        errors.UnreadableImage,
        r"04\.png cannot be decoded",
    ),
    "a truncated image": (
        lambda d: _damaged(d, d.image((60, 60), form="BMP")[:-500]),
        errors.UnreadableImage,
        "decoded",
    ),
    "an image of no bytes": (lambda d: _damaged(d, b""), errors.UnreadableImage, "unreadable=drop"),
    "images of different sizes": (lambda d: _damaged(d, d.image((9, 9))), errors.UnreadableImage, "image.size"),
    "an image of 32 bits": (
        lambda d: load(d.pictures(mode="I", form="TIFF")),
        errors.UnreadableImage,
        "convert it to 8 bits, or .*unreadable=drop",
    ),
    "a crop larger than the image": (
        lambda d: load(d.pictures(), options=Options(image=ImageOptions(crop=64))),
        errors.UnreadableImage,
        "lower crop",
    ),
    "an image of no size": (
        lambda d: load(d.pictures(), options=Options(image=ImageOptions(size=0))),
        errors.BadInput,
        "cannot be 0",
    ),
    "one class of images": (
        lambda d: ([d.put(f"x/a/{i}.png", d.image()) for i in range(9)], load(d.folder / "x")),
        errors.BadLabel,
        "one class",
    ),
    "a list that names an absent image": (
        lambda d: load(d.listed(["a/00.png", "a/99.png"] * 6).parent, label="paid"),
        errors.UnreadableImage,
        r"no image .*99\.png.*unreadable=drop",
    ),
    "a list with an entry that is no file name": (
        lambda d: load(d.listed(["a/00.png", "unknown", *["b/01.png"] * 10]).parent, label="paid"),
        errors.UnreadableImage,
        "no image .*unknown",
    ),
    "a list with a gap": (
        lambda d: load(d.listed(["a/00.png", None, *["b/01.png"] * 10]).parent, label="paid"),
        errors.UnreadableImage,
        "row 1 of the list",
    ),
    "a list without files": (
        lambda d: (
            d.pictures(),
            load(
                d.csv(name="pictures/metadata.csv"),
                label="paid",
                options=Options(image=ImageOptions(file_column="where")),
            ),
        ),
        errors.MissingColumn,
        "no column 'where'",
    ),
    "test images of another size": (
        lambda d: load(d.pictures(), options=Options(split=Split(test=str(d.pictures("other", size=(8, 8)))))),
        errors.UnreadableImage,
        "images of test are 3x8x8 and of train 3x6x5",
    ),
    "parquet whose images lie elsewhere": (
        lambda d: _image_parquet(d, {"bytes": None, "path": "x.png"}),
        errors.UnreadableImage,
        "has no bytes",
    ),
    "parquet with a corrupt image": (
        lambda d: _image_parquet(d, {"bytes": b"junk", "path": ""}),
        errors.UnreadableImage,
        "image 11 of i.parquet",
    ),
    "a full disk": (_full_disk, errors.NoSpace, "is full"),
    "an almost full disk": (_almost_full_disk, errors.NoSpace, "is full"),
    "a cache folder that is a file": (
        lambda d: load(
            d.pictures(), options=Options(image=ImageOptions(memory_gb=1e-9, cache_dir=str(d.put("cache", "x"))))
        ),
        errors.NoSpace,
        "cannot write",
    ),
    # The published forms
    "an idx file cut short": (
        lambda d: (
            d.mnist(),
            _cut(d.folder / "mnist" / "train-images-idx3-ubyte", 3),
            load("mnist", data_dir=d.folder),
        ),
        errors.UnreadableFile,
        "cut short",
    ),
    "not an idx file": (
        lambda d: (d.mnist(), d.put("mnist/t10k-labels-idx1-ubyte", "hello"), load("mnist", data_dir=d.folder)),
        errors.UnreadableFile,
        "not an idx file",
    ),
    "a packed idx file cut short": (
        lambda d: (
            d.mnist(),
            d.put("mnist/t10k-labels-idx1-ubyte", gzip.compress(b"x" * 99)[:20]),
            load("mnist", data_dir=d.folder),
        ),
        errors.UnreadableFile,
        "not a whole gzip",
    ),
    "more images than labels": (
        lambda d: load("mnist", data_dir=d.mnist(labels=np.zeros(3, np.uint8))),
        errors.UnreadableFile,
        "give a pair",
    ),
    "a digit above 9": (
        lambda d: load("mnist", data_dir=d.mnist(labels=np.full(60, 12, np.uint8))),
        errors.UnreadableFile,
        "the label 12",
    ),
    "a CIFAR file cut short": (
        lambda d: _cifar(d, np.zeros((5, 3073), np.uint8), cut=9),
        errors.UnreadableFile,
        "not a multiple of 3,073",
    ),
    "a CIFAR label above 9": (
        lambda d: _cifar(d, np.full((5, 3073), 77, np.uint8)),
        errors.UnreadableFile,
        "the label 77",
    ),
    "an attribute that CelebA lacks": (
        lambda d: load("celeba", label="Nice", data_dir=_celeba_folder(d)),
        errors.UnknownName,
        "no attribute 'Nice'",
    ),
    "CelebA's attributes without names": (lambda d: _celeba(d, "a b c"), errors.UnreadableFile, "second line"),
    "CelebA without test images": (lambda d: _celeba(d, _forty()), errors.UnreadableFile, "without images"),
    "a file that is not Adult": (
        lambda d: (
            d.put("adult/adult.data", "1,2,3\n"),
            d.put("adult/adult.test", "1,2,3\n"),
            load("adult", data_dir=d.folder),
        ),
        errors.UnreadableFile,
        "not the published file of UCI Adult",
    ),
    "a file that is not COMPAS": (
        lambda d: (d.put("compas/compas-scores-two-years.csv", "a,b\n1,2\n"), load("compas", data_dir=d.folder)),
        errors.UnreadableFile,
        "not ProPublica's",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_one_sentence_and_nothing_half_written(case, refused):
    refused(*CASES[case])
