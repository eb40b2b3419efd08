"""Files that are made to hurt: refused before they take memory, time or another program."""

from __future__ import annotations

import gzip
import os
import pickle
import resource
import shutil
import struct
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from fairweight.data import ImageOptions, Options, load
from fairweight.data.files import bounded, open_regular, read_bytes, read_text
from fairweight.data.image.decode import Decoder, Form, Picture
from fairweight.errors import MissingData, UnreadableFile, UnreadableImage

MB = 1_000_000


def bomb(path: Path, megabytes: int) -> Path:
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b"a,b\n")
        for _ in range(megabytes):
            file.write(b"1,2\n" * (MB // 4))
    return path


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_a_packed_bomb_is_counted_and_not_kept(tmp_path):
    path = bomb(tmp_path / "bomb.csv.gz", 250)
    assert path.stat().st_size < 3 * MB
    before = peak()
    with bounded(0.1), pytest.raises(UnreadableFile, match=r"more than 0\.1 GB; .*raise max_file_gb"):
        read_bytes(path)
    assert peak() - before < 60 * MB
    with pytest.raises(UnreadableFile, match="raise max_file_gb"):
        load(path, label="a", options=Options(max_file_gb=0.1))


def test_a_file_in_several_packed_parts_is_read_whole_and_counted_whole(tmp_path):
    path = tmp_path / "parts.gz"
    path.write_bytes(gzip.compress(b"x" * MB) + bytes(3) + gzip.compress(b"y" * MB))
    with bounded(0.0025):
        assert len(read_bytes(path)) == 2 * MB
    with bounded(0.0015), pytest.raises(UnreadableFile, match="max_file_gb"):
        read_bytes(path)


def test_a_large_plain_file_is_not_read(tmp_path):
    path = tmp_path / "sparse.csv"
    with path.open("wb") as file:
        file.truncate(10_000 * MB)  # a hole: it takes no place on the disk
    before = peak()
    with pytest.raises(UnreadableFile, match="more than 2 GB"):
        read_bytes(path)
    assert peak() - before < 20 * MB


def test_a_parquet_file_of_repeated_values_is_counted_unpacked(tmp_path):
    table = pa.table({"a": pa.array(np.zeros(2 * MB, dtype=np.int64))})
    parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(UnreadableFile, match="max_file_gb"):
        load(tmp_path / "t.parquet", label="a", options=Options(max_file_gb=0.001))


@pytest.mark.parametrize("what", ["pipe", "device", "link"])
def test_only_regular_files_are_opened(tmp_path, what, monkeypatch):
    path = tmp_path / "x"
    if what == "pipe":
        os.mkfifo(path)
    else:
        path = Path("/dev/zero")
        if what == "link":
            (tmp_path / "x").symlink_to(path)
            path = tmp_path / "x"
    opened = []
    monkeypatch.setattr("fairweight.data.files.os.open", lambda *a, **k: opened.append(a))
    with pytest.raises(UnreadableFile, match=r"device, not a file; copy its content into a file\.$"):
        open_regular(path)
    assert opened == []


def test_a_file_that_turns_into_a_pipe_is_not_waited_for(tmp_path, monkeypatch):
    path, pipe = tmp_path / "x", tmp_path / "pipe"
    path.write_bytes(b"1")
    os.mkfifo(pipe)
    real = os.open
    monkeypatch.setattr("fairweight.data.files.os.open", lambda name, flags: real(pipe, flags))
    with pytest.raises(UnreadableFile, match="not a file"):
        open_regular(path)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "no/where"])
def test_names_that_no_file_has(tmp_path, name):
    with pytest.raises((UnreadableFile, MissingData)):
        read_bytes(tmp_path / name)


