"""Sentences of the library in the words of the command line: a user of flags should read flags."""

from __future__ import annotations

import json
import re
from typing import Any

from fairweight.errors import BadInput

# From what the library calls an option to the flag that sets it; longer ones first.
_FLAGS = (
    ("groups.missing=unknown", "--missing-groups unknown"),
    ("set groups.below to", "say --small-groups"),
    ("missing labels set to drop", "--missing-labels drop"),
    ("GroupOptions.below", "--small-groups"),
    ("GroupOptions.missing", "--missing-groups"),
    ("LabelOptions.missing", "--missing-labels"),
    ("groups.below", "--small-groups"),
    ("groups.floor", "--floor"),
    ("Exemplar.size", "--exemplar-size"),
    ("Exemplar.source", "--exemplars"),
    ("Split.test", "--test"),
    ("Split.validation", "--validation"),
    ("Split.column", "--split-column"),
    ("ImageOptions.channels", "--channels"),
    ("ImageOptions.unreadable", "--unreadable"),
    ("ImageOptions.size", "--image-size"),
    ("ImageOptions.memory_gb", "--memory-gb"),
    ("ImageOptions is for", "--memory-gb is for"),
    ("limit is", "--limit is"),
    ("unreadable=drop", "--unreadable drop"),
    ("give its delimiter", "give it with --delimiter"),
    ("say which delimiter it has", "give its --delimiter"),
    ("give its encoding, often", "give it with --encoding, often"),
    ("or give its encoding", "or give its --encoding"),
    ("give a size and channels to bring all to", "give --image-size and --channels to bring all to"),
    ("give a size to bring all to", "give --image-size to bring all to"),
    ("with data_dir or FAIRWEIGHT_DATA", "with --data-dir or FAIRWEIGHT_DATA"),
    ("or ask for the download", "or add --download"),
    ("say which column is the label", "say which column is the label with --label"),
    ("lower per_cell", "lower --per-cell"),
    ("raise per_cell", "raise --per-cell"),
    ("keep them by name if not", "--keep them if not"),
    ("1 (the positive class) is", "1 (the positive class; --positive names another) is"),
    ("max_categories", "--max-categories"),
    ("raise max_classes", "raise --max-classes"),
    ("file_column", "--file-column"),
    ("give groups, or by='label'", "name its column with --group, or say --option by=label"),
    ("give groups, or constraint='equal-recall'", "name it with --group, or say --option constraint=equal-recall"),
)
_ENCODING = re.compile(r"give encoding=(\S+?)\.")


def in_flags(sentence: str) -> str:
    """The sentence with flags where the library names its options."""
    for library, flag in _FLAGS:
        sentence = sentence.replace(library, flag)
    return _ENCODING.sub(r"give --encoding \1.", sentence)


def listed(words: str | None) -> list[str]:
    """The names in "a,b, c"; one with a comma in it stands in double quotes, as in a CSV file."""
    import csv

    if words is None:
        return []
    return [word.strip() for word in next(csv.reader([words], skipinitialspace=True), []) if word.strip()]


def assigned(entries: list[str], flag: str) -> dict[str, Any]:
    """Values from entries such as "tie=cell" or "score_step.rate=0.1"; a value is JSON where it can be read as such."""
    found: dict[str, Any] = {}
    for entry in entries:
        name, equals, text = entry.partition("=")
        if not equals or not name.strip():
            raise BadInput(f"{flag} {entry}: write {flag} name=value, such as {flag} tie=cell.")
        place = found
        *outer, last = name.strip().split(".")
        for part in outer:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise BadInput(f"{flag} {entry}: {part} was given a value of its own before; give one or the other.")
        place[last] = _value(text.strip())
    return found


def numbers(words: str, flag: str) -> list[float]:
    """The numbers in "0.1,0.3,1"."""
    try:
        found = [float(word) for word in listed(words)]
    except ValueError:
        raise BadInput(f"{flag} {words}: give numbers with commas between them, such as {flag} 0.1,0.3,1.") from None
    if not found:
        raise BadInput(f"{flag} {words!r}: give at least one number.")
    return found


def share_or_file(words: str) -> float | str:
    """A share such as 0.2, or the name of a file."""
    try:
        return float(words)
    except ValueError:
        return words


def given(**values: Any) -> dict[str, Any]:
    """Those that were given."""
    return {name: value for name, value in values.items() if value is not None}


def delimiter_of(words: str | None) -> str | None:
    """The character, where it was spelled out."""
    return {"tab": "\t", "\\t": "\t", "semicolon": ";", "comma": ",", "bar": "|"}.get(words or "", words)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {"None": None, "True": True, "False": False}.get(text, text)
