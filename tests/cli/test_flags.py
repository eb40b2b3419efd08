"""The table of flags is held to the options types, and the names of options in sentences to the table."""

import ast
import copy
import inspect
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

import fairweight
from fairweight import catalog
from fairweight.cli import flags, in_flags
from fairweight.cli._flags import DATA_FLAGS, TRAINING_FLAGS, options_given
from fairweight.data import Options
from fairweight.data.options import GroupOptions, ImageOptions, LabelOptions, TableOptions
from fairweight.errors import BadInput, Sentence, option
from fairweight.runs.spec import Spec

SOURCE = Path(fairweight.__file__).parent


def hint(kind: Any, path: str) -> Any:
    """The type of a field, by its path of names."""
    for name in path.split("."):
        kind = next((part for part in (kind, *get_args(kind)) if is_dataclass(part)), kind)
        if get_origin(kind) is Mapping:
            return Any  # free names
        kind = get_type_hints(kind)[name]
    return kind


def choices(kind: Any) -> list[str]:
    if get_origin(kind) is Literal:
        return [str(choice) for choice in get_args(kind)]
    return [choice for part in get_args(kind) for choice in choices(part)]


@pytest.mark.parametrize(
    ("kind", "flag"),
    [(Options, flag) for flag in DATA_FLAGS] + [(Spec, flag) for flag in TRAINING_FLAGS],
    ids=lambda value: getattr(value, "option", ""),
)
def test_a_flag_sets_a_declared_option_and_its_help_names_every_choice(kind, flag):
    found = hint(kind, flag.option)
    assert not is_dataclass(found)
    assert [choice for choice in choices(found) if not re.search(rf"\b{choice}\b", flag.help)] == []
    if flag.read is None and found is not Any and flag.kind in (int, float, bool, str):
        assert flag.kind in (found, *get_args(found)) or choices(found)


@pytest.mark.parametrize("flag", DATA_FLAGS, ids=lambda flag: flag.option)
def test_a_default_that_the_help_names_is_the_default(flag):
    kinds = {"labels": LabelOptions, "groups": GroupOptions, "table": TableOptions, "image": ImageOptions}
    outer, _, name = flag.option.rpartition(".")
    if outer not in {"", *kinds}:
        return  # a set of its own may bring these
    value = getattr(kinds.get(outer, Options)(), name)
    named = re.search(r"(\w+) \(the default\)|default:? ([\w-]+)\.$", flag.help)
    if named and value is not None:
        assert str(value) in (named[1], named[2], f"{named[2]}.0")


def test_every_option_of_the_data_has_a_flag_but_those_that_python_alone_sets():
    known = {flag.option for flag in DATA_FLAGS}
    nested = {f"{outer.name}.{inner.name}" for outer in fields(Options) for inner in _inner(outer.name)}
    python_alone = {"groups.rest", "image.crop", "image.root", "image.cache", "image.cache_dir", "image.workers"}
    assert nested - known == {*python_alone, "exemplar.per"}


def _inner(name: str) -> tuple[Any, ...]:
    kind = get_type_hints(Options)[name]
    found = next((part for part in (kind, *get_args(kind)) if is_dataclass(part)), None)
    return fields(found) if found is not None and name != "corruptions" else ()


def test_options_are_nested_and_what_was_not_said_is_left_out():
    said = {flag.parameter: None for flag in (*DATA_FLAGS, *TRAINING_FLAGS)}
    said |= {"groups__below": "drop", "table__keep": "a, b", "table__drop": "", "split__test": "0.3", "limit": 0}
    said |= {"table__drop_leaks": False, "split__validation": "v.csv", "table__delimiter": "tab", "corruptions": []}
    assert options_given(DATA_FLAGS, said) == {
        "groups": {"below": "drop"},
        "table": {"keep": ["a", "b"], "delimiter": "\t"},
        "split": {"test": 0.3, "validation": "v.csv"},
        "limit": 0,
    }
    said |= {"method_options": ["tie=cell", "objective=mean"], "method_options__objective": "variance"}
    said |= {"early_stopping": 0, "network__hidden": "8,4"}
    assert options_given(TRAINING_FLAGS, said) == {
        "method_options": {"tie": "cell", "objective": "variance"},
        "early_stopping": {},
        "network": {"hidden": [8, 4]},
    }


def _calls() -> list[tuple[str, str, bool]]:
    """Every option that a sentence names: where, its name, and whether with a value."""
    found = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "option"
            if named and isinstance(node.args[0], ast.Constant):
                found.append((path.name, node.args[0].value, len(node.args) > 1))
    return found


def test_every_option_that_a_sentence_names_has_a_flag_or_is_one_of_a_method():
    of_methods = {
        name
        for method in catalog.names("methods")
        for name in inspect.signature(catalog.load("methods", method)).parameters
    }
    calls = _calls()
    assert len(calls) > 50
    assert [
        (where, name) for where, name, valued in calls if name not in flags() and not (valued and name in of_methods)
    ] == []


def test_no_sentence_below_the_command_line_types_a_flag_by_hand():
    typed = []
    for room in ("apps", "data", "runs", "methods", "training", "metrics", "models", "sampling.py", "step.py"):
        paths = [SOURCE / room] if room.endswith(".py") else (SOURCE / room).rglob("*.py")
        for path in paths:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    typed += [(path.name, word) for word in re.findall(r"(?<![\w-])--[a-z][a-z-]+", node.value)]
    commands = {("moew.py", "--method"), ("_train_text.py", "--out")}  # whole command lines
    commands |= {("compare.py", word) for word in ("--out", "--records", "--data-dir")}  # of a recorded command
    swept = ("--method", "--objective", "--strengths", "--give-up", "--trade-off")
    commands |= {("trade_off.py", word) for word in swept}  # of the recorded command that its page repeats
    commands |= {("provenance.py", word) for word in ("--show-toplevel", "--short", "--porcelain", "--untracked-files")}
    assert set(typed) <= commands


def test_python_reads_the_librarys_names_and_the_command_line_flags():
    error = BadInput(
        f"set {option('groups.below', 'drop')}, or {option('groups.floor')} to 1, or {option('by', 'label')}."
    )
    for same in (error, copy.deepcopy(error)):  # as on its way from one process to another
        assert str(same) == f"{same}" == "set groups.below=drop, or groups.floor to 1, or by=label."
        assert in_flags(same.sentence) == "set --small-groups drop, or --floor to 1, or --option by=label."
    assert in_flags("plain") == "plain"
    assert in_flags(Sentence(f"{option('image.crop')} is 3.")) == "image.crop is 3."  # Python alone can set it
