"""The options of the data and of the training as flags: one table for `train` and `compare`.

The options types themselves are not imported, because `--help` must not load torch; a test holds the table to them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import typer

from fairweight.cli._parse import assigned, delimiter, duration, listed, share_or_file, stopping, whole_numbers

DATA, MODEL, FAIRNESS, TRAINING, OUTPUT = PANELS = ("Data", "Model", "Fairness", "Training", "Output")
Verb = TypeVar("Verb", bound=Callable[..., None])


@dataclass(frozen=True)
class Flag:
    """A flag that sets one option."""

    option: str  # as the library names it, such as groups.below
    help: str
    kind: Any = str  # what is typed: str, int, float, bool or list[str]
    name: str = ""  # of the flag; by default the last word of the option
    read: Callable[[Any, str], Any] | None = None  # from what was typed, and the flag, to the option's value
    panel: str = DATA
    compare: bool = True  # whether `compare` has it, too
    minimum: int | None = None

    @property
    def flag(self) -> str:
        return f"--{self.name or self.option.rpartition('.')[2].replace('_', '-')}"

    @property
    def parameter(self) -> str:
        return self.option.replace(".", "__")

    def signature(self) -> inspect.Parameter:
        form = typer.Option(self.flag, help=self.help, min=self.minimum, rich_help_panel=self.panel)
        kind, default = (bool, False) if self.kind is bool else (self.kind | None, None)
        annotation = Annotated[kind, form]  # type: ignore[valid-type]
        return inspect.Parameter(self.parameter, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def takes(flags: Iterable[Flag]) -> Callable[[Verb], Verb]:
    """Give a verb that ends in `**given` one parameter per flag."""

    def decorated(verb: Verb) -> Verb:
        signature = inspect.signature(verb, eval_str=True)
        own_parameters = [entry for entry in signature.parameters.values() if entry.kind is not entry.VAR_KEYWORD]
        with_flags = signature.replace(parameters=[*own_parameters, *(flag.signature() for flag in flags)])
        vars(verb)["__signature__"] = with_flags  # where inspect, and so typer, looks first
        return verb

    return decorated


def options_given(flags: Iterable[Flag], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, nested by their names: {"groups": {"below": "drop"}}."""
    options: dict[str, Any] = {}
    for flag in flags:
        typed = given[flag.parameter]
        if typed is None or typed is False:
            continue
        value = typed if flag.read is None else flag.read(typed, flag.flag)
        if value == []:
            continue
        place = options
        *outer, last = flag.option.split(".")
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = {**value, **place.get(last, {})} if isinstance(value, dict) else value
    return options


