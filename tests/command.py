"""The command line in this process: quick, and as a user sees it."""

import contextlib
import io
import logging
import sys
from types import SimpleNamespace

from fairweight.cli import main


def fairweight(folder, *words):
    """Run a command in a folder; its status and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    logger = logging.getLogger("fairweight")
    before = (sys.argv, logger.handlers, logger.propagate, logger.level)
    status = 0
    try:
        sys.argv = ["fairweight", *map(str, words)]
        with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as end:
                status = int(end.code or 0)
    finally:
        sys.argv, logger.handlers, logger.propagate, logger.level = before
    return SimpleNamespace(returncode=status, stdout=out.getvalue(), stderr=err.getvalue())
