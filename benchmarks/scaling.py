"""What a step of several ranks sends, and how long that takes, on paper: from a measured step and stated link speeds.

python -m benchmarks.scaling --parameters 25.6e6 --batch 256 --classes 1000 --step-ms 180
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

RANKS = (1, 2, 4, 8, 16, 64, 256, 1024)
HEADERS = 7  # small exchanges of a step: who is well, and how much each sends
HEADER = 32 * 8  # bytes of one
COLUMNS = 3 * 8  # bytes of a sample's label, group and row


@dataclass(frozen=True)
class Links:
    """Within a machine and between machines; what an exchange costs at least, and how fast bytes go."""

    inside_gb_s: float = 300.0
    between_gb_s: float = 25.0
    inside_us: float = 15.0
    between_us: float = 40.0
    per_machine: int = 8

    def of(self, ranks: int) -> tuple[float, float]:
        """Seconds of an exchange and bytes a second, by the slowest link that so many ranks need."""
        inside = ranks <= self.per_machine
        speed = self.inside_gb_s if inside else self.between_gb_s
        return (self.inside_us if inside else self.between_us) / 1e6, speed * 1e9


@dataclass(frozen=True)
class Work:
    """One rank's part of a step."""

    parameters: float
    batch: int  # samples a rank
    exemplars: int  # a rank
    classes: int
    size: int = 4  # bytes of a number

    def reduced(self) -> float:
        """Bytes that are summed over ranks beside plain data parallelism: the slope, and the objective's gradient."""
        return 2 * self.parameters * self.size

    def plain(self) -> float:
        """Bytes that plain data parallelism sums: the gradient."""
        return self.parameters * self.size

    def gathered(self) -> float:
        """Bytes that a rank gives to all others: what is known of its samples, logits, losses, pulls."""
        train = self.batch * (COLUMNS + (self.classes + 2) * self.size)
        return train + self.exemplars * (COLUMNS + 2 * self.size)


def seconds(work: Work, ranks: int, links: Links) -> tuple[float, float]:
    """What is sent by plain data parallelism, and beyond it, in seconds; rings, nothing hidden behind the passes."""
    if ranks == 1:
        return 0.0, 0.0
    least, speed = links.of(ranks)
    turns = 2 * (ranks - 1) / ranks
    plain = turns * work.plain() / speed + least
    beyond = turns * work.reduced() / speed + (ranks - 1) * (work.gathered() + HEADERS * HEADER) / speed
    return plain, beyond + (HEADERS + 6) * least


def table(work: Work, step: float, links: Links) -> str:
    """One line for each number of ranks."""
    lines = [
        f"{work.parameters:,.0f} parameters, {work.batch} samples and {work.exemplars} exemplars a rank, a step alone "
        f"{1e3 * step:.0f} ms; links {links}",
        f"{'ranks':>6} {'reduced MB':>11} {'gathered MB':>12} {'plain ms':>9} {'beyond ms':>10} {'efficiency':>11}",
    ]
    for ranks in RANKS:
        plain, beyond = seconds(work, ranks, links)
        reduced = work.reduced() / 1e6 if ranks > 1 else 0.0
        gathered = (ranks - 1) * work.gathered() / 1e6
        share = step / (step + plain + beyond)
        lines.append(
            f"{ranks:>6} {reduced:>11.1f} {gathered:>12.2f} {1e3 * plain:>9.2f} {1e3 * beyond:>10.2f} {share:>10.1%}"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parameters", type=float, required=True, help="of the model that move")
    parser.add_argument("--batch", type=int, required=True, help="samples a rank")
    parser.add_argument("--exemplars", type=int, default=64, help="a rank")
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--bytes", type=int, default=4, help="of a number: 4, or 2 in half precision")
    parser.add_argument("--step-ms", type=float, required=True, help="a step of FORML on one rank, measured")
    said = parser.parse_args(arguments)
    work = Work(said.parameters, said.batch, said.exemplars, said.classes, said.bytes)
    print(table(work, said.step_ms / 1e3, Links()))


if __name__ == "__main__":
    main()
