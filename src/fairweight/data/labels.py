"""The label column becomes classes; what cannot be learned from is refused in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairweight.data.options import LabelOptions
from fairweight.data.rows import Encoded, Rows, read_column, spans, to_codes
from fairweight.data.texts import Texts, all_numbers, case_variants, columns_are, in_order, listing, threshold, unify
from fairweight.errors import BadLabel, MissingColumn, Sentence, UnknownName, option


def encode_labels(parts: Mapping[str, Rows], column: str, options: LabelOptions, notes: list[str]) -> Encoded:
    """Encode the label in the order of train's classes; a label that train lacks is refused."""
    texts: Texts = []
    for name, rows in parts.items():
        column_texts = read_column(rows, column)
        if column_texts is None:
            where = "" if name == "train" else f" in the {name} rows"
            raise MissingColumn(f"there is no label column {column!r}{where}; {columns_are(column, rows.names())}.")
        texts += column_texts
    texts = unify(texts)
    by_part = {part: texts[span] for part, span in spans(parts).items()}
    names = in_order({text for text in by_part["train"] if text is not None})
    question = threshold(column)
    for order in (parts["train"].order(column), () if question is None else question.names()):
        if set(names) <= set(order):
            names = [name for name in order if name in names]
    for part, values in by_part.items():
        lost = values.count(None)
        if lost and options.missing == "refuse" and lost < len(values):
            raise BadLabel(
                f"label {column!r} is empty in {lost:,} of {len(values):,} rows of {part} (the first is row "
                f"{values.index(None)}, counted from 0); fill them in, or leave them out with "
                f"{option('labels.missing', 'drop')}."
            )
        notes += [f"{lost:,} rows of {part} have no label {column!r} and were left out."] if lost else []
    _check_classes(by_part["train"], names, column, options)
    names = sorted(names, key=lambda name: name == options.positive)
    for part, values in by_part.items():
        if unknown := set(values) - {None, *names}:
            raise BadLabel(
                f"{part} holds the label {listing(in_order(map(str, unknown)))}, which no row of train has; "
                "drop those rows or add some to train."
            )
    how = f"; choose it with {option('labels.positive')}" if len(names) == 2 else ""
    notes.append(Sentence(f"Label {column!r}: {describe_classes(names)}{how}."))
    notes += case_variants(names, f"labels of {column!r}")
    return Encoded(tuple(names), to_codes(texts, names))


def describe_classes(names: Sequence[str]) -> str:
    """Say what the classes are."""
    if len(names) == 2:
        return f"{names[0]!r} or {names[1]!r}, of which {names[1]!r} is the positive one"
    return f"{len(names)} classes, {listing(names)}"


def check_positive(names: Sequence[str], options: LabelOptions) -> None:
    """Refuse a positive label that is not one of two, once it is settled which labels stay."""
    if options.positive is not None and (options.positive not in names or len(names) != 2):
        raise UnknownName(f"the positive label {options.positive!r} must be one of two; there are {listing(names)}.")


def _check_classes(texts: Texts, names: list[str], column: str, options: LabelOptions) -> None:
    if not names:
        raise BadLabel(f"label {column!r} is empty in every row of train; name a column that is filled in.")
    if len(names) == 1:
        raise BadLabel(f"label {column!r} holds one class only, {names[0]!r}; there is nothing to learn: name another.")
    numeric = all_numbers(names)
    fractions = numeric and any(not float(name).is_integer() for name in names)
    limit = options.max_classes or (20 if fractions else 100 if numeric else 1000)
    if len(names) > limit and numeric:
        middle = float(names[len(names) // 2])
        raise BadLabel(
            f"label {column!r} has {len(names):,} distinct values and is probably a number, not a class; "
            f"compare it with a threshold, such as '{column}>={middle:g}', or raise {option('labels.max_classes')}."
        )
    if len(names) > limit or (not options.max_classes and len(names) > 20 and 2 * len(names) > len(texts)):
        raise BadLabel(
            f"label {column!r} has {len(names):,} distinct values in {len(texts):,} rows and is probably an id or free "
            f"text; name another column, or raise {option('labels.max_classes')}."
        )
