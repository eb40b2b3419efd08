"""The part of docs/performance.md that says how long the 200 epochs of CIFAR-10 take, from its record."""

from __future__ import annotations

from typing import Any

MINUTES = {"uniform": 5, "forml": 13, "forml-default": 13}  # at most so many are asked for

RECIPE = """\
# 200 epochs of CIFAR-10

ResNet-18, batch 128, bfloat16, data on the device, histories kept and a checkpoint written after every epoch, as
`fairweight reproduce cifar10 --rows uniform,forml,forml-default` runs it. The first epoch compiles. FORML is exact, as
printed with 30 exemplars a step, as the product has it with 100; it trains on the 45,000 samples that its exemplars
leave, Uniform on all 50,000.
"""


def words(record: dict[str, Any]) -> list[str]:
    """One record, for the page."""
    lines = [
        "| | first epoch, s | an epoch, s | epochs measured | 200 epochs, minutes | asked for |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in record["rows"].items():
        low, high = row["epoch_s"]["quartiles"]
        each = f"{row['epoch_s']['median']:.2f} ({low:.2f} to {high:.2f})"
        total = f"{row['total_s'] / 60:.1f}" + ("" if row["measured"] == row["epochs"] else ", counted up")
        most = f"at most {MINUTES[name]}"
        lines.append(f"| {name} | {row['first_epoch_s']:.1f} | {each} | {row['measured']} | {total} | {most} |")
    told = f"{record['device']}; n = 1 run each, median (quartiles) over epochs; commit {record['commit']}."
    told += f" {record['remark']}\n" if record.get("remark") else "\n"
    return [RECIPE, "\n".join(lines) + "\n", told]
