"""Opinions of models that were not trained on a row, and what a table of cleaned trainings advises."""

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from fairweight.apps.clean import MENDED, Cleaned
from fairweight.apps.condense import KEPT, Retrained, condense_run
from fairweight.apps.deliver import mended_labels
from fairweight.apps.suspects import FINISHED, HELD_OUT, LEARNED, POSTERIOR, kept, ranked_labels, stays, suspects_of
from fairweight.apps.train import TrainRequest, prepare, train
from fairweight.apps.trainings import HARMS, Compared, methods_of
from fairweight.data import Options, Split, load
from fairweight.errors import BadInput
from fairweight.runs.cross_fit import all_rows
from fairweight.runs.held_out import held_out_chances
from fairweight.runs.run import run
from fairweight.runs.spec import Spec


def test_a_model_that_has_not_seen_the_row_cannot_repeat_its_label():
    """Labels at random: an opinion that had seen them would agree with them more often than chance."""
    random = np.random.default_rng(0)
    x, y = random.normal(size=(400, 5)), random.integers(0, 2, 400)
    chances = held_out_chances(x, y, 2)
    assert chances.sum(axis=1) == pytest.approx(1.0)
    assert (chances.argmax(axis=1) == y).mean() < 0.58
    told = held_out_chances(np.concatenate([x, y[:, None]], axis=1), y, 2)
    assert (told.argmax(axis=1) == y).mean() == 1.0


def test_labels_that_no_row_or_every_row_has_are_no_trouble():
    x = np.random.default_rng(0).normal(size=(60, 2))
    assert (held_out_chances(x, np.zeros(60, dtype=int), 3)[:, 0] == 1).all()
    rare = held_out_chances(x, np.array([2] + [0, 1] * 29 + [0]), 4)  # 3 is never given, 2 once
    assert np.isfinite(np.log(rare)).all()
    assert rare[:, 3].max() < 0.05
    once = held_out_chances(x, np.eye(60, dtype=int)[7], 2)  # a regression on the other rows knows one label alone
    assert once.sum(axis=1) == pytest.approx(1.0)
    assert once[:, 1].max() < 0.5


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("held_out"), np.random.default_rng(0)
    n = 600
    x = random.normal(size=n)
    part = random.choice(["train", "exemplar", "test"], n, p=[0.6, 0.2, 0.2])
    true = np.where(x > 0, "yes", "no")
    bad = (part == "train") & (random.random(n) < 0.2)
    label = np.where(bad, np.where(true == "yes", "no", "yes"), true)
    pd.DataFrame({"x": x, "sex": random.choice(["F", "M"], n), "label": label, "part": part}).to_csv(
        folder / "people.csv", index=False
    )
    spec = Spec(
        str(folder / "people.csv"), label="label", group="sex", data={"split": {"column": "part"}}, method="uniform",
        network={"name": "mlp", "hidden": [4]}, epochs=1,
    )  # fmt: skip
    return run(spec, folder / "run").folder, bad


def people(noise, seed=0, n=2_400):
    """Two groups alike, and labels of train that are wrong at rate noise; exemplars and test are right."""
    random = np.random.default_rng(seed)
    x, part = random.normal(size=n), random.choice(["train", "exemplar", "test"], n, p=[0.6, 0.1, 0.3])
    true = np.where(x + 0.5 * random.normal(size=n) > 0.8, "yes", "no")
    bad = (part == "train") & (random.random(n) < noise)
    label = np.where(bad, np.where(true == "yes", "no", "yes"), true)
    return pd.DataFrame({"x": x, "sex": random.choice(["F", "M"], n), "label": label, "part": part}), true


@pytest.mark.parametrize("noise", [0.25, 0.0])
def test_models_are_judged_by_mended_labels_where_trusted_exemplars_show_wrong_ones(noise):
    frame, true = people(noise)
    data = load(frame, label="label", group="sex", options=Options(split=Split(column="part")))
    whole = all_rows(data)
    assert len(whole.exemplar) == (frame["part"] == "exemplar").sum(), "trusted rows stay apart"
    assert not set(whole.rows["train"].tolist()) & set(data.rows["exemplar"].tolist())
    labels, notes = mended_labels(whole, seed=0)
    if not noise:
        assert (labels, notes) == (None, [])
        return
    truth = np.array([data.label_names.index(one) for one in true])[whole.rows["train"].numpy()]
    given = whole.train.labels.numpy()
    assert (labels == truth).mean() > (given == truth).mean() + 0.05
    assert (labels == 1).mean() == pytest.approx((truth == 1).mean(), abs=0.03)  # right on average, the given ones not
    assert abs((given == 1).mean() - (truth == 1).mean()) > 0.08
    assert "training labels are wrong" in notes[0]
    assert "Test labels are as given" in notes[0]


