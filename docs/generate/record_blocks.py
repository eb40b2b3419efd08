"""Texts of the places `<!-- records:NAME -->` that show records of single benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairweight.paper._table_text import markdown, seeds_text
from fairweight.runs.statistics import mean_text

Record = Mapping[str, Any]


def block(name: str, found: Mapping[str, Record]) -> str | None:
    """The text of a marked place from the newest record of its kind; None where the name is not one of ours."""
    if name not in BLOCKS:
        return None
    kind, text = BLOCKS[name]
    newest = [record for record in found.values() if record.get("kind") == kind][-1:]
    return text(newest[0]) if newest else f"No record of the kind {kind!r} yet."


def history_cost(record: Record) -> str:
    """What keeping histories costs, network by network."""
    titles = ["network", "a plain step, ms", "in the history, ms", "share of an epoch", "by difference", "n"]
    rows = []
    for name, row in record["rows"].items():
        shares = []
        for key in ("share_of_epoch", "share_by_difference"):
            low, high = row[f"{key}_quartiles"]
            shares.append(f"{100 * row[key]:.2f} % ({100 * low:.2f} to {100 * high:.2f})")
        rows.append([name, f"{row['epoch_ms_per_step']:.3g}", f"{row['history_ms']:.4f}", *shares, row["n"]])
    told = f"Medians (quartiles), processor time; {record['device']}; `{record['command']}`; commit {record['commit']}."
    return f"{markdown(titles, rows)}\n\n{told}"


def judgement_fresh(record: Record) -> str:
    """What train hands over on fresh seeds beside its own plain model, set by set."""
    titles = ["set", "n", "plain left", "gap of plain", "change of the gap", "change of accuracy", "gap larger"]
    rows = [
        [name, one["n"], one["left_plain"], *(mean_text(one[key]) for key in ("gap_before", "gap", "accuracy")),
         one["gap_larger"]]
        for name, one in {**record["sets"], "**all**": record["all"]}.items()
    ]  # fmt: skip
    told = f"Points on test, mean ± standard error; {record['device']}; commit {', '.join(record['commits'])}."
    return f"{markdown(titles, rows)}\n\n{told}"


def label_bias(record: Record) -> str:
    """LB's MNIST record beside its authors' log: a table for each rate, training by training, and the test."""

    def spread(entry: Mapping[str, Any], digits: int = 2) -> str:
        sd = "" if entry["sd"] is None else f" ({entry['sd']:.{digits}f})"
        return f"{entry['mean']:.{digits}f}{sd}"

    parts = [f"{record['what']}; {record['device']}, commit {', '.join(record['commits'])}. Test: {record['test']}."]
    for run in record["runs"]:
        beside = any("published" in at for at in run["trainings"])
        titles = ["training", "λ", "test accuracy, % (sd)", "TPRD, % (sd)"]
        rows = []
        for at in run["trainings"]:
            theirs, cells = at.get("published"), ["–"] * 3 if beside else []
            if theirs is not None:
                p = "–" if theirs["p"] is None else f"{theirs['p']:.2f}"
                cells = [f"{theirs['multiplier']:.3f}", f"{theirs['test_accuracy']:.2f}", p]
            ours = [spread(at["multiplier"], 3), spread(at["test_accuracy"]), spread(at["test_tprd"])]
            rows.append([at["training"], *ours, *cells])
        parts.append(f"Rate {run['settings']['rate']:g}, {seeds_text(run['n'])}. {run['remark']}")
        parts.append(markdown([*titles, *(["notebook's λ", "notebook's accuracy", "p"] if beside else [])], rows))
    return "\n\n".join(parts)


def wrong_labels(record: Record) -> str:
    """FORML with and without shared scores where labels are wrong: differences, the rule's conditions, set by set."""

    def span(entry: Mapping[str, Any]) -> str:
        return f"{entry['mean']:+.2f} [{entry['low']:+.2f}, {entry['high']:+.2f}]"

    apart = []
    for kind, pairs in record["differences"].items():
        for other, change in pairs.items():
            title = other if "beside" in other else f"{WRONG_LABELS[-1]}, beside {other}"
            apart.append([kind, title, span(change["accuracy"]), span(change["gap"]), change["gap"]["n"]])
    held = "\n".join(f"- {'Holds' if fine else 'Fails'}: {text}." for text, fine in record["checks"].items())
    sets = []
    for one in record["sets"]:
        means = [one["means"].get(row) for row in WRONG_LABELS]
        cells = [f"{mean_text(m['accuracy'])} / {mean_text(m['gap'])}" if m else "–" for m in means]
        sets.append([one["set"], NOISES[one["noise"]], one["n"], one["found"], *cells, span(one["change"]["gap"])])
    differences = markdown(["labels wrong", "points", "accuracy", "equal-opportunity gap", "seeds"], apart)
    by_set = markdown(["set", "labels wrong", "seeds", "found", *WRONG_LABELS, "gap by the rule, beside shared"], sets)
    told = record["delivered"]["difference"]
    given = f"accuracy {span(told['accuracy'])}, gap {span(told['gap'])}"
    said = f"`fairweight train` without `--method`, Adult with 20 % of women's labels flipped, beside plain: {given}."
    about = f"Accuracy / gap, mean ± standard error; 95 % intervals; {record['device']}; `{record['command']}`; commit"
    return f"{differences}\n\n{held}\n\n{by_set}\n\n{said}\n\n{about} {record['commit']}."


