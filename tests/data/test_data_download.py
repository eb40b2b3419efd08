"""Fetching from the hub, against a stand-in for its client: nothing here reaches the network."""

from __future__ import annotations

import hashlib
import json
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairweight.data import Exemplar, Options, Split, load
from fairweight.errors import DownloadFailed, MissingData, MissingDependency

_QUICK = Options(split=Split(validation=0.0), exemplar=Exemplar(size=1))


class _HubHTTPError(Exception):
    pass


class _Hub:
    """A repository of two parquet files; may lose the connection, or deliver damage."""

    def __init__(self, root: Path, png):
        self.files: dict[str, bytes] = {}
        for part, count in (("train", 40), ("test", 20)):
            frame = pd.DataFrame({"label": np.arange(count) % 10})
            frame["image"] = [{"bytes": png(np.full((4, 4), i, np.uint8)), "path": ""} for i in range(count)]
            frame.to_parquet(root / "x.parquet")
            self.files[f"mnist/{part}-00000-of-00001.parquet"] = (root / "x.parquet").read_bytes()
        self.files["README.md"] = b"words"
        self.fetched: list[str] = []
        self.fails_after = 10**6
        self.damage = False

    def module(self) -> types.ModuleType:
        made = types.ModuleType("huggingface_hub")
        made.HfApi = lambda: self
        made.hf_hub_download = self.download
        made.errors = types.SimpleNamespace(HfHubHTTPError=_HubHTTPError)
        return made

    def dataset_info(self, repository, files_metadata):
        assert repository == "ylecun/mnist"
        assert files_metadata
        siblings = [
            types.SimpleNamespace(rfilename=name, lfs={"sha256": hashlib.sha256(content).hexdigest()})
            for name, content in self.files.items()
        ]
        return types.SimpleNamespace(siblings=siblings, sha="abc123")

    def download(self, repository, filename, *, repo_type, revision, local_dir):
        assert (repo_type, revision) == ("dataset", "abc123")
        if len(self.fetched) >= self.fails_after:
            raise ConnectionError("the network is gone")
        self.fetched.append(filename)
        path = Path(local_dir) / filename
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.files[filename][: -1 if self.damage else None])
        return str(path)


@pytest.fixture
def hub(tmp_path, png, monkeypatch):
    made = _Hub(tmp_path, png)
    monkeypatch.setitem(sys.modules, "huggingface_hub", made.module())
    return made


def test_only_when_asked(hub, tmp_path):
    with pytest.raises(MissingData, match=r"put train-images.* download \(from ylecun/mnist\)"):
        load("mnist", data_dir=tmp_path, options=_QUICK)
    assert hub.fetched == []


def test_fetched_once_checked_and_recorded(hub, tmp_path):
    data = load("mnist", data_dir=tmp_path, download=True, options=_QUICK)
    assert len(data.test) == 20
    assert len(hub.fetched) == 2  # and not the README
    record = json.loads((tmp_path / "mnist" / "checksums.json").read_text())
    assert record["revision"] == "abc123"
    assert set(record["sha256"]) == set(hub.files) - {"README.md"}
    load("mnist", data_dir=tmp_path, download=True, options=_QUICK)
    load("mnist", data_dir=tmp_path, options=_QUICK)
    assert len(hub.fetched) == 2


def test_a_lost_connection_is_one_sentence_and_the_next_time_goes_on(hub, tmp_path):
    hub.fails_after = 1
    with pytest.raises(DownloadFailed, match="ask again to resume"):
        load("mnist", data_dir=tmp_path, download=True, options=_QUICK)
    assert not (tmp_path / "mnist" / "checksums.json").exists()
    hub.fails_after = 10
    load("mnist", data_dir=tmp_path, download=True, options=_QUICK)
    assert len(hub.fetched) == len(set(hub.fetched)) == 2  # the whole file was not fetched again


def test_half_a_set_is_never_taken_for_the_whole(hub, tmp_path):
    hub.fails_after = 1
    with pytest.raises(DownloadFailed):
        load("mnist", data_dir=tmp_path, download=True, options=_QUICK)
    with pytest.raises(MissingData):
        load("mnist", data_dir=tmp_path, options=_QUICK)
    path = next((tmp_path / "mnist").rglob("train-*.parquet"))
    path.rename(path.with_name("train-00000-of-00002.parquet"))
    (path.parent / "test-00000-of-00001.parquet").write_bytes(hub.files["mnist/test-00000-of-00001.parquet"])
    with pytest.raises(MissingData, match="1 of the 2 train files"):
        load("mnist", data_dir=tmp_path, options=_QUICK)


def test_damage_is_refused_and_removed(hub, tmp_path):
    hub.damage = True
    with pytest.raises(DownloadFailed, match="came damaged"):
        load("mnist", data_dir=tmp_path, download=True, options=_QUICK)
    assert list(tmp_path.rglob("mnist/**/*.parquet")) == []


def test_a_file_that_changed_since_is_refused(hub, tmp_path):
    load("mnist", data_dir=tmp_path, download=True, options=_QUICK)
    path = next((tmp_path / "mnist").rglob("test-*.parquet"))
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(DownloadFailed, match="delete it and ask for the download again"):
        load("mnist", data_dir=tmp_path, options=_QUICK)


def test_without_a_folder_or_without_the_package(tmp_path, monkeypatch, hub):
    with pytest.raises(MissingData, match="say where mnist is to be kept"):
        load("mnist", download=True)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingDependency, match=r"pip install 'fairweight\[download\]'"):
        load("mnist", data_dir=tmp_path, download=True)


def test_sets_that_have_no_repository_say_what_to_put_where(tmp_path, hub):
    with pytest.raises(MissingData, match=r"adult\.data and adult\.test"):
        load("adult", data_dir=tmp_path, download=True)