def test_exemplars_that_were_drawn_from_train_join_it_and_mend_nothing():
    frame, _ = people(0.25)
    whole = all_rows(load(frame.drop(columns="part"), label="label", group="sex"))
    assert whole.exemplar is whole.train
    assert mended_labels(whole, seed=0) == (None, [])


def test_a_judged_run_beside_trusted_exemplars_says_how_many_labels_are_wrong(tmp_path, monkeypatch):
    monkeypatch.setattr("fairweight.runs.learners.ITERATIONS", 10)
    frame, true = people(0.25)
    frame.to_csv(tmp_path / "people.csv", index=False)
    wanted = TrainRequest(
        str(tmp_path / "people.csv"), "label", "sex", data={"split": {"column": "part"}}, learner="trees",
        candidates=("plain",),
    )  # fmt: skip
    done = train(prepare(wanted), tmp_path / "run")
    found = suspects_of(done.result.folder.path)
    wrong = (frame["label"] != true)[found.ranked["row"]].sum()
    assert found.rule == POSTERIOR
    assert found.counts()[0]["low"] <= wrong <= found.counts()[0]["high"]


def test_tables_are_judged_by_held_out_opinions_that_the_run_keeps(table, monkeypatch):
    folder, bad = table
    weights = folder.read_weights()
    found = ranked_labels(folder, weights)
    assert found.rule == POSTERIOR
    wrong = bad[weights["row"]]
    assert wrong[found.table["rank"].to_numpy() <= wrong.sum()].mean() > 0.85
    assert ranked_labels(folder, weights, trust=False).rule == HELD_OUT
    confident = ModuleType("cleanlab.count")
    confident.num_label_issues = lambda labels, chances: int((chances.argmax(axis=1) != labels).sum())
    monkeypatch.setitem(sys.modules, "cleanlab", ModuleType("cleanlab"))
    monkeypatch.setitem(sys.modules, "cleanlab.count", confident)
    assert found.confident() == pytest.approx(wrong.sum(), rel=0.3)
    Path(folder.read_spec().source).unlink()  # no source is opened
    assert ranked_labels(folder, weights).rule == POSTERIOR
    monkeypatch.setattr("fairweight.apps.suspects.HELD_OUT_PARTS", ("none", "none"))  # as an older run
    other = ranked_labels(folder, weights)
    assert other.rule == FINISHED
    assert other.confident() is None


def test_pictures_are_not_counted_by_a_model_that_errs_on_trusted_ones(tmp_path):
    data = {"corruptions": ["uniform-flips:fraction=0.2"], "split": {"validation": 0.0}, "exemplar": {"size": 10}}
    spec = Spec("digits", data=data, method="uniform", network={"name": "mlp", "hidden": [8]}, epochs=1)
    folder = run(spec, tmp_path / "run").folder
    found = suspects_of(folder.path)
    assert found.rule == LEARNED
    assert found.counts() == []
    assert sorted(found.ranked["rank"]) == list(range(1, len(found.ranked) + 1))
    assert "cannot be said: the model errs" in found.text(3)
    with pytest.raises(BadInput, match="cannot be mended: the model errs"):
        found.relabelled()


