"""CelebA."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fairweight.data._found import Found, Request, digest
from fairweight.data._texts import Texts, columns_are, listing
from fairweight.data.image.folder import files_rows
from fairweight.data.image.rows import ImageRows
from fairweight.data.options import ImageOptions
from fairweight.data.sets._local import Place, parquet_parts
from fairweight.data.split import Exemplar
from fairweight.errors import UnknownName, UnreadableFile

ATTRIBUTES = (
    "5_o_Clock_Shadow", "Arched_Eyebrows", "Attractive", "Bags_Under_Eyes", "Bald", "Bangs", "Big_Lips", "Big_Nose",
    "Black_Hair", "Blond_Hair", "Blurry", "Brown_Hair", "Bushy_Eyebrows", "Chubby", "Double_Chin", "Eyeglasses",
    "Goatee", "Gray_Hair", "Heavy_Makeup", "High_Cheekbones", "Male", "Mouth_Slightly_Open", "Mustache", "Narrow_Eyes",
    "No_Beard", "Oval_Face", "Pale_Skin", "Pointy_Nose", "Receding_Hairline", "Rosy_Cheeks", "Sideburns", "Smiling",
    "Straight_Hair", "Wavy_Hair", "Wearing_Earrings", "Wearing_Hat", "Wearing_Lipstick", "Wearing_Necklace",
    "Wearing_Necktie", "Young",
)  # fmt: skip
_NEEDS = ("img_align_celeba/", "list_attr_celeba.txt", "list_eval_partition.txt")
_PARTS = {"0": "train", "1": "validation", "2": "test"}
_ORDERS = {name: (f"not {name}", name) for name in ATTRIBUTES}
_YES = {"1": True, "True": True, "-1": False, "0": False, "False": False}


class Celeba:
    """CelebA: faces with forty attributes; any is a target and any a group, Attractive by Male unless told."""

    label = "Attractive"
    group = ("Male",)
    needs = _NEEDS
    place = Place("celeba", _NEEDS, "eurecom-ds/celeba")

    def find(self, request: Request) -> Found:
        """The published split; the validation part is the exemplar set, as in the paper."""
        image = request.options.image or ImageOptions(crop=178, size=128)
        wanted = [request.label or self.label, *(self.group if request.group is None else request.group)]
        for name in wanted:
            if name not in ATTRIBUTES:
                raise UnknownName(f"CelebA has no attribute {name!r}; {columns_are(name, ATTRIBUTES)}.")
        parts = self.place.search(
            request, lambda folder: _published(folder, wanted, image) or _parquet(folder, wanted, image)
        )
        content = {part: digest(rows) for part, rows in parts.items()}
        exemplar = Exemplar("validation") if "validation" in parts else Exemplar()
        return Found("celeba", parts, self.label, self.group, exemplar=exemplar, content=content, image=image)


def _published(folder: Path, wanted: list[str], image: ImageOptions) -> dict[str, ImageRows] | None:
    found = [_anywhere(folder, name.rstrip("/")) for name in _NEEDS]
    images, attributes, partition = found
    if images is None or attributes is None or partition is None:
        return None
    part_of = dict(line.split()[:2] for line in partition.read_text(encoding="utf-8").splitlines() if line.strip())
    lines = attributes.read_text(encoding="utf-8").splitlines()
    names = lines[1].split() if len(lines) > 1 else []
    if sorted(names) != sorted(ATTRIBUTES):
        raise UnreadableFile(f"{attributes} does not name the forty attributes in its second line; copy it again.")
    places = [names.index(name) for name in wanted]
    paths: dict[str, list[Path]] = {part: [] for part in _PARTS.values()}
    values: dict[str, list[list[str]]] = {part: [] for part in _PARTS.values()}
    for number, line in enumerate(lines[2:], start=3):
        file, *entries = line.split() or [""]
        if not file:
            continue
        if len(entries) != len(names) or part_of.get(file) not in _PARTS:
            raise UnreadableFile(
                f"line {number} of {attributes.name} has no {len(names)} attributes or no part; copy it again."
            )
        part = _PARTS[part_of[file]]
        paths[part].append(images / file)
        values[part].append([entries[place] for place in places])
    parts = {}
    for part, files in paths.items():
        if files:
            columns = {name: _answers([row[at] for row in values[part]], name) for at, name in enumerate(wanted)}
            parts[part] = replace(files_rows(files, images, columns, image), orders=_ORDERS)
    if "train" not in parts or "test" not in parts:
        raise UnreadableFile(f"{partition} leaves train or test without images; copy it again.")
    return parts


def _parquet(folder: Path, wanted: list[str], image: ImageOptions) -> dict[str, ImageRows] | None:
    found = parquet_parts(folder, image, {})
    if found is None:
        return None
    parts = {}
    for part, rows in found.items():
        answers = {}
        for name in wanted:
            # One form has a column per attribute, another a list of all in the published order.
            column = name if name in rows.columns else f"attributes[{ATTRIBUTES.index(name)}]"
            if column not in rows.columns:
                raise UnreadableFile(f"the parquet files of CelebA lack the attribute {name!r}; fetch them again.")
            answers[name] = _answers(rows.columns[column], name)
        parts[part] = replace(rows, columns=answers, orders=_ORDERS)
    return parts


def _answers(texts: list[str] | Texts, name: str) -> Texts:
    strange = {text for text in texts if text is not None and text not in _YES}
    if strange:
        raise UnreadableFile(f"CelebA's attribute {name} holds {listing(sorted(strange))} where 1 or -1 belongs.")
    return [None if text is None else name if _YES[text] else f"not {name}" for text in texts]


def _anywhere(folder: Path, name: str) -> Path | None:
    """A file of the published set, in the folder or where the archives unpack to."""
    places = (folder, folder / "Anno", folder / "Eval", folder / "Img")
    return next((place / name for place in places if (place / name).exists()), None)
