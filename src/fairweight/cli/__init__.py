"""The command line: one file per verb in this folder; what they do is imported when they run, not before."""

from __future__ import annotations

import errno
import importlib
import inspect
import io
import pkgutil
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from fairweight import signals
from fairweight.cli._flags import PANELS
from fairweight.cli._options import HELD
from fairweight.cli._ranks import leave, leave_to_the_first
from fairweight.errors import FairweightError, Sentence, printable_lines

# Flags that most people need, listed before all others.
USUAL = {
    "train": ("label", "group", "criterion", "budget", "method", "out"),
    "compare": ("label", "group", "methods", "seeds", "out"),
}
INTERRUPTED = 130  # as shells have it: 128 and the number of the signal

app = typer.Typer(
    name="fairweight",
    help="Learn a weight for each training sample, so that a classifier makes its errors evenly across groups.",
    epilog="Start with: fairweight train FILE --label COLUMN --group COLUMN",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"fairweight {version('fairweight')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None: ...


class _Panelled(TyperCommand):
    """Lists options by panel, in plain text."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        usual = USUAL.get(str(self.name), ())
        panels: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Arguments", "Usual", *PANELS, "Options")}
        entries = {str(entry.name): entry for entry in self.get_params(ctx)}
        for name in [*usual, *(name for name in entries if name not in usual)]:
            title = "Usual" if name in usual else getattr(entries[name], "rich_help_panel", None) or "Options"
            if (record := entries[name].get_help_record(ctx)) is not None:
                panels["Arguments" if entries[name].param_type_name == "argument" else title].append(record)
        for title, records in panels.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _register() -> None:
    """Add every verb: each file of this folder without a leading underscore holds a function of its own name."""
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda entry: entry.name):
        if not module.name.startswith("_"):
            verb = getattr(importlib.import_module(f"{__name__}.{module.name}"), module.name)
            short = re.split(r"[:;.](?=\s|$)", inspect.getdoc(verb) or "")[0] + "."  # one line in the list of verbs
            kind = _Panelled if hasattr(verb, "__signature__") else TyperCommand  # few options need no panels
            app.command(module.name.removesuffix("_"), short_help=short, cls=kind)(verb)


_register()


@cache
def flags() -> dict[str, str]:
    """The flag of each option, by the name that sentences have for it."""
    verbs = getattr(typer.main.get_command(app), "commands", {}).values()
    options = [entry for verb in verbs for entry in verb.params if entry.param_type_name == "option"]
    flags_by_name = {entry.name.replace("__", "."): entry.opts[0] for entry in options}
    return {**flags_by_name, "groups": flags_by_name["group"]}  # as a Batch calls them


def in_flags(sentence: str) -> str:
    """The sentence with the flag of each option that it names."""
    return printable_lines(Sentence(sentence).spelled(_flag))


def flags_for_names(text: str) -> str:
    """The text, such as a note that a run keeps, with the flag of each option that it names as Python does."""
    return re.sub(r"\b[a-z]+\.[a-z_]+\b", lambda match: flags().get(match[0], match[0]), text)


def _flag(name: str, value: str | None) -> str:
    known = flags()
    if name in known:
        return known[name] if value is None else f"{known[name]} {value}"
    return name if value is None else f"{known['method_options']} {name}={value}"  # an option of the method


class _PrintableStream:
    """A stream on which control characters are spelled: paths and names may hold any, and a terminal obeys them."""

    def __init__(self, unfiltered: Any) -> None:
        self.unfiltered = unfiltered  # for bars, which move the cursor

    def write(self, text: str) -> int:
        self.unfiltered.write(printable_lines(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unfiltered, name)


def main() -> None:
    """Run a verb; what the user can mend is one sentence on stderr and exit status 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that lacks a letter shows its number, as stderr does
        sys.stdout.reconfigure(errors="backslashreplace")
    out: Any = _PrintableStream(sys.stdout)
    err: Any = _PrintableStream(sys.stderr)
    if sys.argv[1:2] != ["train"]:
        leave_to_the_first("only train uses several processes; the first does this alone.")
    err.for_results = out  # with --json, what a model of the user's own prints goes to stderr
    try:
        with redirect_stdout(err if "--json" in sys.argv else out), redirect_stderr(err):
            _run()
    except SystemExit as end:
        if not end.code:
            leave(0)
        raise


def _run() -> None:
    try:
        with HELD:
            app()
    except FairweightError as error:
        _stop(in_flags(error.sentence))
    except SystemExit as end:
        if end.code == INTERRUPTED:  # typer has caught the interrupt, and says nothing
            signals.stop()
        raise
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has left
        sys.exit(1)
    except OverflowError as error:
        _stop(f"a number that was given is too large ({error}); give a smaller one.")
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP, errno.EILSEQ):
            _stop(f"{error.strerror}{where}; give a shorter or plainer name.")
        if error.errno not in (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT):
            raise
        _stop(f"{error.strerror}{where}; free some space or choose another folder with --out.")


def _stop(sentence: str) -> None:
    print(f"fairweight: {sentence}", file=sys.stderr)
    sys.exit(2)
