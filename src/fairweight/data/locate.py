"""Where data sets lie: the folder that was named, or FAIRWEIGHT_DATA."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fairweight.errors import MissingData, option

VARIABLE = "FAIRWEIGHT_DATA"


def folders(data_dir: str | Path | None) -> tuple[Path, ...]:
    """The folders to look in, first to last; the variable may name several, separated as in PATH."""
    if data_dir is not None:
        if Path(data_dir).is_file():
            raise MissingData(f"the data folder {str(data_dir)!r} is a file; name the folder that the sets lie in.")
        return (Path(data_dir),)
    named = os.environ.get(VARIABLE, "")
    return tuple(Path(entry) for entry in named.split(os.pathsep) if entry)


def candidates(name: str, roots: Sequence[Path]) -> list[Path]:
    """The folders of a set that exist, under any usual spelling of its name."""
    spellings = dict.fromkeys(
        [name, name.replace("-", "_"), name.replace("-", ""), name.upper(), name.replace("-", "").upper()]
    )
    return [root / spelling for root in roots for spelling in spellings if (root / spelling).is_dir()]


def missing(name: str, needs: Sequence[str], roots: Sequence[Path], repository: str | None) -> MissingData:
    """The one sentence that says which file to put where."""
    where = " or ".join(str(root / name) for root in roots) if roots else f"a folder {name} in your data folder"
    how = "" if roots else f" and name that data folder with {option('data_dir')} or {VARIABLE}"
    fetch = f", or fetch it with {option('download')} (from {repository})" if repository else ""
    return MissingData(f"{name} is not here: put {' and '.join(needs)} into {where}{how}{fetch}.")
