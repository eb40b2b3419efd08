"""CelebA."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairweight.data.files import read_text
from fairweight.data.image.folder import files_rows
from fairweight.data.options import Exemplar, ImageOptions
from fairweight.data.rows import Rows
from fairweight.data.sets._local_set import LocalSet, parquet_parts
from fairweight.data.source import Found, Request
from fairweight.data.texts import Texts, columns_are, listing
from fairweight.errors import UnknownName, UnreadableFile

if TYPE_CHECKING:
    import pandas as pd

ATTRIBUTES = (
    "5_o_Clock_Shadow", "Arched_Eyebrows", "Attractive", "Bags_Under_Eyes", "Bald", "Bangs", "Big_Lips", "Big_Nose",
    "Black_Hair", "Blond_Hair", "Blurry", "Brown_Hair", "Bushy_Eyebrows", "Chubby", "Double_Chin", "Eyeglasses",
    "Goatee", "Gray_Hair", "Heavy_Makeup", "High_Cheekbones", "Male", "Mouth_Slightly_Open", "Mustache", "Narrow_Eyes",
    "No_Beard", "Oval_Face", "Pale_Skin", "Pointy_Nose", "Receding_Hairline", "Rosy_Cheeks", "Sideburns", "Smiling",
    "Straight_Hair", "Wavy_Hair", "Wearing_Earrings", "Wearing_Hat", "Wearing_Lipstick", "Wearing_Necklace",
    "Wearing_Necktie", "Young",
)  # fmt: skip
_PARTS = {"0": "train", "1": "validation", "2": "test"}
_YES = {"1": True, "True": True, "-1": False, "0": False, "False": False}


class Celeba(LocalSet):
    """CelebA: faces with forty attributes; any is a target and any a group, Attractive by Male unless told."""

    name = "celeba"
    label = "Attractive"
    group = ("Male",)
    needs = ("img_align_celeba/", "list_attr_celeba.txt", "list_eval_partition.txt")
    repository = "eurecom-ds/celeba"

    def find(self, request: Request) -> Found:
        """Find the published split; the validation part is the exemplar set, as in the paper."""
        image = request.options.image or ImageOptions(crop=178, size=128)
        chosen = [request.label or self.label, *(self.group if request.group is None else request.group)]
        for name in chosen:
            if name not in ATTRIBUTES:
                raise UnknownName(f"CelebA has no attribute {name!r}; {columns_are(name, ATTRIBUTES)}.")
        parts = self.search(
            request, lambda folder: self._published(folder, chosen, image) or _parquet(folder, chosen, image)
        )
        exemplar = Exemplar("validation") if "validation" in parts else Exemplar()
        return Found(self.name, parts, self.label, self.group, exemplar=exemplar, image=image)

    def _published(self, folder: Path, chosen: list[str], image: ImageOptions) -> dict[str, Rows] | None:
        import pandas as pd

        images, attributes, partition = (_find_file(folder, name.rstrip("/")) for name in self.needs)
        if images is None or attributes is None or partition is None:
            return None
        lists = [io.StringIO(read_text(path)) for path in (attributes, partition)]
        names = [lists[0].readline() for _ in range(2)][1].split()
        if sorted(names) != sorted(ATTRIBUTES):
            raise UnreadableFile(f"{attributes} does not name the forty attributes in its second line; copy it again.")
        used = {"file", *chosen, names[-1]}  # the last one tells whether a line is whole
        try:
            frame = pd.read_csv(lists[0], sep=r"\s+", names=["file", *names], usecols=list(used), dtype=str)
            listed = pd.read_csv(lists[1], sep=r"\s+", names=["file", "part"], dtype=str)
        except ValueError as error:  # pandas' errors of parsing are
            raise UnreadableFile(f"{attributes} or {partition} is not the published file; copy it again.") from error
        frame["part"] = frame["file"].map(listed.drop_duplicates("file").set_index("file")["part"].map(_PARTS))
        if (bad := frame.isna().any(axis=1)).any():
            line = f"line {int(bad.argmax()) + 3} of {attributes.name}"
            raise UnreadableFile(f"{line} has no {len(names)} attributes or no part; copy it again.")
        parts = {}
        for part, rows in frame.groupby("part", sort=False):
            columns = {name: _answers(rows[name].tolist(), name) for name in chosen}
            parts[str(part)] = files_rows([images / file for file in rows["file"]], images, columns, image)
        if "train" not in parts or "test" not in parts:
            raise UnreadableFile(f"{partition} leaves train or test without images; copy it again.")
        return parts


def _parquet(folder: Path, chosen: list[str], image: ImageOptions) -> dict[str, Rows] | None:
    import pandas as pd

    parquet = parquet_parts(folder, image, {}, {})
    if parquet is None:
        return None
    parts = {}
    for part, rows in parquet.items():
        answers = {}
        for name in chosen:
            # One form has a column per attribute, another a list of all in the published order.
            column = name if name in rows.names() else f"attributes[{ATTRIBUTES.index(name)}]"
            if column not in rows.names():
                raise UnreadableFile(f"the parquet files of CelebA lack the attribute {name!r}; fetch them again.")
            answers[name] = _answers(rows.texts(column), name)
        parts[part] = replace(rows, frame=pd.DataFrame(answers))
    return parts


def _answers(texts: Texts, name: str) -> pd.Categorical:
    import pandas as pd

    unknown = {text for text in texts if text is not None and text not in _YES}
    if unknown:
        raise UnreadableFile(f"CelebA's attribute {name} holds {listing(sorted(unknown))} where 1 or -1 belongs.")
    answers = [None if text is None else name if _YES[text] else f"not {name}" for text in texts]
    return pd.Categorical(answers, categories=[f"not {name}", name])


def _find_file(folder: Path, name: str) -> Path | None:
    """Find a file of the published set, in the folder or where the archives unpack to."""
    places = (folder, folder / "Anno", folder / "Eval", folder / "Img")
    return next((place / name for place in places if (place / name).exists()), None)
