"""Decoded images are kept: the cache, streaming from it, and what happens where it cannot be written."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.image_sets import note, whole

from fairweight.data import Exemplar, ImageOptions, Options, Streamed, load
from fairweight.data.image import decode
from fairweight.data.image import pixels as cache
from fairweight.errors import NoSpace, UnreadableImage
from fairweight.types import Batch, Samples


def test_the_second_load_decodes_nothing(pictures, monkeypatch):
    folder, _ = pictures
    first = load(folder)
    assert note(first, "40 images were decoded")
    monkeypatch.setattr(decode.Decoder, "one", lambda *_: pytest.fail("decoded again"))
    second = load(folder)
    assert torch.equal(whole(first), whole(second))
    assert first.fingerprint == second.fingerprint


def test_a_changed_image_is_decoded_again(pictures, png):
    folder, _ = pictures
    load(folder)
    path = sorted(folder.rglob("*.png"))[0]
    path.write_bytes(png(np.full((6, 5, 3), 9, np.uint8)))
    assert int(whole(load(folder))[0].min()) == 9


@pytest.mark.parametrize("home", ["", "ann", None])
def test_the_note_on_the_cache_names_no_home(pictures, tmp_path, monkeypatch, home):
    """Neither one whose name begins like another's, nor one that is not there."""

    def found():
        if home is None:
            raise RuntimeError("Could not determine home directory.")
        return tmp_path / home

    monkeypatch.setattr(cache.Path, "home", found)
    folder = tmp_path / "anna" / "kept"
    data = load(pictures[0], options=Options(image=ImageOptions(cache_dir=str(folder))))
    assert any(f" kept in {'~/anna/kept' if home == '' else folder} for" in note for note in data.notes)


def test_without_the_cache_nothing_is_written(pictures, tmp_path):
    folder, pixels = pictures
    image = ImageOptions(cache=False, cache_dir=str(tmp_path / "never"))
    data = load(folder, options=Options(image=image))
    assert torch.equal(whole(data), torch.from_numpy(pixels))
    assert not (tmp_path / "never").exists()


def test_a_small_part_is_decoded_on_the_spot(pictures, tmp_path):
    folder, pixels = pictures
    image = ImageOptions(cache_dir=str(tmp_path / "never"))
    data = load(folder, options=Options(limit=16, image=image, exemplar=Exemplar(size=1)))
    assert torch.equal(data.train.inputs, torch.from_numpy(pixels[data.rows["train"].numpy()]))
    assert not (tmp_path / "never").exists()


class TestStreaming:
    def test_it_equals_what_is_held_in_memory(self, pictures):
        folder, pixels = pictures
        held = load(folder)
        streamed = load(folder, options=Options(image=ImageOptions(memory_gb=1e-9)))
        assert isinstance(held.train, Batch)
        assert isinstance(streamed.train, Streamed)
        assert isinstance(streamed.train, Samples)
        assert note(streamed, "stream from a memory-mapped file")
        index = torch.tensor([5, 0, 3, 5])
        ours, theirs = streamed.train.take(index), held.train.take(index)
        assert torch.equal(ours.inputs, theirs.inputs)
        assert torch.equal(ours.labels, theirs.labels)
        assert torch.equal(ours.rows, theirs.rows)
        assert streamed.preprocessing == held.preprocessing
        assert streamed.fingerprint == held.fingerprint
        assert torch.equal(whole(streamed), torch.from_numpy(pixels))

    def test_writing_to_a_batch_never_reaches_the_file(self, pictures):
        data = load(pictures[0], options=Options(image=ImageOptions(memory_gb=1e-9)))
        before = data.train.take(torch.arange(4)).inputs.clone()
        data.train.take(torch.arange(4)).inputs.zero_()
        assert torch.equal(data.train.take(torch.arange(4)).inputs, before)

    def test_reading_ahead_equals_reading(self, pictures):
        data = load(pictures[0], options=Options(image=ImageOptions(memory_gb=1e-9)))
        order = [torch.randperm(len(data.train))[:7] for _ in range(12)]
        ahead = data.train.read_ahead()
        for index, batch in zip(order, ahead.batches(order), strict=True):
            here = data.train.take(index)
            assert torch.equal(batch.inputs, here.inputs)
            assert torch.equal(batch.labels, here.labels)
            assert torch.equal(batch.rows, index)
        ahead.close()

    def test_reading_ahead_may_stop_early_and_passes_errors_on(self, pictures):
        data = load(pictures[0], options=Options(image=ImageOptions(memory_gb=1e-9)))
        ahead = data.train.read_ahead()
        batches = ahead.batches([torch.arange(3)] * 20)
        next(batches)
        batches.close()
        with pytest.raises(IndexError):
            list(ahead.batches([torch.tensor([10**6])]))
        ahead.close()


