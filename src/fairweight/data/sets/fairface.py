"""FairFace."""

from __future__ import annotations

from dataclasses import replace

from fairweight.data.options import ImageOptions
from fairweight.data.rows import Rows
from fairweight.data.sets._local_set import LocalSet, parquet_parts
from fairweight.data.source import Found, Request
from fairweight.data.texts import threshold
from fairweight.errors import BadInput


class Fairface(LocalSet):
    """FairFace: faces with gender, age and seven races; gender by race, or a threshold such as age>=30."""

    name = "fairface"
    label = "gender"
    group = ("race",)
    needs = ("the parquet shards train-*.parquet and validation-*.parquet (img, age, gender, race)",)
    repository = "HuggingFaceM4/FairFace"
    prefix = "0.25/"

    def find(self, request: Request) -> Found:
        """Find train, and the published validation part as test, because there is no other."""
        image = request.options.image or ImageOptions()
        rename = {"validation": "test"}
        parts = self.search(request, lambda folder: parquet_parts(folder, image, rename, {}))
        asked = [name for name in (request.label, *(request.group or ())) if name is not None]
        for name in asked:
            for part, rows in parts.items():
                parts[part] = _with_threshold(rows, name)
        note = "The published validation part is the test part: FairFace has no other."
        return Found(self.name, parts, self.label, self.group, notes=(note,), image=image)


def _with_threshold(rows: Rows, name: str) -> Rows:
    """Add a column for a threshold on the age, which is known in steps of ten years."""
    import pandas as pd

    question = threshold(name)
    if question is None or question.column != "age" or name in rows.names():
        return rows
    if question.sign not in (">=", "<"):
        raise BadInput(f"{name!r} cannot be told from FairFace's steps of age; ask with >= or <, such as age>=30.")
    ages = rows.texts("age")
    first = {age: age.lower().removeprefix("more than").split("-")[0].strip() for age in ages if age is not None}
    starts = {float(start) for start in first.values()}
    if question.value not in starts:
        raise BadInput(
            f"{name!r} cuts through a step of age; FairFace's begin at {', '.join(f'{s:g}' for s in sorted(starts))}."
        )
    answers = question.answer([None if age is None else first[age] for age in ages])
    return replace(rows, frame=rows.frame.assign(**{name: pd.Series(answers)}))
