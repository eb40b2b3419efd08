"""What is tried on a table: several seeds, several classes, columns side by side; and the choice between two runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.cli.test_train_judged import crowd
from tests.tables import people

from fairweight.apps.candidates import Candidate, reference
from fairweight.apps.deliver import Search, closest, gone_wrong, search, short_of_bound, too_few
from fairweight.apps.judge import Goal, Judgement, Rows, Score, TrainRequest
from fairweight.apps.pair import _write_shifted, best_of
from fairweight.apps.train import goal_for
from fairweight.apps.weights import Weights
from fairweight.data import GroupOptions, Options, load
from fairweight.errors import BadInput, MissingData
from fairweight.metrics.criterion import criterion
from fairweight.runs.cross_fit import all_rows
from fairweight.runs.folder import RunFolder
from fairweight.runs.learners import Learner, Way
from fairweight.training.predict import logits
from fairweight.types import Batch

FAIR = criterion("equal-opportunity")


def asked(learner: str, *candidates: str, **more: Any) -> TrainRequest:
    return TrainRequest("frame", learner=learner, candidates=candidates, **more)


def test_scores_by_cell_close_a_gap_that_the_inputs_carry_and_keep_each_labels_total():
    data = load(crowd(1500, 1), label="income", group="sex")
    found = search(data, asked("linear", "forml-rates"), Goal(FAIR, budget=5))
    assert found.chosen.name.startswith("forml-rates")
    gaps = {one.name: j.score.gap for one, j in zip(found.candidates, found.judgements, strict=True)}
    assert gaps["forml-rates-1"] < gaps["forml-rates-0.5"] < gaps["plain"]
    weights, labels = found.fitted.weights, found.dataset.train.labels
    for label in (0, 1):
        assert float(weights[labels == label].mean()) == pytest.approx(1, abs=1e-5)


def test_groups_whose_rates_take_no_part_are_named():
    few = Rows(np.ones(60, dtype=int), np.r_[[0] * 50, [1] * 3, [2] * 7], 2)
    whole = SimpleNamespace(group_names=("a", "b", "c"), label_names=("no", "yes"))
    (said,) = too_few(few, few.labels, Goal(FAIR), whole)
    assert said == "Groups 'b', 'c' have rates on fewer than 10 rows, which took no part in the choice."
    (said,) = too_few(few.at(few.codes != 1), few.labels[few.codes != 1], Goal(FAIR), whole)
    assert said.startswith("Group 'c' has a rate on fewer than 10 rows")
    assert too_few(few.at(few.codes == 0), few.labels[few.codes == 0], Goal(FAIR), whole) == []


def test_further_seeds_vote_on_every_row():
    data = load(crowd(600, 1), label="income", group="sex")
    found = search(data, asked("linear", "reweighing", seeds=3), Goal(FAIR))
    one = found.candidates[0]
    assert len(one.other_seeds) == 2
    assert not np.array_equal(one.chances, one.other_seeds[0])
    shares = one.votes(np.ones(len(one.chances), dtype=bool))
    assert set(np.unique(np.round(3 * shares)).tolist()) <= {0, 1, 2, 3}
    np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_a_seed_that_predicts_some_rows_alone_counts_there_alone():
    half, nan = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0.4, 0.6], [np.nan, np.nan]])
    one = Candidate("plain", "linear", Way(), 1, half, other_seeds=(nan,))
    np.testing.assert_allclose(one.votes(np.array([True, True])), [[0.5, 0.5], [0, 1]])


@pytest.mark.parametrize(
    ("high", "within", "says"),
    [(0.01, True, "chance may explain the smaller gap (90 % interval"), (0.01, False, "costs more accuracy")],
)
def test_what_came_closest_says_what_it_lacked(high, within, says):
    one = Candidate("reweighing-1", "trees", Way(), 1, np.zeros((1, 2)))
    found = Judgement(Score(0.8, 0.8, 0.3, 0.05), (-0.05, -0.1, high), False, within)
    told = closest([one], [found], Score(0.81, 0.8, 0.3, 0.1), Goal(FAIR))
    assert "reweighing-1 (trees), gap 10.0 → 5.0 points, accuracy -1.00 points" in told
    assert says in told
    assert closest([one], [replace(found, change=(0.01, 0.0, 0.1))], Score(0.8, 0.8, 0.3, 0.1), Goal(FAIR)) == ""
    errors = closest([one], [found], Score(0.81, 0.8, 0.3, 0.1), Goal(criterion("worst-group")))
    assert errors == told.replace("gap", "error")


def test_a_bound_that_is_not_kept_is_said_with_what_was_refused():
    names = [Candidate(f"reweighing-{k}", "trees", Way(), 1, np.zeros((1, 2))) for k in (1, 2)]
    scores = Score(0.8, 0.8, 0.3, 0.05), Score(0.8, 0.6, 0.3, 0.01)
    found = [Judgement(score, (-0.05, -0.1, -0.01), k == 1, True) for k, score in enumerate(scores)]
    told = short_of_bound(names, found, scores[0], Goal(FAIR, bound=2))
    assert "The bound of 2 points is not kept" in told
    assert "the gap is 5.0 points" in told
    assert "reweighing-2 (trees) does, and is refused: it predicts almost the same for everybody." in told
    assert "refused" not in short_of_bound(names[:1], found[:1], scores[0], Goal(FAIR, bound=2))
    assert short_of_bound(names, found, scores[0], Goal(FAIR, bound=6)) == ""
    assert short_of_bound(names, found, scores[0], Goal(FAIR)) == ""


def test_plain_training_that_says_the_same_of_all_rows_gives_way_to_one_within_the_budget():
    labels = np.repeat([1, 1, 1, 0], 100)
    every = np.ones(400, dtype=bool)

    def one(learner: str, said: np.ndarray) -> Candidate:
        return Candidate("plain", learner, Way(), 1, np.eye(2)[said])

    same, close, far = np.ones(400, dtype=int), np.ones(400, dtype=int), np.ones(400, dtype=int)
    close[[0, 300, 1]] = 0  # one right and two wrong: a quarter of a point below
    far[:8] = 0
    models = [one("trees", same), one("linear", far)]
    assert reference(models, every, labels, Goal(FAIR)).learner == "trees", "two points behind is too far"
    assert reference([*models, one("mlp", close)], every, labels, Goal(FAIR)).learner == "mlp"
    assert reference([*models, one("mlp", close)], every, labels, Goal(FAIR, budget=0.1)).learner == "trees"


def test_a_last_training_is_held_to_what_the_same_did_on_rows_it_had_not_seen():
    whole = all_rows(load(crowd(600, 1), label="income", group="sex"))
    fitted = Learner("linear", whole).whole(Way(), 1)
    said = logits(fitted.model, whole.train).argmax(dim=1).numpy()
    own = Score.of(Rows(whole.train.labels.numpy(), None, 2), said, criterion("recall-parity"))
    assert not gone_wrong(fitted, whole, own)
    assert not gone_wrong(fitted, whole, replace(own, balanced=own.balanced - 0.2)), "better on rows it has seen"
    assert gone_wrong(fitted, whole, replace(own, balanced=own.balanced + 0.021))
    assert gone_wrong(fitted, whole, replace(own, share=2.1 * own.share))


def told_by_group() -> pd.DataFrame:
    """Rows whose group is their label."""
    frame = people(300)
    return frame.assign(sex=frame["income"].map({"high": "H", "low": "L"}))


@pytest.mark.parametrize("name", ["equal-opportunity", "equalized-odds"])
def test_groups_without_a_label_in_common_are_refused_where_the_criterion_compares_it(name):
    data = load(told_by_group(), label="income", group="sex", options=Options(groups=GroupOptions(below="keep")))
    with pytest.raises(BadInput, match=f"the {name} gap cannot be estimated: fewer than two groups of 'sex'"):
        goal_for(data, name)
    assert goal_for(data, "accuracy-parity").criterion.name == "accuracy-parity"


def test_forml_is_left_out_where_it_has_nothing_to_compare():
    data = load(told_by_group(), label="income", group="sex", options=Options(groups=GroupOptions(below="keep")))
    wanted = TrainRequest("frame", learner="linear", candidates=("forml-cells",))
    found = search(data, wanted, goal_for(data, "demographic-parity"))
    assert [one.name for one in found.candidates] == ["plain"]
    assert any(note.startswith("FORML was left out") for note in found.notes)


def test_several_classes_get_a_bias_per_class_for_free(monkeypatch):
    monkeypatch.setattr("fairweight.runs.learners.ITERATIONS", 25)  # quick, and enough for two columns
    draw = np.random.default_rng(0)
    job = draw.choice(["a", "b", "c"], size=1500, p=[0.7, 0.2, 0.1])
    x = (job == "b") * 1.0 + (job == "c") * 2.0 + draw.normal(0, 0.9, 1500)
    data = load(pd.DataFrame({"x": x, "z": draw.normal(size=1500), "job": job}), label="job")
    goal = Goal(criterion("recall-parity"), budget=8)
    found = search(data, asked("trees"), goal)
    assert [one.name for one in found.candidates] == ["plain", *(f"plain + bias-{s}" for s in ("0.25", "0.5", "1"))]
    assert "bias" in found.chosen.name
    assert found.fitted.model is found.fitted_plain.model
    assert np.shape(found.fitted.shift) == (1, 3)


def test_columns_side_by_side_count_the_worst_and_crossed_cells_may_be_small():
    frame = people(600).assign(city=["north", "south", "east"] * 200)
    data = load(frame, label="income", group=["sex", "city"])
    fair = goal_for(data, None, None, None, each=True).criterion
    assert [name for name, _ in fair.views] == ["sex", "city"]
    draw = np.random.default_rng(0)
    counts = draw.integers(1, 50, size=(6, 2, 2))
    by_sex = np.stack([counts[[k for k, c in enumerate(fair.views[0][1]) if c == v]].sum(axis=0) for v in (0, 1)])
    by_city = np.stack([counts[[k for k, c in enumerate(fair.views[1][1]) if c == v]].sum(axis=0) for v in (0, 1, 2)])
    assert fair.gap_of(counts) == pytest.approx(max(FAIR.gap_of(by_sex), FAIR.gap_of(by_city)))
    push = fair.pressure(counts)
    same_sex = [k for k, c in enumerate(fair.views[0][1]) if c == 0]
    cities = FAIR.pressure(by_city)[[fair.views[1][1][k] for k in same_sex]]
    np.testing.assert_allclose(push[same_sex] - cities, FAIR.pressure(by_sex)[[0] * 3])
    with pytest.raises(BadInput):
        goal_for(load(frame, label="income", group="sex"), None, None, None, each=True)


class Folder:
    """A run's logits on validation, or none."""

    def __init__(self, logits: np.ndarray | None, labels: np.ndarray) -> None:
        self.logits, self.labels = logits, labels

    def read_logits(self, part: str):
        if self.logits is None:
            raise MissingData("no validation rows")
        return torch.from_numpy(self.logits), torch.from_numpy(self.labels), None


