"""The head of docs/performance.md: each target beside what the records hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fast_modes_record import EXACT, MAY_COST
from per_layer_record import best_way
from pipeline_record import AS_GOOD_AS_NONE, AUGMENT_MAY_COST
from recipe_time import MINUTES
from start_up import HELP_MAY_TAKE, IMPORT_MAY_TAKE

GPU_TIMES, GPU_MEMORY, FASTER, CPU_TIMES = 2.7, 1.5, 4.0, 2.8
LAYER_MEMORY, LAYER_FASTER = {"ResNet-18 GN": 1.5, "ResNet-18 BN": 1.2}, 5.0  # of the step per layer; others: 1.4
TRACED = "forward, traced"
Record = dict[str, Any]


def targets(found: list[Record]) -> str:
    """The table; empty where no record has anything to say."""
    ways = {
        "bench": bench,
        "per_layer": per_layer,
        "recipe time": recipe,
        "pipeline": pipeline,
        "fast modes": fast,
        "growth": growth,
        "start up": start,
    }
    lines = [
        f"| {asked} | {measured} | {where} | {'yes' if met else 'no'} |"
        for kind, way in ways.items()
        for record in found
        if record.get("kind") == kind
        for asked, measured, where, met in way(record)
    ]
    if not lines:
        return ""
    heads = ["| asked for | measured | where | met |", "|---|---|---|---|"]
    return "\n".join(["In short; spread, n, command and commit of each stand below.\n", *heads, *lines]) + "\n"


def bench(record: Record) -> Iterator[tuple[str, str, str, bool]]:
    gpu = "CPU" not in record["device"]
    for batch in sorted({r["batch"] for r in record["results"]}):
        rows = [r for r in record["results"] if r["batch"] == batch]
        plain = {(r.get("call", 1), r["regime"]): r for r in rows if r["name"] == "plain"}
        regime = "compiled" if gpu else "eager"
        exact = sorted(
            (r for r in rows if r["name"] == TRACED and r["regime"] == regime), key=lambda r: int(r.get("call", 1))
        )
        if not exact:
            continue
        bases = [plain[(r.get("call", 1), regime)] for r in exact]
        times = [r["median_ms"] / base["median_ms"] for r, base in zip(exact, bases, strict=True)]
        where = f"{record['device']}, batch {batch}"
        if not gpu:
            untraced = [r["median_ms"] / bases[0]["median_ms"] for r in rows if r["name"] == "forward"]
            beside = "".join(f"; {t:.2f} one by one, which is the default" for t in untraced)
            asked = f"exact step on a CPU: at most {CPU_TIMES} × plain"
            yield asked, f"{times[-1]:.2f} as one graph{beside}", where, times[-1] <= CPU_TIMES
            continue
        asked = f"exact step on a GPU: at most {GPU_TIMES} × plain, both compiled"
        yield asked, _last(times), where, max(times) <= GPU_TIMES
        memory = [r["peak_mib"] / base["peak_mib"] for r, base in zip(exact, bases, strict=True)]
        yield f"its memory: at most {GPU_MEMORY} × plain", _last(memory), where, memory[-1] <= GPU_MEMORY
        double = [r for r in rows if r["name"] == "double backward"]
        if double:
            least = min(double, key=lambda r: float(r["median_ms"]))
            faster = least["median_ms"] / exact[-1]["median_ms"]
            alike = ", ".join(_alike(double, rows))
            asked = f"at least {FASTER:.0f} times as fast as double backward"
            told = f"{faster:.1f} times: compiled, against the fastest double backward measured ({least['regime']})"
            yield asked, told + (f"; within one regime {alike}" if alike else ""), where, faster >= FASTER


def per_layer(record: Record) -> Iterator[tuple[str, str, str, bool]]:
    """The exact step by layers, or by forward mode where samples mix, and the fast modes beside it."""
    for model, found in record["models"].items():
        ratios = {(r["way"], r["regime"]): r for r in found["ratios"]}
        if ", before" in model:
            continue
        where = f"{record['device']}, {model}"
        best = ratios.get(best_way(found["ratios"]) or ("", ""))
        if best is not None:
            times, told = best["times_plain"], f"{best['times_plain']:.2f} ({best['regime']})"
            yield f"exact step: at most {best['target']:g} × plain", told, where, times <= best["target"]
            memory = best.get("memory_times_plain")
            if memory is not None:
                most = LAYER_MEMORY.get(model, 1.4)
                yield f"its memory: at most {most} × plain", f"{memory:.2f}", where, memory <= most
            slow = [r["median_ms"] for (way, _), r in ratios.items() if way == "double-backward"]
            if slow and record["bf16"]:
                faster = min(slow) / best["median_ms"]
                yield f"at least {LAYER_FASTER:g} times as fast as double backward", f"{faster:.1f}", where, faster >= 5
        fast = [r for (way, _), r in ratios.items() if "every=5" in way or way == "at rest"]
        if fast:
            least = min(fast, key=lambda r: float(r["times_plain"]))
            told = "; ".join(f"{r['way']} {r['times_plain']:.2f}" for r in fast)
            yield "a fast mode: at most 1.2 × plain", told, where, least["times_plain"] <= 1.2


def _alike(double: list[Record], rows: list[Record]) -> Iterator[str]:
    """How many times as fast the fastest exact step is as double backward, regime by regime."""
    for slow in double:
        ours = [r["median_ms"] for r in rows if r["regime"] == slow["regime"] and r["name"].startswith("forward")]
        if ours:
            yield f"{slow['median_ms'] / min(ours):.1f} ({slow['regime']})"


def _last(values: list[float]) -> str:
    """The newest call's, with the range of all."""
    several = f" ({min(values):.2f} to {max(values):.2f} in {len(values)} calls)" if len(values) > 1 else ""
    return f"{values[-1]:.2f}{several}"


