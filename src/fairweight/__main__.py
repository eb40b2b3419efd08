"""python -m fairweight."""

from fairweight.cli import main

main()
