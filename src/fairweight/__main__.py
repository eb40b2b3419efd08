"""python -m fairweight, and the program `fairweight`: signals are minded before anything else is imported."""

import sys

from fairweight import signals

if "__mp_main__" not in (__name__, *sys.modules):  # a worker that starts ends without a word; the parent speaks
    signals.mind_before_commands()


def _command() -> None:
    from fairweight.cli import main as run

    run()


def main() -> None:
    """Run the command line."""
    signals.run_command(_command)


if __name__ == "__main__":
    main()
