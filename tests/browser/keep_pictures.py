"""Put the screenshots that the browser tests have kept into the documentation, small.

pytest tests/browser && python tests/browser/keep_pictures.py
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "runs" / "browser"
# By the beginning of its name: where a picture goes, and how wide it is there at most.
PLACES = {"gallery_": (ROOT / "docs" / "gallery", 700), "docs_": (ROOT / "docs" / "pictures", 1000)}


def main() -> None:
    for start, (folder, width) in PLACES.items():
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(KEPT.glob(f"{start}*.png")):
            image = Image.open(path).convert("RGB")
            if image.width > width:
                image = image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)
            place = folder / path.name.removeprefix(start)
            image.quantize(128, Image.Quantize.MAXCOVERAGE).save(place, optimize=True)
            print(f"{place.relative_to(ROOT)}: {place.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
