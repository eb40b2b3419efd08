"""python -m fairweight, and the program `fairweight`: signals are minded before anything else is imported."""

import sys

from fairweight import signals

if "__mp_main__" not in (__name__, *sys.modules):  # a worker that starts ends without a word; the parent speaks
    signals.mind()


def main() -> None:
    """Run the command line."""
    try:
        from fairweight.cli import main as run

        run()
    except BaseException:
        if signals.received() is None:
            raise
        signals.stop()  # whatever a library made of the interrupt


if __name__ == "__main__":
    main()
