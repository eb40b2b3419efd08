"""Write the pages of the gallery: audits of three data sets, a comparison and a trade-off, without single rows.

    FAIRWEIGHT_DATA=data python benchmarks/gallery.py --out docs/gallery

Runs that are finished in `--runs` are taken as they are. Digits keeps its rows, which show nobody; its page carries
fewer pictures than usual. Takes about five minutes on one core.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

AUDITS = {
    "adult": ["adult"],
    "compas": ["compas", "--criterion", "equalized-odds", "--budget", "1"],
    "digits": ["digits", "--method", "forml", "--corrupt", "uniform-flips:fraction=0.15", "--epochs", "20"],
}
WITH_ROWS = {"digits": ["--with-rows", "--images", "200"]}
COMPARED = ["compas", "--methods", "uniform,forml,group-dro,jtt,reweighing,focal", "--seeds", "5", "--epochs", "8"]
SWEPT = ["compas", "--trade-off", "--epochs", "8", "--seed", "1"]
MOST = 400_000  # bytes of a page


def fairweight(*words: str | Path) -> None:
    """Run a command as a user would; its text goes to stderr."""
    subprocess.run([sys.executable, "-m", "fairweight", *map(str, words)], check=True, stdout=sys.stderr)  # noqa: S603


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/gallery"))
    parser.add_argument("--runs", type=Path, default=Path("runs/gallery"))
    given = parser.parse_args()
    out, runs = given.out, given.runs
    out.mkdir(parents=True, exist_ok=True)
    for name, words in AUDITS.items():
        fairweight("train", *words, "--out", runs / name)
        fairweight("audit", runs / name, "--share", out / f"{name}.html", *WITH_ROWS.get(name, []))
    fairweight("compare", *COMPARED, "--out", runs / "compare")
    fairweight("train", *SWEPT, "--out", runs / "trade-off")
    shutil.copy(runs / "compare" / "compare.html", out / "compas-methods.html")
    shutil.copy(runs / "trade-off" / "trade_off.html", out / "compas-trade-off.html")
    for page in sorted(out.glob("*.html")):
        size = page.stat().st_size
        print(f"{page}: {size / 1000:.0f} kB{'' if size <= MOST else ', too large'}")


if __name__ == "__main__":
    main()
