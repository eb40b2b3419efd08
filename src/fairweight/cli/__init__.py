"""The command line: one file per verb in this folder; what they do is imported when they run, not before."""

from __future__ import annotations

import errno
import io
import sys
from typing import Annotated

import typer

from fairweight.cli import _verbs
from fairweight.cli._words import in_flags
from fairweight.errors import FairweightError

INTERRUPTED = 130  # as shells have it: 128 and the number of the signal

app = typer.Typer(
    name="fairweight",
    help="Learn what each training sample is worth, so that a classifier errs evenly across groups.",
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
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which.")
    ] = False,
) -> None: ...


_verbs.register(app)


def main() -> None:
    """Run a verb; what the user can mend is one sentence on stderr and exit status 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that lacks a letter shows its number, as stderr does
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except FairweightError as error:
        _stop(in_flags(str(error)))
    except SystemExit as end:
        if end.code == INTERRUPTED:  # typer has caught the keyboard's interrupt, and says nothing
            print("\nStopped. The same command goes on from here.", file=sys.stderr)
        raise
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has left
        sys.exit(1)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT):
            raise
        where = f" ({error.filename})" if error.filename else ""
        _stop(f"{error.strerror}{where}; free some space or choose another folder with --out.")


def _stop(sentence: str) -> None:
    print(f"fairweight: {sentence}", file=sys.stderr)
    sys.exit(2)