def recipe(record: Record) -> Iterator[tuple[str, str, str, bool]]:
    for name, row in record["rows"].items():
        minutes = row["total_s"] / 60
        counted = "" if row["measured"] == row["epochs"] else f", counted up from {row['measured']} epochs"
        asked = f"200 epochs of CIFAR-10, {name}: at most {MINUTES[name]} minutes"
        yield asked, f"{minutes:.1f}{counted}", record["device"], minutes <= MINUTES[name]


def pipeline(record: Record) -> Iterator[tuple[str, str, str, bool]]:
    took = record["parts"]["augmentation"]["device_ms"]["median"]
    share = max(took / method["step"]["device_ms"]["median"] for method in record["methods"].values())
    where = f"{record['device']}, batch {record['setting']['batch']}"
    asked = f"augmentation: under {AUGMENT_MAY_COST:.0%} of a step"
    yield asked, f"{share:.1%} of the shortest", where, share < AUGMENT_MAY_COST
    waits = [row["waits"] for method in record["methods"].values() for row in method["fits"].values()]
    if record["gpu"] and None not in waits:
        yield "the device never waits", f"{max(waits):.2%} of the time at most", where, max(waits) < AS_GOOD_AS_NONE


def fast(record: Record) -> Iterator[tuple[str, str, str, bool]]:
    row = record["rows"].get(record["recommended"])
    if row is not None:
        times, exact = row["times_plain"], record["rows"][EXACT]["times_plain"]
        told = f"{times:.2f}: {record['recommended']} (exact: {exact:.2f})"
        where = f"{record['set']}, {record['setting']['words']}, {record['device']}"
        yield f"the recommended fast mode: at most {MAY_COST} × plain", told, where, times <= MAY_COST


def growth(record: Record) -> Iterator[tuple[str, str, str, bool]]:
    first, last = record["samples"][0], record["samples"][-1]
    more = last["median_ms"] / first["median_ms"]
    told = f"{last['median_ms']:.2f} beside {first['median_ms']:.2f} ms: {more:.2f} times"
    asked = f"a step's time does not grow from {first['samples']:,} to {last['samples']:,} scores"
    yield asked, told, record["device"], more < 1.1  # what quartiles of such a step span


def start(record: Record) -> Iterator[tuple[str, str, str, bool]]:
    helped, imported, named = (record["rows"][key]["median_s"] for key in ("help", "import", "names"))
    where = record["device"]
    yield f"`fairweight --help`: under {HELP_MAY_TAKE} s", f"{helped:.2f} s", where, helped < HELP_MAY_TAKE
    told = f"{imported:.3f} s; {named:.2f} s once every name has been asked for"
    yield f"`import fairweight`, beyond torch: under {IMPORT_MAY_TAKE} s", told, where, imported < IMPORT_MAY_TAKE