def test_of_two_runs_the_better_one_or_its_second_stage_is_kept():
    draw = np.random.default_rng(0)
    labels = draw.integers(3, size=3000)
    noise = draw.normal(size=(3000, 3))
    uneven = 2 * np.eye(3)[labels] + noise - np.array([0, 0, 1.5])
    plain, forml = Folder(uneven, labels), Folder(2 * np.eye(3)[labels] + noise, labels)
    goal = Goal(criterion("recall-parity"), budget=1)
    data = SimpleNamespace(label_names=("a", "b", "c"), group_names=())
    assert best_of({"plain": plain, "forml": forml}, goal, data, 0)[0] == "forml"
    _, shift, judged = best_of({"plain": plain, "forml": plain}, goal, data, 0)
    assert judged["chosen"] == "plain + bias-1"
    np.testing.assert_allclose(shift[0, 2] - shift[0, :2], 1.5, atol=0.4)
    _, shift, judged = best_of({"plain": forml, "forml": forml}, goal, data, 0)
    assert (judged["chosen"], shift) == ("plain", None)
    assert best_of({"plain": Folder(None, labels)}, goal, data, 0)[2]["chosen"] == "plain"
    assert len(best_of({"plain": plain, "forml": plain}, goal, data, 0, alone=True)[2]["candidates"]) == 2