DATA_FLAGS = (
    Flag("labels.positive", "The positive one of two labels, whose true positive rate counts; default: the second."),
    Flag("labels.missing", "How to treat rows without a label: refuse (the default) or drop.", name="missing-labels"),
    Flag("labels.max_classes", "Refuse more distinct labels than this; default: 100 numbers, or 1,000 names.", int),
    Flag("groups.missing", "How to treat rows without a group: unknown (the default), group, drop or refuse.",
         name="missing-groups"),
    Flag("groups.below", "How to treat groups with few rows: refuse (the default), merge, drop or keep.",
         name="small-groups"),
    Flag("groups.floor", "Fewest rows of each label that a group needs; default 4.", int),
    Flag("groups.only", "Compare these groups, A,B; others form one.", name="only-groups", read=listed, compare=False),
    Flag("table.drop", "Do not use these columns as inputs, A,B.", read=listed),
    Flag("table.keep", "Use these columns although they look like ids or free text, A,B.", read=listed),
    Flag("table.numeric", "Read these columns as numbers, A,B.", read=listed, compare=False),
    Flag("table.categorical", "Read these columns as categories, A,B.", read=listed, compare=False),
    Flag("table.max_categories", "Most categories per column, the rest is 'other'; default 50.", int, compare=False),
    Flag("table.group_in_inputs", "Let the model use the group columns as inputs.", bool, compare=False),
    Flag("table.drop_leaks", "Drop columns that give the label away.", bool, compare=False),
    Flag("table.delimiter", "Character between the columns of a text file; default: by its header.", read=delimiter),
    Flag("table.encoding", "Encoding of a text file; default utf-8."),
    Flag("table.decimal", "Decimal mark, '.' or ','; default: found in the file."),
    Flag("table.thousands", "Thousands mark: ',', '.', ' ' or \"'\"; default: ',' or '.', not the decimal mark."),
    Flag("max_file_gb", "Refuse larger files, in GB when unpacked; default 2.", float),
    Flag("image.size", "Resize images to this many pixels a side.", int, "image-size"),
    Flag("image.channels", "1 for grey images, 3 for coloured ones.", int),
    Flag("image.file_column", "Column of file names, in a list of image files."),
    Flag("image.unreadable", "How to treat images that are missing or damaged: refuse (the default) or drop."),
    Flag("image.memory_gb", "Stream images from disk above this many GB; default 8.", float, compare=False),
    Flag("image.max_megapixels", "Refuse images with more megapixels; default 50.", float),
    Flag("split.test", "Test rows: a share or a file; default: 0.2, or the set's own.", read=share_or_file),
    Flag("split.validation", "Validation rows: a share such as 0.1 (the default), or a file.", read=share_or_file),
    Flag("split.column", "Column that says train, validation, exemplar or test.", name="split-column"),
    Flag("exemplar.source", "Take exemplars from train, validation or a file.", name="exemplars"),
    Flag("exemplar.size", "Exemplars per label and group; default: a tenth of train.", int, "exemplar-size"),
    Flag("exemplar.inside", "Train on the exemplars, too.", bool, "exemplar-inside", compare=False),
    Flag("corruptions", "Corrupt training rows: 'one-class:label=2,fraction=0.2'; repeatable.", list[str], "corrupt"),
    Flag("limit", "Use at most this many rows of each part, for a quick look.", int),
)  # fmt: skip
GOAL_FLAGS = (
    Flag("criterion", "What counts as fair; see `fairweight list criteria`.", panel=FAIRNESS),
    Flag("bound", "Largest gap to accept, in points; takes the most accurate model within it.", float, panel=FAIRNESS),
    Flag("budget", "Most points of accuracy to give up for a smaller gap; default 0.3.", float, panel=FAIRNESS),
    Flag("each", "Judge several sensitive columns one by one, not crossed; the worst counts.", bool, panel=FAIRNESS),
)
SEARCH_FLAGS = (
    *GOAL_FLAGS,
    Flag("learner", "Train only trees, linear, mlp or your own MODULE:MODEL; default: the first three.", panel=MODEL),
    Flag("candidates", "Try only these ways of weighing, A,B: reweighing, positives, multipliers, forml-rates, "
         "forml-cells, forml; default: all.", read=listed, panel=FAIRNESS),
    Flag("seconds", "Time for the whole command, such as 90s or 5m; ends the search early.", name="time", read=duration,
         panel=TRAINING),
    Flag("seeds", "Cross-fit each candidate this many times, with a seed each; default 1.", int, panel=TRAINING,
         minimum=1),
)  # fmt: skip
TRAINING_FLAGS = (
    Flag("network.name", "Use mlp, resnet18, or your own MODULE:MODEL.", name="network", panel=MODEL, compare=False),
    Flag("network.hidden", "Widths of an mlp's layers, such as 64,64.", read=whole_numbers, panel=MODEL, compare=False),
    Flag("method_options.objective", "What to minimise: 'mean + 0.5 * variance'; see `fairweight list objectives`.",
         panel=FAIRNESS, compare=False),
    Flag("method_options", "Option of the method, NAME=VALUE; repeatable.", list[str], "option", assigned, FAIRNESS,
         compare=False),
    Flag("search", "Find the weights over many trainings, name=multiplier; see docs/methods.md.", list[str],
         read=assigned, panel=FAIRNESS, compare=False),
    Flag("epochs", "Most epochs to train.", int, panel=TRAINING),
    Flag("early_stopping", "Stop after this many epochs without a better one; 0: never.", int, "patience", stopping,
         TRAINING, compare=False),
    Flag("batch_size", "Training rows per step.", int, panel=TRAINING),
    Flag("per_cell", "Exemplars per label and group in each step.", int, panel=TRAINING),
    Flag("lr", "Learning rate.", float, panel=TRAINING),
    Flag("optimizer", "Optimizer: adam, adamw or sgd.", panel=TRAINING, compare=False),
    Flag("weight_decay", "Weight decay.", float, panel=TRAINING, compare=False),
)  # fmt: skip