class TestCache:
    def _fill(self, allocate):
        allocate((2, 1, 2, 2))[:] = 5
        return {"bad": []}

    def test_an_entry_is_whole_or_not_there(self, tmp_path):
        def fails(allocate):
            allocate((2, 1, 2, 2))
            raise UnreadableImage("x")

        with pytest.raises(UnreadableImage):
            cache.write_entry(tmp_path, "key", fails)
        assert list(tmp_path.iterdir()) == []
        entry = cache.write_entry(tmp_path, "key", self._fill)
        assert np.load(entry / cache.PIXELS).sum() == 40
        assert [path.name for path in tmp_path.iterdir()] == ["key"]

    def test_a_full_disk_leaves_nothing(self, tmp_path, monkeypatch):
        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(cache.os, "posix_fallocate", full)
        with pytest.raises(NoSpace, match="is full"):
            cache.write_entry(tmp_path, "key", self._fill)
        assert list(tmp_path.iterdir()) == []

    def test_two_writers_agree(self, tmp_path):
        def slower(allocate):
            cache.write_entry(tmp_path, "key", self._fill)
            return self._fill(allocate)

        assert cache.facts(cache.write_entry(tmp_path, "key", slower)) == {"bad": []}
        assert [path.name for path in tmp_path.iterdir()] == ["key"]

    @pytest.mark.parametrize("name", [cache.PIXELS, cache.SUMS, cache.FACTS])
    @pytest.mark.parametrize("size", [0, 50, 150, None])
    def test_a_damaged_entry_is_written_anew(self, pictures, tmp_path, name, size):
        options = Options(image=ImageOptions(cache_dir=str(tmp_path / "kept")))
        before = load(pictures[0], options=options)
        (entry,) = (tmp_path / "kept").iterdir()
        kept = (entry / name).read_bytes()
        if size is None:
            (entry / name).unlink()
        else:
            (entry / name).write_bytes(kept[:size])
        again = load(pictures[0], options=options)
        assert torch.equal(whole(again), whole(before))
        assert again.preprocessing == before.preprocessing
        assert note(again, "images were decoded")
        assert (entry / name).read_bytes() == kept

    def test_what_a_killed_writer_left_goes_and_what_a_living_one_writes_stays(self, tmp_path, monkeypatch):
        (tmp_path / ".writing-dead").mkdir()
        (tmp_path / ".writing-dead" / cache.PIXELS).write_bytes(b"half")
        monkeypatch.setattr(cache, "_YOUNG", 0)

        def beside(allocate):
            cache.write_entry(tmp_path, "other", self._fill)  # must leave this one's folder alone
            return self._fill(allocate)

        cache.write_entry(tmp_path, "key", beside)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["key", "other"]

    def test_a_full_disk_is_a_note_when_memory_suffices_and_an_error_when_not(self, pictures, monkeypatch):
        folder, pixels = pictures

        def full(*_):
            raise NoSpace("the disk is full")

        monkeypatch.setattr(cache, "write_entry", full)
        data = load(folder)
        assert any("were not kept for the next time" in note for note in data.warnings)
        assert torch.equal(whole(data), torch.from_numpy(pixels))
        dropping = load(folder, options=Options(image=ImageOptions(unreadable="drop")))
        assert any("were not kept for the next time" in note for note in dropping.warnings)
        with pytest.raises(NoSpace):
            load(folder, options=Options(image=ImageOptions(memory_gb=1e-9)))