def test_the_words_on_weights_are_those_of_the_verdict_and_promise_no_bias():
    plain = Candidate("plain", "trees", Way(), 1, np.zeros((1, 2)))
    moved = replace(plain, name="plain + bias-0.5", shift=np.zeros((1, 2)))
    fitted = SimpleNamespace(weights=np.ones(3))

    def said(chosen: Candidate, **more: str) -> str:
        found = Search(None, None, None, plain, [plain], [], chosen, fitted, fitted, **more)  # type: ignore[arg-type]
        return Weights(found, Path("w.csv")).text()

    assert said(plain) == "No weights beat plain training, so every row counts 1: w.csv"
    assert said(plain, why="Plain training keeps the bound") == (
        "Plain training keeps the bound, so every row counts 1: w.csv"
    )
    assert "bias per class is no weight: `fairweight train` gives" in said(moved)
    assert "bias" not in said(replace(plain, name="reweighing-1"))


def test_a_second_stage_moves_the_logits_of_every_part_that_the_run_has_kept(tmp_path):
    winner, folder = RunFolder(tmp_path / "winner"), RunFolder(tmp_path / "kept")
    batch = Batch(torch.zeros(2, 1), torch.tensor([0, 1]))
    winner.make()
    folder.make()
    winner.write_logits(dict.fromkeys(("test", "exemplar", "train"), (batch, torch.tensor([[1.0, 0.0], [0.0, 1.0]]))))
    parts = {"test": batch, "exemplar": batch, "validation": None, "train": batch}
    dataset = SimpleNamespace(**parts, rows={"test": torch.arange(2)}, label_names=("a", "b"), group_names=())
    _write_shifted(folder, SimpleNamespace(folder=winner), [[0.0, 2.0]], dataset)
    for part in ("test", "exemplar", "train"):  # that of train is what suspects are found by
        assert folder.read_logits(part)[0].tolist() == [[1.0, 2.0], [0.0, 3.0]]
    assert folder.read_predictions()["predicted"].tolist() == ["b", "b"]