def _header(width: int, height: int) -> bytes:
    """A PNG of this size whose pixels are one packed row of zeros."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [13_000, 60_000])
def test_a_huge_image_is_refused_by_its_header(tmp_path, side):
    path = tmp_path / "huge.png"
    path.write_bytes(_header(side, side))
    before = peak()
    with pytest.raises(UnreadableImage, match=r"more than 50 megapixels; raise image\.max_megapixels"):
        Decoder(Form()).all(lambda shape: np.empty(shape, np.uint8), [Picture(path, "huge.png")])
    assert peak() - before < 20 * MB


def test_the_limit_of_images_can_be_raised_and_large_ones_left_out(tmp_path):
    for place in range(24):
        path = tmp_path / "ab"[place % 2] / f"{place}.png"
        path.parent.mkdir(exist_ok=True)
        size = (300, 300) if place == 3 else (8, 8)
        Image.new("RGB", size, place).save(path)
    few = ImageOptions(size=8, max_megapixels=0.05)
    with pytest.raises(UnreadableImage, match="max_megapixels"):
        load(tmp_path, options=Options(image=few))
    dropped = load(tmp_path, options=Options(image=ImageOptions(size=8, max_megapixels=0.05, unreadable="drop")))
    kept = load(tmp_path, options=Options(image=ImageOptions(size=8)))
    raised = load(tmp_path, options=Options(image=ImageOptions(size=8, unreadable="drop")))
    assert [sum(map(len, data.rows.values())) for data in (dropped, kept, raised)] == [23, 24, 24]


def test_no_other_program_is_started_for_an_image(tmp_path, monkeypatch):
    (tmp_path / "x.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n")
    monkeypatch.setattr("subprocess.Popen", lambda *a, **k: pytest.fail("a program was started"))
    monkeypatch.setattr("subprocess.check_call", lambda *a, **k: pytest.fail("a program was started"))
    with pytest.raises(UnreadableImage, match="cannot be decoded"):
        Decoder(Form()).all(lambda shape: np.empty(shape, np.uint8), [Picture(tmp_path / "x.png", "x.png")])


def test_names_that_are_no_utf8_or_hold_escapes_are_read_and_spelled(tmp_path):
    for place in range(24):
        folder = tmp_path / os.fsdecode([b"caf\xe9", b"red\x1b[31m"][place % 2])
        folder.mkdir(exist_ok=True)
        Image.new("RGB", (8, 8), place * 9).save(folder / os.fsdecode(b"%d\xff.png" % place))
    found = load(tmp_path)
    assert found.label_names == ("caf\\xe9", "red\\x1b[31m")
    assert all(note.isprintable() for note in found.notes)
    found.fingerprint.encode()


@pytest.mark.parametrize("content", [None, b"", b"PAR1", b"1;2\n3;4\n"])
def test_a_table_may_be_called_by_bytes_that_are_no_utf8(tmp_path, content):
    frame = pd.DataFrame({"x": [1, 5, 2, 7] * 20, "y": ["a", "b", "b", "a"] * 20})
    for suffix in (".csv", ".parquet"):
        path = tmp_path / os.fsdecode(b"caf\xe9\x1b[31m" + suffix.encode())
        if content is not None:
            path.write_bytes(content)
            with pytest.raises(UnreadableFile) as refused:
                load(path, label="y")
            assert str(refused.value).isprintable()
            continue
        if suffix == ".csv":
            frame.to_csv(path, index=False, sep=";", encoding="utf-16")
        else:
            frame.to_parquet(tmp_path / "t")
            (tmp_path / "t").rename(path)
        found = load(path, label="y")
        assert all(text.isprintable() for text in (found.name, *found.notes))


def test_a_folder_of_images_may_not_hold_a_zero_byte(tmp_path):
    frame = pd.DataFrame({"file": ["a.png", "b.png"] * 9, "label": ["a", "b"] * 9})
    with pytest.raises(UnreadableImage, match="no image"):
        load(frame, options=Options(image=ImageOptions(file_column="file", root="x\0y")))


def test_control_characters_in_a_table_are_spelled(tmp_path):
    frame = pd.DataFrame(
        {"x": [1, 5, 2] * 26 + [3, 1], "sex": ["F\x1b[2J", "M"] * 40, "y\x07": ["a\x00b", "c", "c", "a\x00b"] * 20}
    )
    found = load(frame, label="y\\x07", group="sex")
    assert found.label_names == ("a\\x00b", "c")
    assert found.group_names == ("F\\x1b[2J", "M")


def test_a_pickle_among_cifars_files_is_not_opened(tmp_path):
    for name in [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]:
        path = tmp_path / "cifar10" / "cifar-10-batches-py" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps({b"data": os.system}))
    with pytest.raises(MissingData, match=r"put data_batch_1\.bin"):
        load("cifar10", data_dir=tmp_path)


@pytest.mark.parametrize(("name", "file"), [("adult", "adult.data"), ("compas", "compas-scores-two-years.csv")])
def test_named_sets_go_through_the_door(tmp_path, name, file, monkeypatch):
    folder = tmp_path / name
    folder.mkdir()
    for each in {file, "adult.test"} if name == "adult" else {file}:
        (folder / each).write_bytes(b"x" * 2000)
    with pytest.raises(UnreadableFile, match="max_file_gb"):
        load(name, data_dir=tmp_path, options=Options(max_file_gb=1e-6))


def test_text_that_is_no_utf8(tmp_path):
    (tmp_path / "names.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(UnreadableFile, match="not written in utf-8"):
        read_text(tmp_path / "names.txt")


def test_a_full_folder_is_left_as_it_was(tmp_path):
    shutil.copy(__file__, tmp_path / "t.csv")
    with pytest.raises(UnreadableFile):
        load(tmp_path / "t.csv", label="a")
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