NOISES = {"group": "20 % of a group's", "group10": "10 % of a group's", "uniform20": "20 % of all", "clean": "none"}
WRONG_LABELS = ("plain", "FORML, shared scores", "FORML by the rule")  # rows of the record


def label_flips(record: Record) -> str:
    """What scores of samples and of cells do where one group's labels are wrong, beside plain training."""

    def span(entry: Mapping[str, Any]) -> str:
        return f"{entry['mean']:+.2f} [{entry['low']:+.2f}, {entry['high']:+.2f}]"

    titles = ["beside plain training, in points", "accuracy", "equal-opportunity gap"]
    rows = ([name, span(one["accuracy"]), span(one["gap"])] for name, one in record["beside_plain"].items())
    told = "\n".join(f"- {answer['sentence']}" for answer in record["answers"])
    sets = []
    for name, one in record["sets"].items():
        means = one["means"]
        sets.append([name, *(mean_text(means[row]["gap"]) for row in LABEL_FLIPS), len(one["runs"])])
    by_set = markdown(["gap, %", *LABEL_FLIPS.values(), "seeds"], sets)
    about = f"Means over sets and shares, seed by seed; 95 % intervals; {record['device']}; `{record['command']}`"
    return f"{markdown(titles, rows)}\n\n{told}\n\n{by_set}\n\n{about}; run at {record['commit']}."


LABEL_FLIPS = {  # rows of the record that stand set by set
    "plain": "plain",
    "plain, true labels": "plain, true labels",
    "FORML, scores of cells alone": "FORML, cells",
    "FORML, scores of samples and cells": "FORML, both (the default)",
    "FORML, scores of samples alone": "FORML, samples",
}


