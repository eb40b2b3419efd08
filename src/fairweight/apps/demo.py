"""Run the paper's MNIST experiment in small: digits with 20 % of the training labels set to 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from fairweight.apps._train_text import columns
from fairweight.apps.trainings import NUMBERS
from fairweight.runs.folder import RunFolder
from fairweight.runs.run import Result, one_thread, run
from fairweight.runs.spec import Spec
from fairweight.runs.statistics import Mean, mean_text

CORRUPTION = "one-class:label=2,fraction=0.2"
TUNED, OURS = "Uniform, then fine-tuned on the exemplars", "FORML"
ROWS = ("Uniform, clean labels", "Uniform", "Exemplars only", TUNED, "Uniform with the exemplars added", OURS)
EPOCHS, MANY = 40, 80  # the 150 exemplars alone have fewer steps to an epoch; more epochs than 80 add nothing


def text_of(record: Mapping[str, Any]) -> str:
    """The rows and how well low scores find wrong labels, for a terminal."""
    auc, more = record["auc_wrong_labels"], _points(record["beside_fine_tuned"])
    lines = [(f"%, mean ± standard error, {auc['n']} seeds", *NUMBERS.values())]
    for name, row in record["rows"].items():  # in 80 columns
        lines.append((name.replace("the ", ""), *(_points(row[number]) for number in NUMBERS)))
    return (
        f"{columns(lines)}\n\nThe 150 exemplars used plainly: FORML is {more} points more accurate than fine-tuning "
        f"on them.\nA low score finds a wrong label: AUC {mean_text(auc, 3)}."
    )


def _points(entry: Mapping[str, Any]) -> str:
    return mean_text({key: None if value is None else 100 * value for key, value in entry.items()})


def spec_for(row: str, seed: int) -> Spec:
    """Spec of one run of the demo."""
    data = {
        "corruptions": [] if "clean" in row else [CORRUPTION],
        "split": {"test": 0.25, "validation": 0.0},
        "exemplar": {"source": "train", "size": 15},
    }
    method = "forml" if row == OURS else "uniform"
    spec = Spec("digits", data=data, network={"name": "mlp", "hidden": [128, 128]}, method=method, optimizer="adam",
                lr=1e-3, epochs=EPOCHS, batch_size=64, per_cell=10, seed=seed)  # fmt: skip
    if row in (TUNED, "Exemplars only"):
        spec = spec.with_(rows={"train": {"exemplars": "only"}})
    if row == TUNED:
        return spec.with_(start={"runs": [spec_for("Uniform", seed).to_dict()]})
    if row == "Exemplars only":
        return spec.with_(epochs=MANY)
    return spec.with_(rows={"train": {"exemplars": "added"}}) if "added" in row else spec


def demo(
    out: str | Path, *, seeds: int = 5, first_seed: int = 0, device: str = "cpu", tell: Callable[[str], None] = print
) -> dict[str, Any]:
    """Train every row over seeds into run folders, and draw the scores of right and wrong labels over time.

    Return plain values: by row each number over seeds, how much more accurate FORML is than fine-tuning, seed by seed,
    and how well a low score finds a wrong label.
    """
    folder, total = Path(out), len(ROWS) * seeds
    results: dict[str, list[Result]] = {name: [] for name in ROWS}
    wanted = [(row, seed) for row in ROWS for seed in range(first_seed, first_seed + seeds)]
    for number, (name, seed) in enumerate(wanted, start=1):
        spec = spec_for(name, seed)
        with one_thread():
            result = run(spec, folder / spec.folder_name, device=device)
        results[name].append(result)
        how = "found finished" if result.reused else "trained"
        tell(f"[{number:2d}/{total}] {name}, seed {seed}: {how}, accuracy {100 * result.metrics['accuracy']:.1f} %")
    accuracies, means = {}, {}
    for name, runs_of_name in results.items():
        accuracies[name] = [run.metrics["accuracy"] for run in runs_of_name]
        means[name] = {key: Mean.of([run.metrics[key] for run in runs_of_name]).to_dict() for key in NUMBERS}
    beside = [ours - theirs for ours, theirs in zip(accuracies[OURS], accuracies[TUNED], strict=True)]
    return {
        "rows": means,
        "beside_fine_tuned": Mean.of(beside).to_dict(),
        "auc_wrong_labels": Mean.of([run.metrics["scores"]["auc_wrong_labels"] for run in results[OURS]]).to_dict(),
        "folders": {name: [str(run.folder.path) for run in runs_of_name] for name, runs_of_name in results.items()},
        "picture": str(draw_scores(results[OURS][0].folder, folder / "scores.png")),
    }


def draw_scores(folder: RunFolder, path: Path) -> Path:
    """Draw the scores of right and wrong labels after each epoch: median and middle four fifths."""
    from matplotlib.figure import Figure

    weights, paths = folder.read_weights(), folder.read_paths()
    assert paths is not None
    rows, scores = paths  # [P], [epochs, P]
    wrong = torch.tensor((weights["label"].astype(str) != weights["true_label"].astype(str)).to_numpy())[rows]
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes, epochs, start = figure.subplots(), torch.arange(len(scores) + 1).numpy(), torch.zeros(1)
    for mask, name, colour in ((~wrong, "right label", "#2a6f97"), (wrong, "wrong label", "#c1121f")):
        parts = [torch.cat([start, torch.quantile(scores[:, mask], q, dim=1)]).numpy() for q in (0.1, 0.5, 0.9)]
        axes.fill_between(epochs, parts[0], parts[2], color=colour, alpha=0.2, linewidth=0)
        axes.plot(epochs, parts[1], color=colour, label=f"{name} (n = {int(mask.sum()):,})")
    axes.set(xlabel="epoch", ylabel="score", xlim=(0, len(scores)))
    axes.set_title("What each training sample is worth: median score, and the middle four fifths", fontsize=10)
    axes.legend(frameon=False, loc="center right", bbox_to_anchor=(1.0, 0.35))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    return path