def test_pictures_are_named_by_their_files(tmp_path):
    draw = np.random.default_rng(0)
    for kind in ("cat", "dog"):
        (tmp_path / "pets" / kind).mkdir(parents=True)
        for place in range(30):
            pixels = draw.integers(0, 256, (6, 6), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pets" / kind / f"{place}.png")
    spec = Spec(str(tmp_path / "pets"), method="uniform", network={"name": "mlp", "hidden": [4]}, epochs=1)
    folder = run(spec, tmp_path / "run").folder
    files = sorted(str(path.relative_to(tmp_path / "pets")) for path in tmp_path.rglob("*.png"))
    found = suspects_of(folder.path)
    written = condense_run(folder.path, "10%", "weighted-loss", 2)
    for table in (folder.read_weights(), found.ranked, kept(found.ranked), pd.read_parquet(written.out / KEPT)):
        assert table["file"].tolist() == [files[row] for row in table["row"]]
    frame = folder.read_weights()
    frame["file"] = 7
    frame.to_parquet(folder.path / "weights.parquet", index=False)
    folder.seal()
    with pytest.raises(BadInput, match="holds no names of files"):
        folder.read_weights()


def test_trainings_beside_a_run_leave_its_thresholds_out():
    """They were found for another model: what such a run predicts would not be what its numbers are of."""
    spec = Spec("t.csv", method="reweighing", judge={"shift": [[0.0, 1.0]]})
    assert [one.judge for one in methods_of(spec).values()] == [{}, {}]


def _compared(beside, arms, row_noise, wobble=(-0.2, -0.1, 0.0, 0.1, 0.2)):
    """By set: accuracy and gap of five seeds beside 80 and 10 on the first one."""

    def seeds(accuracy, gap, missed=30.0, *, sign=1):
        numbers = [{"accuracy": accuracy + sign * d, "tprd": gap + sign * d, "max_fnr": missed} for d in wobble]
        return {str(k): found for k, found in enumerate(numbers)}

    found = {beside: seeds(80.0, 10.0), **{arm: seeds(*numbers, sign=-1) for arm, numbers in arms.items()}}
    rows = {
        arm: {"accuracy": _around(accuracy - 80, row_noise), "tprd": _around(gap - 10, row_noise)}
        for arm, (accuracy, gap, *_) in arms.items()
    }
    return Compared(beside, {"uniform": found}, {"uniform": rows})


def _cleaned(arms, row_noise=0.5):
    return Cleaned(Path(), 50, 40, 50, [], _compared("as-given", arms, row_noise))


def _around(value, noise):
    return value - noise, value + noise


def test_what_test_rows_drawn_anew_would_not_show_is_chance():
    arms = dict.fromkeys(MENDED, (82.0, 5.0))
    assert _cleaned(arms).recommended == "relabelled"
    assert _cleaned(arms, row_noise=6.0).recommended is None


def test_where_every_seed_gives_the_same_the_test_rows_alone_decide():
    arms = {"kept": (79.0, 10.0), "random": (82.0, 10.0)}

    def moved(arm, row_noise, wobble):
        return _compared("full", arms, row_noise, wobble).moved("uniform", arm)

    assert [moved(arm, 0.5, [0.0] * 5) for arm in arms] == [["costs accuracy"], ["raises accuracy"]]
    assert [moved(arm, 6.0, [0.0] * 5) for arm in arms] == [[], []]
    assert moved("random", 0.5, [0.0]) == []  # one seed tells nothing of training


def test_a_gap_that_narrows_because_more_are_missed_in_the_worst_group_is_no_help():
    arms = {"relabelled": (80.0, 0.0, 100.0), "weighted": (80.0, 5.0, 25.0), "dropped": (80.0, 0.0, 100.0)}
    found = _cleaned(arms)
    assert found.recommended == "weighted"
    assert found.compared.moved("uniform", "relabelled") == ["narrows the gap by missing more in the worst group"]
    assert not found.compared.methods("relabelled", HARMS)
    assert _cleaned({**arms, "weighted": (80.0, 5.0, 35.0)}).recommended is None


@pytest.mark.parametrize(
    ("kept", "says"),
    [
        ((80.0, 15.0), "Keep all samples, or drop fewer: training on what the rule keeps widens the gap (uniform)."),
        ((79.0, 5.0), "Keep all samples, or drop fewer: training on what the rule keeps costs accuracy (uniform)."),
        ((79.0, 15.0), "Keep all samples, or drop fewer: training on what the rule keeps widens the gap (uniform) and"),
        ((80.0, 10.0), "The smaller set does no harm beyond chance on these test rows."),
        ((80.0, 5.0), "The smaller set does no harm beyond chance on these test rows; it narrows the gap (uniform)."),
    ],
)
def test_a_smaller_set_has_the_verdict_of_a_cleaned_one(kept, says):
    found = Retrained(_compared("full", {"kept": kept, "random": (80.0, 10.0)}, 0.5), {})
    assert found.verdict().startswith(says)


@pytest.mark.parametrize(
    ("arms", "recommended", "says"),
    [
        ([(80.0, 5.0), (80.0, 10.0), (80.0, 15.0)], "relabelled", "widens the gap"),
        ([(79.0, 5.0), (80.0, 10.0), (82.0, 10.0)], "dropped", "helps"),
        ([(79.0, 5.0), (79.0, 9.0), (82.0, 15.0)], None, "Do not clean: every way"),
        ([(80.0, 10.0), (80.0, 10.0), (80.0, 10.0)], None, "Do not clean: no way"),
    ],
)
def test_what_harms_is_never_recommended_and_mending_comes_before_dropping(arms, recommended, says):
    found = _cleaned(dict(zip(MENDED, arms, strict=True)))
    assert found.recommended == recommended
    assert says in found.advice()


def test_half_of_every_cell_stays_however_suspect_it_is():
    ranked = pd.DataFrame(
        {"rank": np.arange(1, 41), "given": ["a"] * 30 + ["b"] * 10, "group": ["x"] * 40, "suspected": True}
    )
    kept = stays(ranked, floor=4)
    assert kept[:30].sum() == 15
    assert kept[30:].sum() == 5
    assert not kept[0]  # the most suspect go
