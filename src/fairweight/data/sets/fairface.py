"""FairFace."""

from __future__ import annotations

from dataclasses import replace

from fairweight.data._found import Found, Request, digest
from fairweight.data._texts import Texts, threshold
from fairweight.data.image.rows import ImageRows
from fairweight.data.options import ImageOptions
from fairweight.data.sets._local import Place, parquet_parts
from fairweight.errors import BadInput

_NEEDS = ("the parquet shards train-*.parquet and validation-*.parquet (img, age, gender, race)",)


class Fairface:
    """FairFace: faces with gender, age and seven races; gender by race, or a threshold such as age>=30."""

    label = "gender"
    group = ("race",)
    needs = _NEEDS
    place = Place("fairface", _NEEDS, "HuggingFaceM4/FairFace", "0.25/")

    def find(self, request: Request) -> Found:
        """Train, and the published validation part as test, because there is no other."""
        image = request.options.image or ImageOptions()
        rename = {"validation": "test"}
        parts = self.place.search(request, lambda folder: parquet_parts(folder, image, rename))
        asked = [name for name in (request.label, *(request.group or ())) if name is not None]
        for name in asked:
            for part, rows in parts.items():
                parts[part] = _with_threshold(rows, name)
        note = "The published validation part is the test part: FairFace has no other."
        content = {part: digest(rows) for part, rows in parts.items()}
        return Found("fairface", parts, self.label, self.group, notes=(note,), content=content, image=image)


def _with_threshold(rows: ImageRows, name: str) -> ImageRows:
    """The rows with a column for a question to the age, which is known in steps of ten years."""
    question = threshold(name)
    if question is None or question.column != "age" or name in rows.columns:
        return rows
    if question.sign not in (">=", "<"):
        raise BadInput(f"{name!r} cannot be told from FairFace's steps of age; ask with >= or <, such as age>=30.")
    first: dict[str, str] = {}
    for step in sorted({text for text in rows.columns["age"] if text is not None}):
        first[step] = step.lower().removeprefix("more than").split("-")[0].strip()
    starts = {float(start) for start in first.values()}
    if question.value not in starts:
        raise BadInput(
            f"{name!r} cuts through a step of age; FairFace's begin at {', '.join(f'{s:g}' for s in sorted(starts))}."
        )
    years: Texts = [None if text is None else first[text] for text in rows.columns["age"]]
    return replace(rows, columns={**rows.columns, name: question.answer(years)})
