"""Where real sets lie, and tables and images that tests make for themselves."""

from __future__ import annotations

import io
import os
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from fairweight.errors import FairweightError


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's cache, or finds the user's data by accident."""
    monkeypatch.setenv("FAIRWEIGHT_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("FAIRWEIGHT_DATA", raising=False)


_NAMED = os.environ.get("FAIRWEIGHT_DATA")
_REAL = [Path(entry) for entry in _NAMED.split(os.pathsep)] if _NAMED else []
_REAL.append(Path(__file__).resolve().parents[2].parent / "shared" / "data")


@pytest.fixture
def real() -> Callable[[str], Path]:
    """The data folder that holds a real set; a test that needs an absent one is skipped."""

    def find(name: str) -> Path:
        for folder in _REAL:
            if (folder / name).is_dir():
                return folder
        pytest.skip(f"the real set {name} is not in FAIRWEIGHT_DATA or ../shared/data")

    return find


def make_people(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    """A table with every kind of column."""
    draw = np.random.default_rng(seed)
    age = draw.integers(18, 90, rows)
    hours = draw.normal(40, 10, rows).round(1)
    job = draw.choice(["clerk", "cook", "nurse", "pilot"], rows)
    sex = draw.choice(["F", "M"], rows)
    race = draw.choice(["a", "b", "c"], rows, p=[0.5, 0.3, 0.2])
    score = (age - 50) / 20 + (hours - 40) / 10 + (job == "pilot") + draw.normal(0, 1, rows)
    joined = pd.Timestamp("2001-01-01") + pd.to_timedelta(draw.integers(0, 3000, rows), unit="D")
    return pd.DataFrame(
        {
            "id": np.arange(rows) + 1000,
            "age": age,
            "hours": hours,
            "job": job,
            "joined": joined.strftime("%Y-%m-%d"),
            "sex": sex,
            "race": race,
            "income": np.where(score > 0, "high", "low"),
        }
    )


@pytest.fixture
def people() -> pd.DataFrame:
    return make_people()


def _encoded(pixels: np.ndarray, form: str = "PNG") -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, form)
    return out.getvalue()


@pytest.fixture
def png() -> Callable[..., bytes]:
    """Encodes pixels, [H, W] or [H, W, 3]."""
    return _encoded


@pytest.fixture
def pictures(tmp_path: Path) -> tuple[Path, np.ndarray]:
    """A folder of two classes with 20 images each, and their pixels [40, 3, 6, 5] in reading order."""
    draw = np.random.default_rng(1)
    pixels = draw.integers(0, 256, (40, 6, 5, 3), dtype=np.uint8)
    folder = tmp_path / "pictures"
    for place, image in enumerate(pixels):
        path = folder / ("cat" if place < 20 else "dog") / f"{place:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_encoded(image))
    return folder, pixels.transpose(0, 3, 1, 2)


ROWS = 120


@dataclass
class Desk:
    """A folder to put bad files in."""

    folder: Path
    patch: pytest.MonkeyPatch

    def frame(self) -> pd.DataFrame:
        draw = np.random.default_rng(0)
        return pd.DataFrame(
            {
                "age": draw.integers(20, 60, ROWS),
                "hours": draw.normal(40, 5, ROWS).round(2),
                "job": draw.choice(["cook", "nurse"], ROWS),
                "sex": ["F", "M"] * (ROWS // 2),
                "paid": ["no", "no", "yes", "yes"] * (ROWS // 4),
            }
        )

    def put(self, name: str, content: bytes | str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def csv(self, frame: pd.DataFrame | None = None, name: str = "t.csv", **form) -> Path:
        return self.put(name, (self.frame() if frame is None else frame).to_csv(index=False, **form))

    def image(self, size=(6, 5), mode="RGB", form="PNG") -> bytes:
        out = io.BytesIO()
        Image.new(mode, size[::-1], 7).save(out, form)
        return out.getvalue()

    def pictures(self, name="pictures", count=12, **form) -> Path:
        for place in range(count):
            self.put(f"{name}/{'ab'[place % 2]}/{place:02d}.png", self.image(**form))
        return self.folder / name

    def listed(self, files: list[str | None]) -> Path:
        self.pictures()
        return self.csv(
            pd.DataFrame({"file_name": files, "paid": ["no", "yes"] * (len(files) // 2)}), "pictures/metadata.csv"
        )

    def mnist(self, images: np.ndarray | None = None, labels: np.ndarray | None = None) -> Path:
        for part in ("train", "t10k"):
            for kind, array in (
                ("images-idx3", np.zeros((60, 4, 4), np.uint8) if images is None else images),
                ("labels-idx1", (np.arange(60) % 10).astype(np.uint8) if labels is None else labels),
            ):
                head = b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
                self.put(f"mnist/{part}-{kind}-ubyte", head + array.tobytes())
        return self.folder


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A folder to put bad files in, and an empty cache."""
    monkeypatch.setenv("FAIRWEIGHT_CACHE", str(tmp_path / "cache of this test"))
    (tmp_path / "desk").mkdir()
    return Desk(tmp_path / "desk", monkeypatch)


@pytest.fixture
def refused(desk: Desk, tmp_path: Path) -> Callable[..., None]:
    """Does something bad, and expects one sentence that names the next step, and nothing half-written."""

    def check(act: Callable[[Desk], object], error: type[FairweightError], words: str) -> None:
        with pytest.raises(error) as caught:
            act(desk)
        desk.patch.undo()
        sentence = str(caught.value)
        assert re.search(words, sentence), sentence
        assert sentence.endswith(".")
        assert "\n" not in sentence
        assert len(sentence) < 400
        left = list((tmp_path / "cache of this test").glob("*"))
        assert all((path / "facts.json").exists() and not path.name.startswith(".") for path in left)

    return check
