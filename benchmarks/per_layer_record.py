"""The record of benchmarks/per_layer.py as a part of docs/performance.md.

python benchmarks/per_layer_record.py FOUND.json ... --name per_layer_cpu --records records      makes it
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

PER_LAYER = """\
# The step per layer

Where no layer mixes samples (no batch statistics), each sample's part of every gradient is in the one backward
pass. For a layer that is linear in its parameters, keep its input a and the gradient ĝ that arrives at its output; with
sample i's part of both,

    slope           Σ_i ĝ_iᵀ a_i
    pull            s_i = ⟨ĝ_i, layer(a_i; v)⟩ / p_i
    gradient after  Σ_i (p'_i / p_i) ĝ_iᵀ a_i

exactly: a forward pass (1), a backward pass to the activations (1), products with the parameters (1), the exemplars
(3 × 30/128), the products with v (1) and the products again (1): 5.7 units, where a plain step is 3. That is 1.9 times,
and attention is gone through once, with whatever kernels the model has. `gradient="auto"` takes it wherever a trial on
the first batch shows it exact; a model whose samples mix keeps forward mode.
"""


def frozen(record: dict[str, Any]) -> list[str]:
    """How like the exact pull that with batch statistics held constant is."""
    told = [f"{m['mean']:.2f} ± {m['sd']:.2f} ({m['model']}, n {len(m['cosines'])} seeds)" for m in record["models"]]
    return [
        "## Batch norm's statistics held constant\n",
        '`gradient="per-layer-frozen"` takes the pull per layer of a model with batch norm as if its batch statistics '
        "were constants, and the real gradient by a second backward pass. An approximation, asked for by name alone: "
        f"cosine with the exact pull {'; '.join(told)}.\n",
        f"`{record['command']}`; {record['device']}; torch {record['versions']['torch']}; commit "
        f"{', '.join(record['commits'])}.\n",
    ]


def best_way(ratios: list[dict[str, Any]]) -> tuple[str, str] | None:
    """The fastest exact way."""
    exact = [r for r in ratios if r["way"] in ("per-layer", "exact", "exact, joined", "exact, apart")]
    fastest = min(exact, key=lambda r: float(r["median_ms"]), default=None)
    return None if fastest is None else (fastest["way"], fastest["regime"])


def rows(record: dict[str, Any]) -> list[str]:
    """A table per record."""
    lines = [
        "| model | way | regime | ms: median (quartiles) | × plain | memory × plain | asked | n |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for model, found in record["models"].items():
        taken = {(r["way"], r["regime"]): r for r in found["results"]}
        for ratio in found["ratios"]:
            r = taken[ratio["way"], ratio["regime"]]
            spread = " ({:.2f} to {:.2f})".format(*r["quartiles_ms"]) if r["quartiles_ms"] else ""
            memory = ratio.get("memory_times_plain")
            best = (ratio["way"], ratio["regime"]) == best_way(found["ratios"])
            asked = f"{ratio['target']:g}" if best else ""
            lines.append(
                f"| {model} | {ratio['way']} | {ratio['regime']} | {r['median_ms']:.2f}{spread} | "
                f"{ratio['times_plain']:.2f} | {'–' if memory is None else f'{memory:.2f}'} | {asked} | {r['n']} |"
            )
    return lines


def words(record: dict[str, Any]) -> list[str]:
    """Heading, table, errors and provenance."""
    errors = []
    for model, found in record["models"].items():
        if not isinstance(found["agreement"], dict) or not found["agreement"]:  # not asked for, or why there is none
            continue
        low = found["agreement"].get("per-layer, bfloat16")
        full = found["agreement"]["per-layer, float32"]
        text = f"{model} {full['pull_error']:.0e}"
        if low:
            forward = found["agreement"]["forward, bfloat16"]["pull_error"]
            text += f" (in bfloat16 {low['pull_error']:.3f}, and forward mode's {forward:.3f})"
        errors.append(text)
    precision = "bfloat16 autocast" if record["bf16"] else "float32"
    return [
        f"## {record['device']}, {precision}\n",
        "\n".join(rows(record)) + "\n",
        *([f"Error of the pull beside forward mode in float32: {'; '.join(errors)}.\n"] if errors else []),
        f"`{record['command']}`; torch {record['versions']['torch']}; commit {', '.join(record['commits'])}. "
        f"{record['remark']}\n",
    ]


def main() -> None:
    from fairweight.runs.provenance import provenance

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("found", type=Path, nargs="+", help="what per_layer.py wrote")
    parser.add_argument("--name", required=True)
    parser.add_argument("--command", required=True)
    parser.add_argument("--remark", default="")
    parser.add_argument("--commits", default="", help="of the code that was measured; without: this one")
    parser.add_argument("--records", type=Path, required=True)
    asked = parser.parse_args()
    models: dict[str, Any] = {}
    for document in (json.loads(path.read_text()) for path in asked.found):
        for model in dict.fromkeys(result["model"] for result in document["results"]):
            models[f"{model}, another process" if model in models else model] = {  # with a plain step of its own
                "results": [r for r in document["results"] if r["model"] == model],
                "ratios": [r for r in document["ratios"] if r["model"] == model],
                "agreement": document["agreement"].get(model, {}),
            }
    about = provenance("cpu")
    gpu = document["device"] != "cpu"
    record = {
        "kind": "per_layer", "name": asked.name, "date": about["date"], "bf16": gpu,
        "device": document["device"] if gpu else about["device"],
        "versions": {"torch": document["torch"]}, "commits": (asked.commits or about["commit"]).split(","),
        "command": asked.command, "remark": asked.remark, "models": models,
    }  # fmt: skip
    path = asked.records / f"{about['date'][:10]}_{asked.name}" / "record.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