def scaling(record: Record) -> str:
    """Bytes and predicted time of a step, by the number of GPUs."""
    links, parts = record["links"], []
    titles = ["GPUs", "summed beside the gradient, MB", "gathered, MB", "plain step, ms", "FORML step, ms", "× plain",
              "efficiency, plain", "efficiency, FORML"]  # fmt: skip
    for name, step in record["steps"].items():
        lines = [
            [row["ranks"], f"{row['summed_mb']:,.0f}", f"{row['gathered_mb']:,.2f}", f"{row['plain_ms']:.1f}",
             f"{row['forml_ms']:.1f}", f"{row['forml_ms'] / row['plain_ms']:.2f}",
             f"{100 * row['plain_efficiency']:.0f} %", f"{100 * row['efficiency']:.0f} %"]
            for row in record["rows"] if row["network"] == name
        ]  # fmt: skip
        about = f"{step['parameters']:,} parameters, {step['batch']} samples and {step['exemplars']} exemplars a GPU"
        measured = step["from"].startswith("measured")
        source = step["from"] if measured else f"extrapolated from {step['from']} (record `{record['steps_from']}`)"
        parts.append(f"**{name}**: {about}. One GPU's step: {source}.\n\n{markdown(titles, lines)}")
    inside, between = f"{links['inside_gb_s']:g} GB/s", f"{links['between_gb_s']:g} GB/s"
    said = (
        f"Links: {inside} within a machine of {links['per_machine']} GPUs, {between} a GPU between machines; an "
        f"exchange takes at least {links['inside_us']:g} µs, and {links['hop_us']:g} µs more for each doubling of "
        f"machines. Commit {record['commit']}."
    )
    return "\n\n".join([*parts, said])


def sharded_scores(record: Record) -> str:
    """What a rank's part of a billion scores takes."""
    titles = ["ranks", "scores a rank", "memory a rank, MB", "read, move and read again, ms (quartiles)", "n"]
    lines = [
        [row["ranks"], f"{row['scores']:,}", f"{row['memory_mb']:.0f}",
         f"{row['median_ms']:.2f} ({row['quartiles_ms'][0]:.2f} to {row['quartiles_ms'][1]:.2f})", row["n"]]
        for row in record["scores"]
    ]  # fmt: skip
    batch = record["scores"][0]["batch"]
    told = f"Global batch of {batch:,} rows; processor time without exchanges; {record['device']}."
    return f"{markdown(titles, lines)}\n\n{told}"


def trainers(record: Record) -> str:
    """A step of each framework, plain and with FORML."""
    titles = ["framework", "network", "plain step, ms (quartiles)", "with FORML, ms (quartiles)", "× plain", "n"]

    def spread(row: Mapping[str, Any], way: str) -> str:
        low, high = row[f"{way}_quartiles"]
        return f"{row[f'{way}_ms']:.2f} ({low:.2f} to {high:.2f})"

    lines = []
    for name, row in record["rows"].items():
        times = f"{row['forml_ms'] / row['plain_ms']:.1f}"
        lines.append([name, row["what"], spread(row, "plain"), spread(row, "forml"), times, row["n"]])
    used = ", ".join(f"{name} {number}" for name, number in record["frameworks"].items())
    told = f"Processor time of one thread, batches of 64; {record['device']}; {used}; commit {record['commit']}."
    return f"{markdown(titles, lines)}\n\n{told}"


def torchrun_adult(record: Record) -> str:
    """One process and two, on the same table."""
    found, same = record["numbers"], "to the last digit equal" if record["same_table"] else "NOT equal"
    apart = f"{record['largest_score_difference']:.0e} (standard deviation {record['score_std']:.2f})"
    return (
        f"`{record['command']}` gives one log and one table, {same} to that of one process: accuracy "
        f"{100 * found['accuracy']:.2f} %, TPRD {100 * found['tprd']:.2f} points, {found['n']:,} test rows. In "
        f"{record['precision']} the scores differ by at most {apart}. {record['device']}; commit {record['commit']}."
    )


BLOCKS = {
    "torchrun-adult": ("torchrun adult", torchrun_adult),
    "trainers": ("trainers", trainers),
    "scaling": ("scaling", scaling),
    "sharded-scores": ("scaling", sharded_scores),
    "judgement-fresh": ("judgement fresh", judgement_fresh),
    "history-cost": ("dynamics_cost", history_cost),
    "label-bias-notebook": ("label bias", label_bias),
    "wrong-label-default": ("wrong labels", wrong_labels),
    "label-flips": ("label flips", label_flips),
}
